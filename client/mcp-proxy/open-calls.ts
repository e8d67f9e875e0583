/**
 * The requests of the client that have no answer yet. Owns their ids on both sides, their mutation ids and which child has them. Each
 * leaves the table exactly once: answered, settled by the proxy, or cancelled.
 *
 * Mutation ids: every `tools/call` gets a base that grows by MUTATION_STEP and keeps it however often it is sent again, so that
 * the daemon, which remembers results by id, carries out each change once. `settledBelow` tells it what it may forget: never an
 * id that may still be sent. A cancelled call is not sent again, but its child may still be undoing it, so its id counts as open
 * for a while.
 */
import type { Clock } from '../../protocol/clock.ts'
import type { JsonObject, RequestId } from './jsonrpc.ts'

/** How many mutation ids one call has to itself: its base and the 63 behind it. */
export const MUTATION_STEP = 64
/** How long a cancelled call's ids stay open, unless its child ends before. */
const CANCELLED_KEPT = 60_000
/** Characters of parameters kept for calls without an answer. Beyond it new calls are refused. */
export const OPEN_BOUND = 64 * 1024 * 1024

export interface OpenCall {
  /** As the client named it. */
  readonly clientId: RequestId
  /** As every child is told it. */
  readonly wireId: number
  readonly method: string
  readonly params: JsonObject | undefined
  /** Length of the client's line. */
  readonly size: number
  /** Only of `tools/call`. */
  readonly call: ToolCall | null
  readonly progressToken: RequestId | null
  /** Generation of the child that has it; null while it waits for one. */
  sentTo: number | null
  /** Some child has had it: an effect is possible. */
  everSent: boolean
  /** What the progress of earlier children came to, and the last value told. */
  progress: { base: number; last: number }
}

export interface ToolCall {
  readonly tool: string
  readonly arguments: JsonObject
  readonly mutates: boolean
  readonly base: number
  /** The room that a call without `notebook` meant when it was made, if its tool takes one. */
  readonly meant: string | null
}

export class OpenCalls {
  readonly #clock: Clock
  readonly #byWire = new Map<number, OpenCall>()
  readonly #byClient = new Map<RequestId, OpenCall>()
  readonly #byToken = new Map<RequestId, OpenCall>()
  readonly #cancelled = new Map<number, { base: number; forget: () => void }>()
  #wireIds = 0
  #nextBase = MUTATION_STEP
  #size = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Open calls, oldest first. */
  get all(): OpenCall[] {
    return [...this.#byWire.values()]
  }

  get count(): number {
    return this.#byWire.size
  }

  /** Whether a call of this many characters can be kept beside the others. */
  fits(size: number): boolean {
    return this.#byWire.size === 0 || this.#size + size <= OPEN_BOUND
  }

  has(clientId: RequestId): boolean {
    return this.#byClient.has(clientId)
  }

  /** Takes a request of the client. Its id must not be open. */
  open(
    request: { clientId: RequestId; method: string; params: JsonObject | undefined; size: number },
    call: Omit<ToolCall, 'base'> | null,
    progressToken: RequestId | null,
  ): OpenCall {
    const base = this.#nextBase
    if (call !== null) this.#nextBase += MUTATION_STEP
    const open: OpenCall = {
      ...request,
      wireId: ++this.#wireIds,
      call: call === null ? null : { ...call, base },
      progressToken,
      sentTo: null,
      everSent: false,
      progress: { base: 0, last: 0 },
    }
    this.#byWire.set(open.wireId, open)
    this.#byClient.set(open.clientId, open)
    if (progressToken !== null) this.#byToken.set(progressToken, open)
    this.#size += open.size
    return open
  }

  byWire(id: RequestId): OpenCall | undefined {
    return typeof id === 'number' ? this.#byWire.get(id) : undefined
  }

  byClient(id: RequestId): OpenCall | undefined {
    return this.#byClient.get(id)
  }

  byToken(token: RequestId): OpenCall | undefined {
    return this.#byToken.get(token)
  }

  /** Takes the call off the table. False: it was off already. */
  close(open: OpenCall): boolean {
    if (!this.#byWire.delete(open.wireId)) return false
    this.#byClient.delete(open.clientId)
    if (open.progressToken !== null) this.#byToken.delete(open.progressToken)
    this.#size -= open.size
    return true
  }

  /** Takes a cancelled call off the table; if a child has it, its ids stay unsettled for a while. */
  cancel(open: OpenCall): void {
    if (!this.close(open) || open.sentTo === null || open.call === null) return
    const forget = this.#clock.after(CANCELLED_KEPT, () => this.#cancelled.delete(open.wireId))
    this.#cancelled.set(open.wireId, { base: open.call.base, forget })
  }

  /** The child is gone: what it had waits again, and what it was cancelling is over. */
  childGone(): void {
    for (const open of this.#byWire.values()) {
      open.sentTo = null
      open.progress.base = open.progress.last
    }
    for (const { forget } of this.#cancelled.values()) forget()
    this.#cancelled.clear()
  }

  /** All mutation ids below are settled: nobody will send them again. */
  settledBelow(): number {
    let lowest = this.#nextBase
    for (const { call } of this.#byWire.values()) if (call !== null && call.base < lowest) lowest = call.base
    for (const { base } of this.#cancelled.values()) if (base < lowest) lowest = base
    return lowest
  }
}
