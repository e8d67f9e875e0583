/**
 * The requests of one channel: reads them, checks them against the method table, has them performed and answers each exactly
 * once. Channel 0 and every room channel own one.
 *
 * A CANCEL or a deadline aborts the request's signal. Who performs it may still answer with what really happened, in the same
 * turn; if nothing comes the wait is over and the error is the answer, while the work goes on and counts as open until it ends.
 * The end of the channel ends all of them without answers.
 */
import { Cancel, type Request } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { parseOutside, RoomdError, toWireError } from '../../protocol/errors.ts'
import { CONTROL_REQUEST_MAX, FrameType, MAX_QUEUED_CONNECTION } from '../../protocol/frames.ts'
import { type MethodName, type MethodRule, methods } from '../../protocol/methods.ts'
import { type Scope, scopeAllows } from '../../protocol/scopes.ts'
import { measures } from '../measures.ts'
import type { PeerIdentity } from '../rooms/seam.ts'
import { OpenRequest } from './open-request.ts'
import { readRequest } from './read-request.ts'
import type { RequestBudget } from './request-budget.ts'

/** A request that passed all checks but the scope of a room channel, which is known once its peer is attached. */
export interface Call {
  readonly method: MethodName
  readonly rule: MethodRule
  readonly args: unknown
  readonly context: OpenRequest
}

/** A result whose content follows the RESPONSE as a BLOB value on the same channel. */
export class WithBlob {
  readonly value: unknown
  /** 32 bytes of digest, then the content. */
  readonly blob: Uint8Array

  constructor(value: unknown, blob: Uint8Array) {
    this.value = value
    this.blob = blob
  }
}

/** What a channel's requests need of their connection. */
export interface RequestPort {
  readonly identity: PeerIdentity
  readonly clock: Clock
  readonly budget: RequestBudget
  /** The daemon is shutting down: no new work. */
  stopping(): boolean
  /** Bytes queued towards the client, all channels. */
  queued(): number
  /** Throws `too_large` and sends nothing when the value is over its cap. */
  send(type: FrameType, payload: Uint8Array): void
  /** The client broke the protocol in a way that no RESPONSE can tell: ERROR, then the end of the connection. */
  fail(message: string): void
  /** A failure that is our own defect. */
  defect(method: string, error: unknown): void
}

/** Pass in every flood: their answers are small, and they are how a flood is ended. */
const urgent: ReadonlySet<string> = new Set(['ping', 'interrupt', 'cancel_execution', 'shutdown'])
/** Answered while the daemon shuts down. */
const always: ReadonlySet<string> = new Set(['ping', 'status', 'shutdown'])

export class Requests {
  readonly #kind: MethodRule['channel']
  readonly #port: RequestPort
  readonly #perform: (call: Call) => unknown
  /** Made for the first request: thousands of channels only listen. */
  #open: Map<number, OpenRequest> | null = null
  #ended = false

  /** `perform` answers a value or a promise of one; a RoomdError it throws becomes the error response. */
  constructor(kind: MethodRule['channel'], port: RequestPort, perform: (call: Call) => unknown) {
    this.#kind = kind
    this.#port = port
    this.#perform = perform
  }

  /** A REQUEST payload. The promise of a large one settles when its work is over: its credit is kept until then. */
  receive(payload: Uint8Array): void | Promise<void> {
    if (this.#ended) return
    const read = readRequest(payload)
    if (!read.ok) {
      if (read.id === null) this.#port.fail(read.reason)
      else this.#refuse(read.id, new RoomdError('invalid_argument', `request ${read.id}: ${read.reason}`))
      return
    }
    const { request } = read
    if (this.#open?.has(request.id)) {
      // Two answers of one id could not be told apart: the first request might be taken for failed although it took effect.
      this.#port.fail(`request id ${request.id} is in use on this channel; use a new one for each request`)
      return
    }
    const call = this.#check(request)
    if (!call) return
    if (!this.#port.budget.take(payload.length)) {
      this.#refuse(
        request.id,
        new RoomdError('overloaded', 'too many requests are open on this connection; wait for answers'),
      )
      return
    }
    return this.#run(request, call, payload.length)
  }

