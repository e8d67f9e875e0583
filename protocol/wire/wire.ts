/**
 * The contract of one connection's endpoint, the same on both sides and for every transport: values in, values out, lanes,
 * credit and liveness in between. One owner, one `end`.
 */
import type { WireCode } from '../errors.ts'
import type { FrameType, Side } from '../frames.ts'

export interface WireHandlers {
  /**
   * One whole value; types of this side's own direction, WINDOW, PING and PONG never reach it. Credit for reliable and bulk
   * values returns to the sender when the handler returns, or when the promise it returned settles. A throw or a rejection
   * ends the connection with an ERROR of that code (`internal` for what is no RoomdError); after the end it is dropped, since
   * nobody is left to be told. `payload` is valid for ever and may be shared: never change it; a small one that is kept for
   * long should be copied, since it keeps the chunk alive in which it came.
   */
  value(type: FrameType, channel: number, payload: Uint8Array): void | Promise<void>
  /** A channel that refused an `offer` has credit again and an empty queue. */
  writable?(channel: number): void
  /** Once; nothing follows. Never called from inside a call into the wire. */
  closed(end: WireEnd): void
}

export interface WireEnd {
  /** `local`: this side ended it. `remote`: the other side closed. `error`: an ERROR frame, ours or theirs. `lost`: transport failure or no answer to PINGs. */
  readonly cause: 'local' | 'remote' | 'error' | 'lost'
  readonly code?: WireCode
  readonly message: string
}

export interface Wire {
  readonly side: Side
  /**
   * Queues a value that may not be lost: handshake, responses, requests. Throws `too_large` over the type's cap; nothing is
   * written then. Ignored after the end, and for a channel that is not open (but for control frames such as OPEN and CLOSE).
   */
  send(type: FrameType, channel: number, payload: Uint8Array): void
  /**
   * Queues a value if channel and connection stay within their bounds (4 and 16 MiB; a larger value passes when nothing waits
   * before it). false: nothing was queued and the caller must treat the channel as stale until `writable`; every offer on it
   * is refused until then. EPHEMERAL never returns false: the oldest are dropped.
   */
  offer(type: FrameType, channel: number, payload: Uint8Array): boolean
  /** Bytes queued and not yet handed to the transport; of one channel or of all. */
  queued(channel?: number): number
  /** Starts credit accounting of a channel; frames of channels that are not open are discarded. 0 is always open. */
  openChannel(channel: number): void
  /** Drops what is queued for it, but for what is on the control lane. */
  closeChannel(channel: number): void
  /** Milliseconds since something was read. */
  idle(): number
  /** Sends ERROR and closes. */
  fail(code: WireCode, message: string): void
  /** Sends what is queued (at most `drainMs`), then closes. */
  end(drainMs?: number): void
  /** Closes at once. */
  destroy(message?: string): void
}
