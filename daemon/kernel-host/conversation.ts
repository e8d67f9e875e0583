/**
 * The messages between host and kernel, over whatever channels it has: sends requests once, makes events of what the kernel says, follows what is open. Keeps the
 * host's own questions (readiness, probes, preparation) apart from what others see.
 */
import { randomUUID } from 'node:crypto'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { Channel } from './connection-file.ts'
import type { NewEvent } from './event-stream.ts'
import { Interrupt } from './interrupt.ts'
import { dictionary, type OutgoingMessage, type RawMessage } from './jupyter-message.ts'
import type { KernelChannels, OutgoingChannel } from './kernel-channels.ts'
import type { KernelSide } from './kernel-side.ts'
import { preparation } from './preparation.ts'
import { Readiness } from './readiness.ts'
import type { SendLog } from './send-log.ts'
import { Settling } from './settling.ts'
import { giantStream } from './stream-pieces.ts'

export interface ConversationPort {
  readonly clock: Clock
  readonly sends: SendLog
  /** The kernel was there before this host: it may be busy, and is prepared already. */
  readonly adopted: boolean
  event(event: NewEvent): void
  /** Once: kernel_info's answer, when iopub has spoken too. */
  ready(info: Record<string, unknown>): void
  /** What is open changed. */
  changed(): void
  /** The kernel's end of a channel closed. */
  closed(): void
  log(message: string): void
}

export interface SendParams {
  readonly request_id: string
  readonly channel: 'shell' | 'control' | 'stdin'
  readonly msg_type: string
  readonly content: Record<string, unknown>
  readonly metadata?: Record<string, unknown> | undefined
  readonly parent_id?: string | null | undefined
  readonly buffers?: Uint8Array[] | undefined
}

interface Link {
  readonly channels: KernelChannels
  readonly readiness: Readiness
}

/** msg_ids of our own questions begin with it; their answers are nobody else's. */
export const OWN = 'roomd-host-'
/** After the kernel's end: nothing more comes when nothing came for so long. */
const QUIET_MS = 30
/** Pieces of a giant message between two turns of the loop; about a megabyte. */
const PIECES_A_TURN = 10

export class Conversation {
  readonly #port: ConversationPort
  readonly #settling: Settling
  readonly #interrupt: Interrupt
  #link: Link | null = null
  #waitingInput = false
  #trouble: string | null = null

