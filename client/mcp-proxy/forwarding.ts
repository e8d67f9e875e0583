/**
 * Passes the client's requests to whichever child there is, and the answers back. Owns the table of open calls.
 *
 * Invariants: every request is answered once, or cancelled; a call that is sent again is the same call, with the same mutation id and
 * for the same room; what no child can settle is answered here.
 */
import type { Clock } from '../../protocol/clock.ts'
import type { Announcement } from './announcement.ts'
import { tooLong, toolError, unsettled } from './answers.ts'
import type { Child } from './child.ts'
import type { ClientAnswers } from './client-answers.ts'
import type { Introduction } from './introduction.ts'
import {
  idAtTheEnds,
  isObject,
  type JsonObject,
  type Notification,
  type Outcome,
  type Request,
  type RequestId,
  type Response,
  RpcCode,
} from './jsonrpc.ts'
import type { Line } from './lines.ts'
import { type OpenCall, OpenCalls, type ToolCall } from './open-calls.ts'
import type { Pause } from './restart-control.ts'
import type { SessionTracker } from './session-tracker.ts'
import type { Supervisor } from './supervisor.ts'
import { mutates } from './tool-list.ts'

export interface ForwardingOptions {
  readonly clock: Clock
  readonly answers: ClientAnswers
  readonly supervisor: Supervisor
  readonly introduction: Introduction
  readonly announcement: Announcement
  readonly sessions: SessionTracker
  readonly log: (text: string) => void
  /** A request is off the table. */
  readonly less: () => void
}

export class Forwarding {
  readonly #options: ForwardingOptions
  readonly #open: OpenCalls

  constructor(options: ForwardingOptions) {
    this.#options = options
    this.#open = new OpenCalls(options.clock)
  }

  get count(): number {
    return this.#open.count
  }

  has(id: RequestId): boolean {
    return this.#open.has(id)
  }

  /** Takes a request of the client. `size`: characters of its line. */
  forward(request: Request, size: number): void {
    const { supervisor, answers, clock } = this.#options
    const call = request.method === 'tools/call' ? this.#toolCall(request.params ?? {}) : null
    if (!this.#open.fits(size + (supervisor.ready?.unread ?? 0))) {
      const message = `${this.#open.count} calls are open already and hold too much; wait for one of them.`
      if (call === null) answers.refuse(request.id, RpcCode.unavailable, message)
      else answers.result(request.id, toolError({ code: 'overloaded', message, retryable: true }))
      return
    }
    const meta = isObject(request.params?._meta) ? request.params._meta : {}
    const token = meta.progressToken
    const open = this.#open.open(
      { clientId: request.id, method: request.method, params: request.params, size },
      call,
      typeof token === 'string' || typeof token === 'number' ? token : null,
    )
    const { pause, ready } = supervisor
    if (pause !== null) this.#settle(open, unsettled(open, pause, clock.now()))
    else if (ready !== null) this.#send(open, ready)
    else supervisor.start()
  }

  /** The client cancelled the request with this id; it crossed its answer if it is not open. */
  cancel(id: RequestId, params: JsonObject): void {
    const open = this.#open.byClient(id)
    if (open === undefined) return
    const child = this.#options.supervisor.ready
    if (child !== null && open.sentTo === child.generation) {
      child.send({
        kind: 'notification',
        method: 'notifications/cancelled',
        params: { ...params, requestId: open.wireId },
      })
    }
    this.#open.cancel(open)
    this.#options.less()
  }

  /** A child is ready: it gets everything that is open, in the order in which it was asked. */
  sendAll(child: Child): void {
    for (const open of this.#open.all) this.#send(open, child)
  }

  /** The child is gone; what it had waits for the next. */
  childGone(): void {
    this.#open.childGone()
  }

  /** No child can be started for now. */
  settleAll(pause: Pause): void {
    for (const open of this.#open.all) {
      this.#settle(open, unsettled(open, pause, this.#options.clock.now()))
    }
  }

  /** An answer of the child that has the call. */
  response({ id, outcome }: Response): void {
    const open = this.#open.byWire(id)
    // A cancelled call's answer, late.
    if (open === undefined) return
    if ('error' in outcome) this.#settle(open, outcome)
    else if (open.call !== null) this.#toolResult(open, open.call, outcome.result)
    else {
      this.#options.introduction.remember(open.method, open.params ?? {})
      this.#settle(open, outcome)
    }
  }

  /** Progress of a call that several children worked on never goes back, as the protocol wants it. */
  progress(notification: Notification): void {
    const params = notification.params ?? {}
    const token = params.progressToken
    const open =
      typeof token === 'string' || typeof token === 'number' ? this.#open.byToken(token) : undefined
    // Answered or cancelled meanwhile.
    if (open === undefined || typeof params.progress !== 'number') return
    const { progress } = open
    const value = progress.base + params.progress
    progress.last = Math.max(progress.last, value)
    const total = typeof params.total === 'number' ? { total: progress.base + params.total } : {}
    this.#options.answers.write({ ...notification, params: { ...params, progress: value, ...total } })
  }

  /** An answer that is longer than a line may be. A child whose answers cannot be told apart is of no use. */
  tooLong(line: Extract<Line, { kind: 'too_long' }>, child: Child): void {
    const id = idAtTheEnds(line.head, line.tail)
    const open = id === null ? undefined : this.#open.byWire(id)
    if (open !== undefined) {
      this.#settle(open, tooLong(open, line.bytes))
      return
    }
    this.#options.log(`the child wrote a line of ${line.bytes} bytes that answers nothing; it is ended`)
    child.kill()
  }

  #toolCall(params: JsonObject): Omit<ToolCall, 'base'> {
    const name = String(params.name)
    const args = isObject(params.arguments) ? params.arguments : {}
    const tool = this.#options.introduction.tool(name)
    const meant = this.#options.sessions.meant(tool, args)
    return { tool: name, arguments: args, mutates: mutates(tool), meant }
  }

  #send(open: OpenCall, child: Child): void {
    open.sentTo = child.generation
    open.everSent = true
    const params = open.call === null ? open.params : this.#paramsOf(open.params ?? {}, open.call)
    child.send({ kind: 'request', id: open.wireId, method: open.method, params })
  }

  /** A tool call as the child gets it: with its mutation id, and still for the room it was made for. */
  #paramsOf(params: JsonObject, call: ToolCall): JsonObject {
    const meta = isObject(params._meta) ? params._meta : {}
    const elsewhere = this.#options.sessions.elsewhere(call.meant)
    return {
      ...params,
      ...(elsewhere ? { arguments: { ...call.arguments, notebook: call.meant } } : {}),
      _meta: { ...meta, 'roomd/mutation': call.base, 'roomd/settled': this.#open.settledBelow() },
    }
  }

  #toolResult(open: OpenCall, call: ToolCall, result: JsonObject): void {
    const { sessions, announcement, answers } = this.#options
    sessions.finished({ tool: call.tool, arguments: call.arguments, result })
    const news = announcement.take()
    if (news === null) {
      this.#settle(open, { result })
      return
    }
    // It has its answer: a child that dies meanwhile must not be asked again.
    if (!this.#open.close(open)) return
    const id = open.clientId
    answers.begin(id)
    void announcement.known().then(() => {
      if (!answers.wanted(id)) announcement.giveBack(news)
      answers.finish(id, { result: announcement.prepend(result, news) })
    })
  }

  #settle(open: OpenCall, outcome: Outcome): void {
    if (!this.#open.close(open)) return
    this.#options.answers.answer(open.clientId, outcome)
    this.#options.less()
  }
}
