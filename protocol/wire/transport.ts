/**
 * What a connection's endpoint needs of whatever carries its bytes. Two kinds: a byte stream (Unix socket, pipe), where frames
 * have a length prefix and arrive in any split, and messages (WebSocket), where one binary message is one frame without the
 * prefix. A transport owns its socket: one writer, one reader, closed once.
 */

export type Framing = 'stream' | 'message'

export interface TransportHandlers {
  /** Bytes as they came: any piece of the stream, or one whole message. The bytes stay valid and unchanged for ever. */
  data(bytes: Uint8Array): void
  /** After a `write` that returned false: there is room again. */
  drain(): void
  /** Once, last. `error` is absent when the other side closed in order. */
  closed(error?: Error): void
}

export interface Transport {
  readonly framing: Framing
  /** Starts delivering. Called once, in the same turn in which the transport was made. */
  open(handlers: TransportHandlers): void
  /**
   * Takes pieces of the stream, or whole messages, in order. It neither changes nor copies them for longer than the call needs;
   * the caller must not change them afterwards. false: wait for `drain` before writing more (these are taken all the same).
   */
  write(pieces: readonly Uint8Array[]): boolean
  /** Sends what was written, then closes the way out; `closed` follows when the other side closes too. Idempotent. */
  end(): void
  /** Closes at once, dropping what was not sent. Idempotent. */
  destroy(): void
}
