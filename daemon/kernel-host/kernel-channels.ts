/**
 * The host's way to a kernel's channels, whatever carries them: ZeroMQ (channels.ts) to a kernel of this machine, a WebSocket
 * (remote/ws-channels.ts) to one that a gateway runs. Messages cross it whole and in order; who implements it owns encoding,
 * signing and connecting again.
 */
import type { Channel } from './connection-file.ts'
import type { OutgoingMessage, RawMessage } from './jupyter-message.ts'

export interface ChannelHandlers {
  /** The channels can be used. `again`: they could not for a while; what was under way then has an unknown fate. */
  connected(again: boolean): void
  /** They cannot be used now; they connect again by themselves. */
  lost(reason: string): void
  /** The kernel's end of a channel closed: it may be gone. */
  closed(): void
  /**
   * One message. A channel is not read on before the promise settles; it never rejects. Messages that are there at once are given
   * within one turn of the loop.
   */
  message(channel: Channel, raw: RawMessage): void | Promise<void>
  /** Something came that is no message. */
  unreadable(channel: Channel | 'websocket', error: unknown): void
  /** Messages before the next one are missing, or may be. */
  gap(reason: string): void
}

export type OutgoingChannel = 'shell' | 'control' | 'stdin'

export interface KernelChannels {
  /** Begins; call once, when the handlers may be called. */
  open(): void
  readonly connected: boolean
  /** Messages received so far; tells whether anything still comes. */
  readonly received: number
  /** A message is still being worked on. */
  readonly handling: boolean
  /** Sends once: at once, or when the channels are connected again. Nothing is sent a second time. */
  send(channel: OutgoingChannel, message: OutgoingMessage): void
  close(): void
}