  /** A CANCEL payload. An id that is not open was answered already: nothing to do. */
  cancel(payload: Uint8Array): void {
    let id: number
    try {
      id = parseOutside(Cancel, decode(payload), 'CANCEL').id
    } catch {
      this.#port.fail('a CANCEL is a map with the id of a request')
      return
    }
    const request = this.#open?.get(id)
    if (request)
      this.#stopWaiting(
        id,
        request,
        new RoomdError('outcome_unknown', 'the request was cancelled by its sender'),
      )
  }

  /** The channel is gone: aborts all, answers none. */
  end(reason: string): void {
    this.#ended = true
    const open = this.#open
    this.#open = null
    for (const request of open?.values() ?? []) {
      request.finish()
      request.abort(new RoomdError('outcome_unknown', reason))
    }
  }

  #check(request: Request): Call | null {
    try {
      return this.#checked(request)
    } catch (error) {
      this.#refuse(request.id, error)
      return null
    }
  }

  #checked(request: Request): Call {
    const { method } = request
    const rule = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (!rule) {
      throw new RoomdError(
        'unsupported',
        `this daemon has no method ${JSON.stringify(method)}; it may be older than the client`,
      )
    }
    if (rule.channel !== this.#kind) {
      const where = rule.channel === 'room' ? 'on the channel of a room, after OPEN' : 'on channel 0'
      throw new RoomdError('invalid_argument', `${method} is asked ${where}`)
    }
    // No channel has more than its connection. Before the arguments: who may not ask is not told how to.
    requireScope(this.#port.identity.scope, rule, method)
    if (rule.channel === 'connection') {
      if (this.#port.identity.rooms && rule.bound !== true) {
        throw new RoomdError(
          'forbidden',
          `${method} concerns the whole daemon; this connection's token is bound to single rooms`,
        )
      }
    }
    if (this.#port.stopping() && !always.has(method)) {
      throw new RoomdError(
        'shutting_down',
        'the daemon is shutting down; send the request again to the next one',
      )
    }
    if (this.#port.queued() >= MAX_QUEUED_CONNECTION && !urgent.has(method)) {
      throw new RoomdError(
        'overloaded',
        'too much is waiting to be read on this connection; read it, then ask again',
      )
    }
    const args = parseOutside(rule.params, request.params ?? {}, method)
    return {
      method: method as MethodName,
      rule,
      args,
      context: new OpenRequest(this.#port.identity, request),
    }
  }

  #run(request: Request, call: Call, bytes: number): void | Promise<void> {
    const { id } = request
    const { context } = call
    this.#open ??= new Map()
    this.#open.set(id, context)
    if (request.deadline_ms !== undefined) this.#startDeadline(id, context, request.deadline_ms, call.rule)
    let result: unknown
    try {
      result = this.#perform(call)
    } catch (error) {
      this.#port.budget.release(bytes)
      this.#fail(id, call, error)
      return
    }
    if (!(result instanceof Promise)) {
      this.#port.budget.release(bytes)
      this.#answer(id, call, result)
      return
    }
    const over = result.then(
      (value) => {
        this.#port.budget.release(bytes)
        this.#answer(id, call, value)
      },
      (error) => {
        this.#port.budget.release(bytes)
        this.#fail(id, call, error)
      },
    )
    if (bytes > CONTROL_REQUEST_MAX) return over
  }

  #startDeadline(id: number, context: OpenRequest, ms: number, rule: MethodRule): void {
    context.deadline = this.#port.clock.after(ms, () => {
      const error = rule.mutates
        ? new RoomdError(
            'outcome_unknown',
            `not finished within ${ms} ms; send it again with the same mutation id to learn the outcome`,
            { retryable: context.mutationId !== undefined },
          )
        : new RoomdError('overloaded', `no answer within ${ms} ms; ask again, or allow more time`)
      this.#stopWaiting(id, context, error)
    })
  }

  #stopWaiting(id: number, context: OpenRequest, error: RoomdError): void {
    context.abort(error)
    // What the abort sets off ends within this turn and knows best what happened; only then is the error the answer.
    setImmediate(() => {
      if (!context.finish()) return
      this.#open?.delete(id)
      this.#refuse(id, error)
    })
  }

  #answer(id: number, call: Call, result: unknown): void {
    if (!call.context.finish()) return
    this.#open?.delete(id)
    const value = result instanceof WithBlob ? result.value : result
    try {
      this.#port.send(FrameType.RESPONSE, encode({ id, ok: true, value }))
    } catch (error) {
      // Nothing was sent: over the cap, or a value that cannot be written.
      if (!(error instanceof RoomdError)) this.#port.defect(call.method, error)
      this.#refuse(id, error)
      return
    }
    if (result instanceof WithBlob) this.#port.send(FrameType.BLOB, result.blob)
  }

  #fail(id: number, call: Call, error: unknown): void {
    if (!(error instanceof RoomdError)) this.#port.defect(call.method, error)
    if (!call.context.finish()) return
    this.#open?.delete(id)
    this.#refuse(id, error)
  }

  #refuse(id: number, error: unknown): void {
    if (this.#ended) return
    const wireError = toWireError(error)
    measures.refusedRequests.add(wireError.code)
    try {
      this.#port.send(FrameType.RESPONSE, encode({ id, ok: false, error: wireError }))
    } catch (unsendable) {
      // A cause that cannot be written, or is over the cap: code and message still tell what happened.
      this.#port.defect('error response', unsendable)
      const { code, message, retryable } = wireError
      this.#port.send(
        FrameType.RESPONSE,
        encode({ id, ok: false, error: { code, message: message.slice(0, 3000), retryable } }),
      )
    }
  }
}

/** Throws `forbidden` unless `held` allows the method. */
export function requireScope(held: Scope, rule: MethodRule, method: string): void {
  if (scopeAllows(held, rule.scope)) return
  throw new RoomdError('forbidden', `${method} needs scope ${rule.scope}; this connection has ${held}`)
}
