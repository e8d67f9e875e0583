/**
 * When a request is over: its reply is in and the kernel said idle for it. Either can be missing (a publisher drops silently; a
 * host died in between), so a request that has one of them for a second, or that a new host found open, is settled by a probe:
 * shell requests are answered in order, so a later request's answer says that nothing of the earlier ones will follow.
 *
 * After an adoption the probe is a silent execute of nothing instead of kernel_info, because then neither sign may be there, and
 * a kernel that answers kernel_info beside a running cell still runs cells one after the other.
 */
import type { Clock } from '../../protocol/clock.ts'
import type { SentRequest } from './send-log.ts'

export interface SettlingPort {
  readonly clock: Clock
  /** Sends a message of our own on shell. */
  probe(
    id: string,
    msgType: 'kernel_info_request' | 'execute_request',
    content: Record<string, unknown>,
  ): void
  newId(): string
  settled(id: string, reply: Record<string, unknown> | null): void
}

interface Open {
  readonly request: SentRequest
  readonly order: number
  reply: Record<string, unknown> | null
  idle: boolean
}

interface Probe {
  readonly id: string
  /** Requests sent before it. */
  readonly before: number
  answered: boolean
  idle: boolean
}

/** How long one sign may wait for the other before we ask. */
const PATIENCE_MS = 1_000
/** A kernel that answered and then says nothing for so long has lost what we wait for. */
const SILENCE_MS = 5_000

export class Settling {
  readonly #port: SettlingPort
  readonly #open = new Map<string, Open>()
  #order = 0
  #heard = 0
  #probe: Probe | null = null
  #cancelTimer: (() => void) | null = null

  constructor(port: SettlingPort) {
    this.#port = port
  }

  /** request_id of the execute that runs (the oldest open one), or null. */
  get running(): string | null {
    for (const { request } of this.#open.values())
      if (request.msgType === 'execute_request') return request.id
    return null
  }

  get idle(): boolean {
    return this.#open.size === 0
  }

  /** A request that was just sent. What gets no reply and no idle of its own is not followed. */
  sent(request: SentRequest): void {
    if (request.channel === 'stdin') return
    this.#open.set(request.id, { request, order: this.#order++, reply: null, idle: false })
  }

  /** Requests that an earlier host sent and did not see settle. */
  adopted(requests: readonly SentRequest[]): void {
    for (const request of requests) this.sent(request)
    if (this.#open.size > 0) this.#ask('execute_request')
  }

  /**
   * The connection to the kernel was lost and is there again. What was sent before may never have arrived, and what answers it may
   * be lost; so may a probe that was under way. A kernel that is busy answers the new one behind its cell.
   */
  uncertain(): void {
    this.#probe = null
    this.#ask('execute_request')
  }

  reply(parentId: string | null, content: Record<string, unknown>): void {
    const open = parentId === null ? undefined : this.#open.get(parentId)
    if (open === undefined) return
    open.reply = content
    this.#look(open)
  }

  kernelIdle(parentId: string | null): void {
    const open = parentId === null ? undefined : this.#open.get(parentId)
    if (open === undefined) return
    open.idle = true
    this.#look(open)
  }

  isProbe(parentId: string): boolean {
    return this.#probe?.id === parentId
  }

  probeReply(): void {
    const probe = this.#probe
    if (probe === null) return
    probe.answered = true
    if (probe.idle) this.#proved(probe)
    else this.#waitForSilence(probe)
  }

  probeIdle(): void {
    const probe = this.#probe
    if (probe === null) return
    probe.idle = true
    if (probe.answered) this.#proved(probe)
  }

  /** Something came on iopub. */
  heard(): void {
    this.#heard++
  }

  /**
   * The probe's own idle comes behind the outputs of what it proves. Those may be a long way back (a flood on a busy machine), so
   * it is given up only when iopub has been silent.
   */
  #waitForSilence(probe: Probe): void {
    const before = this.#heard
    this.#port.clock.after(SILENCE_MS, () => {
      if (this.#probe !== probe) return
      if (this.#heard === before) this.#proved(probe)
      else this.#waitForSilence(probe)
    })
  }

  dispose(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.#probe = null
    this.#open.clear()
  }

  #look(open: Open): void {
    const { channel, msgType } = open.request
    const wantsReply = msgType.endsWith('_request')
    // Control requests publish no output; comm messages have no reply.
    const over =
      channel === 'control' ? open.reply !== null : open.idle && (open.reply !== null || !wantsReply)
    if (over) this.#settle(open)
    else this.#cancelTimer ??= this.#port.clock.after(PATIENCE_MS, () => this.#patienceOver())
  }

  #patienceOver(): void {
    this.#cancelTimer = null
    if (this.#probe !== null) return
    for (const open of this.#open.values())
      if (open.request.channel === 'shell' && (open.reply !== null || open.idle)) {
        this.#ask('kernel_info_request')
        return
      }
  }

  #ask(msgType: 'kernel_info_request' | 'execute_request'): void {
    const probe = { id: this.#port.newId(), before: this.#order, answered: false, idle: false }
    this.#probe = probe
    const content =
      msgType === 'kernel_info_request'
        ? {}
        : {
            code: '',
            silent: true,
            store_history: false,
            user_expressions: {},
            allow_stdin: false,
            stop_on_error: false,
          }
    this.#port.probe(probe.id, msgType, content)
  }

  #proved(probe: Probe): void {
    if (this.#probe !== probe) return
    this.#probe = null
    for (const open of [...this.#open.values()]) if (open.order < probe.before) this.#settle(open)
    // Requests sent after the probe may have got one of their signs meanwhile.
    if (this.#open.size > 0)
      this.#cancelTimer ??= this.#port.clock.after(PATIENCE_MS, () => this.#patienceOver())
  }

  #settle(open: Open): void {
    if (!this.#open.delete(open.request.id)) return
    this.#port.settled(open.request.id, open.reply)
  }
}
