/**
 * What a host holds: a kernel of this machine or one behind a gateway. The host's own rules (numbering, send log, settling,
 * interrupts, orphan grace) are the same for both; what differs is here.
 */
import type { ChannelHandlers, KernelChannels } from './kernel-channels.ts'
import type { KernelProcess } from './kernel-process.ts'

export interface KernelSide {
  readonly process: KernelProcess
  /** A kernel without a process of this machine: there is nothing to stop, to ask for memory, or to be killed by a signal. */
  readonly remote: boolean
  channels(handlers: ChannelHandlers): KernelChannels
  /** For a kernel that ended before it was ready: another attempt, or null when it deserves none. */
  again(lastLines: string): Promise<KernelSide> | null
  /** Asked now and then while it starts: it has said why it cannot, and yet does not end. Then it is ended, and `again` is asked. */
  stuck?(): boolean
  /** What is left of it when the host goes. */
  cleanUp(): void
}
