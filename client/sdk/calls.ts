/**
 * The open calls of one channel. A call lives until it is answered, times out or is aborted, however many connections that takes:
 * when a connection is lost, reads are sent again, and mutations are sent again with the same mutation id, so that they take
 * effect once. A call made before its gate opens is held and sent then, in the order of the calls.
 *
 * Settled exactly once; everything a call holds (timer, abort listener, wait for the daemon, mutation id) is released with it.
 */
import { Response, type Request as WireRequest } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { MutationId } from '../../protocol/ids.ts'
import { type Gate, type MethodName, type MethodRule, methods } from '../../protocol/methods.ts'
import type { MutationIds } from './mutation-ids.ts'

export interface CallOptions {
  /** Before the call was sent: drops it. Afterwards: tells the daemon to stop the wait. Rejects with `client_aborted`. */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds until `client_timeout`, everything included; default: none. */
  readonly timeoutMs?: number | undefined
  /** Repeats a mutation of an earlier process of this client instance under its id. Default: a new id. */
  readonly mutationId?: number | undefined
  /** Refuses with `conflict` unless these hold. */
  readonly expect?: WireRequest['expect'] | undefined
}

export interface CallTableOptions {
  readonly clock: Clock
  readonly mutations: MutationIds
  /** Dials while the daemon is away, and fails the call when it stays away; returns how to end the need. */
  readonly needDaemon: (fail: (error: RoomdError) => void) => () => void
  /** How long a call is repeated to a daemon that answers `shutting_down`, in ms. */
  readonly refusedForMs: number
}

interface Pending {
  readonly id: number
  readonly method: MethodName
  readonly rule: MethodRule
  readonly params: unknown
  readonly mutationId: MutationId | undefined
  readonly expect: WireRequest['expect']
  readonly deadlineAt: number | undefined
  readonly resolve: (value: unknown) => void
  readonly reject: (error: RoomdError) => void
  /** Sent on the present channel. */
  sent: boolean
  /** How often it was sent without being refused: above 0, its effect may have happened. */
  sends: number
  /** Since when a daemon that is going away refuses it. */
  refusedSince: number | undefined
  stopRetry: () => void
  release: () => void
}

type Send = (type: FrameType, payload: Uint8Array) => void

/** After `shutting_down`, the next attempt on the same connection. */
const REFUSED_RETRY_MS = 250

export class CallTable {
  readonly #options: CallTableOptions
  readonly #pending = new Map<number, Pending>()
  #nextId = 1
  #send: Send | null = null
  #gate: (gate: Gate) => boolean = () => true
  #closed: RoomdError | null = null

  constructor(options: CallTableOptions) {
    this.#options = options
  }