  constructor(port: ConversationPort) {
    this.#port = port
    this.#interrupt = new Interrupt(port.clock)
    this.#settling = new Settling({
      clock: port.clock,
      newId: ownId,
      probe: (msgId, msgType, content) => this.#transmit('shell', { msgId, msgType, content }),
      settled: (id, reply) => this.#settled(id, reply),
    })
  }

  /** request_id of the execute that runs, or null. */
  get running(): string | null {
    return this.#settling.running
  }

  /** Nothing is open. */
  get idle(): boolean {
    return this.#settling.idle
  }

  get waitingInput(): boolean {
    return this.#waitingInput
  }

  /** Why the channels cannot be used now; null: they can, or could not yet. */
  get trouble(): string | null {
    return this.#trouble
  }

  /** Connects to the channels of a kernel, in place of an earlier attempt's. */
  connect(side: KernelSide): void {
    this.close()
    const { clock, adopted } = this.#port
    const channels = side.channels({
      connected: (again) => this.#connected(again),
      lost: (reason) => this.#lost(reason),
      closed: () => this.#port.closed(),
      message: (channel, raw) => this.#received(channel, raw),
      unreadable: (channel, error) => this.#unreadable(channel, error),
      gap: (reason) => this.#port.event({ kind: 'gap', reason }),
    })
    const ask = (): void => {
      // Asked again when they are there; questions must not pile up meanwhile.
      if (channels.connected)
        this.#transmit('shell', { msgId: ownId(), msgType: 'kernel_info_request', content: {} })
    }
    const readiness = new Readiness({ clock, ask, ready: (told) => this.#ready(told) }, !adopted)
    this.#link = { channels, readiness }
    channels.open()
  }

  /** Follows what an earlier host sent and did not see settle. */
  takeOver(): void {
    this.#settling.adopted(this.#port.sends.open())
    this.#port.changed()
  }

  /** Sends a request that was not sent before. Throws `storage_failed`, with nothing sent, and `kernel_died`. */
  send(params: SendParams): { already_sent: boolean } {
    const { request_id: id, channel, msg_type: msgType, content, metadata, buffers } = params
    const { sends } = this.#port
    if (sends.has(id)) return { already_sent: true }
    if (this.#link === null) throw new RoomdError('kernel_died', 'the kernel has ended; start it again')
    const sent = { id, channel, msgType }
    try {
      sends.sending(sent)
    } catch (error) {
      throw new RoomdError(
        'storage_failed',
        `the request was not sent because its send log could not be written: ${String(error)}`,
      )
    }
    this.#transmit(channel, { msgId: id, msgType, content, metadata, parentId: params.parent_id, buffers })
    if (channel === 'stdin') this.#waitingInput = false
    this.#settling.sent(sent)
    this.#port.changed()
    return { already_sent: false }
  }

  #connected(again: boolean): void {
    const link = this.#link
    if (link === null) return
    if (this.#trouble !== null) {
      this.#trouble = null
      this.#port.event({ kind: 'connection', trouble: null })
    }
    if (!link.readiness.done) link.readiness.start()
    if (again) this.#settling.uncertain()
  }

  #lost(reason: string): void {
    this.#trouble = reason
    this.#port.event({ kind: 'connection', trouble: reason })
    this.#port.log(reason)
  }

  /** Calls `signal`, or sends interrupt_request, when the kernel has taken up what it was sent. */
  interrupt(signal: (() => void) | null): Promise<void> {
    const deliver =
      signal ??
      (() => this.#transmit('control', { msgId: ownId(), msgType: 'interrupt_request', content: {} }))
    return this.#interrupt.deliver(this.#settling.running, deliver)
  }

  askToEnd(): void {
    this.#transmit('control', {
      msgId: ownId(),
      msgType: 'shutdown_request',
      content: { restart: false },
    })
  }

  /** Waits until nothing comes any more: what a dead kernel sent is in our sockets, and all of it counts. */
  quiet(): Promise<void> {
    const channels = this.#link?.channels
    if (channels === undefined) return Promise.resolve()
    return new Promise((resolve) => {
      const look = (before: number): void => {
        this.#port.clock.after(QUIET_MS, () => {
          if (channels.received === before && !channels.handling) resolve()
          else look(channels.received)
        })
      }
      look(channels.received)
    })
  }

  /** Nothing is sent or received any more. */
  close(): void {
    this.#link?.readiness.dispose()
    this.#link?.channels.close()
    this.#link = null
  }

  /** For good: what is open stays open. */
  dispose(): void {
    this.close()
    this.#settling.dispose()
  }

  #ready(info: Record<string, unknown>): void {
    const code = this.#port.adopted ? null : preparation(info)
    if (code !== null)
      this.#transmit('shell', {
        msgId: ownId(),
        msgType: 'execute_request',
        content: { code, silent: true, store_history: false, user_expressions: {}, allow_stdin: false },
      })
    this.#port.ready(info)
  }

  #transmit(channel: OutgoingChannel, message: OutgoingMessage): void {
    this.#link?.channels.send(channel, message)
  }

  #received(channel: Channel, raw: RawMessage): void | Promise<void> {
    try {
      return this.#understand(channel, raw)?.catch((error: unknown) => this.#unreadable(channel, error))
    } catch (error) {
      this.#unreadable(channel, error)
    }
  }

  #unreadable(channel: Channel | 'websocket', error: unknown): void {
    const reason = `a message on ${channel} could not be read: ${error instanceof Error ? error.message : String(error)}`
    this.#port.log(reason)
    this.#port.event({ kind: 'gap', reason })
  }

  /** A promise when the message is so large that others get their turn in between. */
  #understand(channel: Channel, { rawContent, ...message }: RawMessage): Promise<void> | undefined {
    const link = this.#link
    if (link === null) return undefined
    if (channel === 'iopub') {
      link.readiness.spoken()
      this.#settling.heard()
    }
    if (message.parentId?.startsWith(OWN)) {
      this.#answered(channel, message.msgType, message.parentId, dictionary(rawContent))
      return undefined
    }
    const told = {
      channel,
      msg_type: message.msgType,
      msg_id: message.msgId,
      parent_id: message.parentId,
      metadata: message.metadata,
      buffers: message.buffers,
    }
    const pieces = giantStream(message.msgType, rawContent)
    if (pieces !== null)
      return this.#inTurns(pieces, (content) =>
        this.#port.event({ kind: 'message', message: { ...told, content } }),
      )
    const content = dictionary(rawContent)
    this.#port.event({ kind: 'message', message: { ...told, content } })
    if (channel === 'shell' || channel === 'control') this.#settling.reply(message.parentId, content)
    else if (channel === 'stdin') this.#waitingInput = message.msgType === 'input_request'
    else if (message.msgType === 'execute_input') this.#interrupt.begun(message.parentId)
    else if (message.msgType === 'status' && content.execution_state === 'idle')
      this.#settling.kernelIdle(message.parentId)
    return undefined
  }

  /** Lets what is ready leave while the rest is still being cut. */
  async #inTurns<T>(items: Iterable<T>, give: (item: T) => void): Promise<void> {
    let count = 0
    for (const item of items) {
      give(item)
      if (++count % PIECES_A_TURN === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** A message that one of our own questions caused. */
  #answered(channel: Channel, msgType: string, parentId: string, content: Record<string, unknown>): void {
    if (channel === 'shell') {
      if (this.#settling.isProbe(parentId)) this.#settling.probeReply()
      else if (msgType === 'kernel_info_reply') this.#link?.readiness.answered(content)
    } else if (channel === 'iopub' && msgType === 'status' && content.execution_state === 'idle') {
      if (this.#settling.isProbe(parentId)) this.#settling.probeIdle()
    }
  }

  #settled(requestId: string, reply: Record<string, unknown> | null): void {
    this.#waitingInput = false
    this.#interrupt.settled(requestId)
    this.#port.event({ kind: 'settled', request_id: requestId, reply })
    this.#port.sends.settled(requestId)
    this.#port.changed()
  }
}

function ownId(): string {
  return `${OWN}${randomUUID()}`
}