  /** Result as the method table says; unknown members are dropped. Throws what the daemon answered, or a local error. */
  call(method: MethodName, params: unknown, options: CallOptions = {}): Promise<unknown> {
    if (this.#closed) return Promise.reject(this.#closed)
    if (options.signal?.aborted) return Promise.reject(abortedError(method))
    const rule = methods[method]
    if (!rule)
      return Promise.reject(new RoomdError('invalid_argument', `there is no method "${String(method)}"`))
    return new Promise((resolve, reject) => {
      const { clock, mutations } = this.#options
      const mutationId = rule.mutates ? mutations.take(options.mutationId) : undefined
      const pending: Pending = {
        id: this.#nextId++,
        method,
        rule,
        params,
        mutationId,
        expect: options.expect,
        deadlineAt: options.timeoutMs === undefined ? undefined : clock.now() + options.timeoutMs,
        resolve,
        reject,
        sent: false,
        sends: 0,
        refusedSince: undefined,
        stopRetry: () => {},
        release: () => {},
      }
      const { signal, timeoutMs } = options
      const abort = (): void => this.#leave(pending, abortedError(method))
      const stopTimer =
        timeoutMs === undefined
          ? () => {}
          : clock.after(timeoutMs, () =>
              this.#leave(
                pending,
                new RoomdError(
                  'client_timeout',
                  `${method}: no answer within ${timeoutMs} ms; it may still happen`,
                ),
              ),
            )
      signal?.addEventListener('abort', abort, { once: true })
      let noNeed = (): void => {}
      pending.release = () => {
        signal?.removeEventListener('abort', abort)
        stopTimer()
        if (mutationId !== undefined) mutations.settle(mutationId)
        noNeed()
      }
      this.#pending.set(pending.id, pending)
      this.#trySend(pending)
      if (this.#pending.has(pending.id))
        noNeed = this.#options.needDaemon((error) => this.#away(pending, error))
    })
  }

  /** The channel can be used; `gate` says what may be sent. Sends what is held. */
  attach(send: Send, gate: (gate: Gate) => boolean): void {
    this.#send = send
    this.#gate = gate
    this.flush()
  }

  /** The channel is gone: what was sent will be sent again on the next. */
  detach(): void {
    if (!this.#send) return
    this.#send = null
    for (const pending of [...this.#pending.values()]) {
      pending.sent = false
      pending.refusedSince = undefined
      pending.stopRetry()
      pending.stopRetry = () => {}
      // Repeating it would end the daemon that came after.
      if (pending.method === 'shutdown' && pending.sends > 0)
        this.#settle(
          pending,
          new RoomdError('daemon_lost', 'the connection ended before shutdown was answered'),
        )
    }
  }

  /** Sends held calls whose gate has opened. */
  flush(): void {
    for (const pending of [...this.#pending.values()]) if (!pending.sent) this.#trySend(pending)
  }

  /** A RESPONSE value. An answer to a call that left already is dropped. */
  response(payload: Uint8Array): void {
    const response = Response.parse(decode(payload))
    const pending = this.#pending.get(response.id)
    if (!pending?.sent) return
    if (response.ok) {
      const parsed = pending.rule.result.safeParse(response.value)
      if (parsed.success) this.#settle(pending, null, parsed.data)
      else {
        const issue = parsed.error.issues[0]
        this.#settle(
          pending,
          new RoomdError(
            'client_protocol',
            `the daemon's answer to ${pending.method} cannot be read: ${issue?.path.join('.')}: ${issue?.message}`,
          ),
        )
      }
      return
    }
    const error = RoomdError.fromWire(response.error)
    if (error.code === 'shutting_down' && pending.method !== 'shutdown') this.#refused(pending, error)
    else this.#settle(pending, error)
  }

  /** No call can be answered any more: rejects all, now and from now on. */
  close(error: RoomdError): void {
    if (this.#closed) return
    this.#closed = error
    this.#send = null
    for (const pending of [...this.#pending.values()]) this.#settle(pending, error)
  }

  #trySend(pending: Pending): void {
    const send = this.#send
    if (!send || pending.sent || !this.#gate(pending.rule.gate)) return
    const { clock, mutations } = this.#options
    const request: WireRequest = {
      id: pending.id,
      method: pending.method,
      params: pending.params,
      ...(pending.deadlineAt === undefined
        ? {}
        : { deadline_ms: Math.max(1, pending.deadlineAt - clock.now()) }),
      ...(pending.mutationId === undefined
        ? {}
        : { mutation_id: pending.mutationId, watermark: mutations.watermark() }),
      ...(pending.expect === undefined ? {} : { expect: pending.expect }),
    }
    pending.sent = true
    pending.sends++
    try {
      send(FrameType.REQUEST, encode(request))
    } catch (error) {
      // Over the cap, or not to be encoded: nothing was written, and trying again would not help.
      this.#settle(
        pending,
        error instanceof RoomdError
          ? error
          : new RoomdError('invalid_argument', `${pending.method}: ${String(error)}`),
      )
    }
  }

  /** The daemon stayed away. */
  #away(pending: Pending, error: RoomdError): void {
    const unknown = pending.sends > 0 && pending.mutationId !== undefined && error.code !== 'client_closed'
    this.#settle(pending, unknown ? unknownOutcome(pending.method, error) : error)
  }

  /** The daemon is going away and did nothing: the same call goes to the next one, or again to this one while it stays. */
  #refused(pending: Pending, error: RoomdError): void {
    pending.sent = false
    pending.sends--
    const { clock, refusedForMs } = this.#options
    pending.refusedSince ??= clock.now()
    if (clock.now() - pending.refusedSince > refusedForMs) {
      this.#settle(pending, error)
      return
    }
    pending.stopRetry = clock.after(REFUSED_RETRY_MS, () => this.#trySend(pending))
  }

  #leave(pending: Pending, error: RoomdError): void {
    if (!this.#pending.has(pending.id)) return
    if (pending.sent) this.#send?.(FrameType.CANCEL, encode({ id: pending.id }))
    this.#settle(pending, error)
  }

  #settle(pending: Pending, error: RoomdError | null, value?: unknown): void {
    if (!this.#pending.delete(pending.id)) return
    pending.stopRetry()
    pending.release()
    if (error) pending.reject(error)
    else pending.resolve(value)
  }
}

function abortedError(method: string): RoomdError {
  return new RoomdError('client_aborted', `${method} was aborted by the caller`)
}

/** The call that finds out, in MCP tool terms. */
const findsOut: Partial<Record<MethodName, string>> = {
  edit: 'get_all_cells',
  clear_outputs: 'get_all_cells',
  execute: 'list_executions',
  run_all: 'list_executions',
  cancel_execution: 'list_executions',
  interrupt: 'list_executions',
  send_input: 'list_executions',
  save: 'get_source_status',
  reconcile_source: 'get_source_status',
}

function unknownOutcome(method: MethodName, why: RoomdError): RoomdError {
  return new RoomdError(
    'outcome_unknown',
    `${method} was sent, but the daemon went away before it answered and did not come back: ${why.message}`,
    { next: { tool: findsOut[method] ?? 'list_active_notebooks', arguments: {} } },
  )
}
