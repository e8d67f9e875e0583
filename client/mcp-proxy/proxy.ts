/**
 * The proxy between one MCP client and the children that follow each other. Owns the client's requests until they are answered, the
 * rejoin target, and what the client has been told (tools, log level, subscriptions). It never exits to recover.
 *
 * Invariants: every request is answered once, or cancelled; an answer comes from the child that has the call now, never from one
 * that is ending; a call that is sent again is the same call: same mutation id, same room.
 */
import type { Clock } from '../../protocol/clock.ts'
import { Announcement, parseRejoin } from './announcement.ts'
import { pauseText, tooLong, toolError, unsettled } from './answers.ts'
import { banner } from './banner.ts'
import type { Child, LaunchSpec } from './child.ts'
import { Introduction } from './introduction.ts'
import {
  idAtTheEnds,
  isObject,
  type JsonObject,
  type Message,
  type Notification,
  parseMessage,
  type Request,
  type RequestId,
  type Response,
  RpcCode,
  type RpcError,
} from './jsonrpc.ts'
import type { Line } from './lines.ts'
import { type LocalTool, reconnectDefinition } from './local-tools.ts'
import { type OpenCall, OpenCalls } from './open-calls.ts'
import { PeerRequests } from './peer-requests.ts'
import type { End, RestartControl } from './restart-control.ts'
import { PausedError, type ReadyChild, Supervisor } from './supervisor.ts'
import {
  forgetParked,
  NOTHING_TRACKED,
  named,
  notebookArgument,
  parseTarget,
  rejoinTarget,
  type Tracked,
  track,
} from './target.ts'
import { type Advertised, mutates, takesNotebook } from './tool-list.ts'

export interface ProxyOptions {
  readonly clock: Clock
  /** Writes one message to the client. */
  readonly write: (message: Message) => void
  /** Called afresh for every child with the target to rejoin. May throw: a failed start. */
  readonly launch: (rejoin: string | null) => LaunchSpec
  /** The build's own tool list; null: children are asked. */
  readonly advertised: Advertised | null
  /** `version` for `serverInfo` where there is no list. */
  readonly version: string
  readonly localTools?: readonly LocalTool[]
  /** What the first child should rejoin. */
  readonly rejoin?: string | null
  /** What relative paths of calls are relative to. */
  readonly cwd: string
  readonly log: (text: string) => void
  readonly control?: RestartControl
}

/** `reconnect` answers within this many ms of a child that can start. */
const RECONNECT_BOUND = 1800
/** The first child starts this long after the client's `initialized`, unless a call needs it: the tool list comes first. */
const FIRST_START_AFTER = 25
const NOTIFICATIONS_KEPT = 100

export class McpProxy {
  readonly #options: ProxyOptions
  readonly #supervisor: Supervisor
  readonly #open: OpenCalls
  readonly #asked = new PeerRequests()
  readonly #announcement: Announcement
  readonly #introduction: Introduction
  readonly #local: ReadonlyMap<string, LocalTool>
  /** Requests that the proxy is answering itself; false: cancelled. */
  readonly #answering = new Map<RequestId, boolean>()
  /** Notifications of the client for the child that is being started. */
  #kept: Notification[] = []
  #tracked: Tracked
  #title: string | null = null
  #paused = false
  #onSettled = () => {}

  constructor(options: ProxyOptions) {
    this.#options = options
    const { clock, log } = options
    this.#open = new OpenCalls(clock)
    this.#announcement = new Announcement(clock)
    const reconnect: LocalTool = { definition: reconnectDefinition, call: () => this.#reconnect() }
    const local = [reconnect, ...(options.localTools ?? [])]
    this.#local = new Map(local.map((tool) => [tool.definition.name, tool]))
    this.#introduction = new Introduction({
      advertised: options.advertised,
      version: options.version,
      local: local.map((tool) => tool.definition),
      changed: () => this.#notify('notifications/tools/list_changed'),
      log,
    })
    this.#tracked =
      options.rejoin == null ? NOTHING_TRACKED : { ...NOTHING_TRACKED, active: parseTarget(options.rejoin) }
    this.#supervisor = new Supervisor({
      clock,
      launch: () => this.#launch(),
      initializeParams: () => this.#introduction.clientParams,
      events: {
        message: (message, child) => this.#fromChild(message, child),
        tooLong: (line, child) => this.#tooLongFromChild(line, child),
        ready: (child, answer) => this.#ready(child, answer),
        gone: (child, end) => this.#gone(child, end),
        paused: (pause) => {
          this.#introduction.giveUp()
          for (const open of this.#open.all) this.#settle(open, unsettled(open, pause, clock.now()))
        },
        log,
      },
      ...(options.control === undefined ? {} : { control: options.control }),
    })
  }

  /** How many requests of the client have no answer yet. */
  get openCount(): number {
    return this.#open.count + this.#answering.size
  }

  get supervisor(): Supervisor {
    return this.#supervisor
  }

  /** One line of the client. Never throws: a defect in handling it is answered as such. */
  receive(line: Line): void {
    if (line.kind === 'too_long') {
      const message = `a message of ${line.bytes} bytes is longer than one may be`
      this.#refuse(idAtTheEnds(line.head, line.tail), RpcCode.invalidRequest, message)
      return
    }
    const message = parseMessage(line.text)
    try {
      switch (message.kind) {
        case 'malformed':
          this.#refuse(message.id, message.code, message.reason)
          return
        case 'request':
          this.#request(message, line.text.length)
          return
        case 'notification':
          this.#notification(message)
          return
        case 'response':
          this.#toChild(this.#asked.answer(message, this.#supervisor.ready?.generation ?? null))
      }
    } catch (error) {
      this.#options.log(`could not handle a message of the client: ${(error as Error).stack}`)
      if (message.kind === 'request') this.#refuse(message.id, RpcCode.internal, (error as Error).message)
    }
  }

  /** Resolves when every request has its answer. */
  settled(): Promise<void> {
    if (this.openCount === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onSettled = resolve
    })
  }

  /** The client does not keep up (true), or does again. */
  holdChild(hold: boolean): void {
    this.#paused = hold
    if (hold) this.#supervisor.ready?.pause()
    else this.#supervisor.ready?.resume()
  }

  /** Ends the child; open calls get no answer any more. Resolves when no process is left. */
  dispose(): Promise<void> {
    return this.#supervisor.dispose()
  }

  // From the client

  #request(request: Request, size: number): void {
    const { id, method } = request
    if (this.#open.has(id) || this.#answering.has(id)) {
      this.#refuse(id, RpcCode.invalidRequest, `request id ${JSON.stringify(id)} is in use`)
      return
    }
    switch (method) {
      case 'initialize':
        this.#answer(id, { result: this.#introduction.greet(request.params ?? {}) })
        return
      case 'ping':
        this.#answer(id, { result: {} })
        return
      case 'tools/list': {
        const listed = this.#introduction.list(request.params)
        if (listed === null) void this.#listLater(request)
        else this.#answer(id, listed)
        return
      }
      case 'tools/call':
        this.#call(request, size)
        return
      default:
        this.#forward(request, size, null)
    }
  }

  /** A build without its list: the first child's is the answer. */
  async #listLater({ id, params }: Request): Promise<void> {
    this.#answering.set(id, true)
    this.#supervisor.start()
    await this.#introduction.known()
    this.#answered(id, this.#introduction.list(params) ?? { result: { tools: [] } })
  }

  #call(request: Request, size: number): void {
    const params = request.params ?? {}
    if (typeof params.name !== 'string') {
      this.#refuse(request.id, RpcCode.invalidParams, 'tools/call needs the "name" of a tool')
      return
    }
    const args = isObject(params.arguments) ? params.arguments : {}
    const local = this.#local.get(params.name)
    if (local !== undefined) {
      void this.#callLocal(request.id, local, args)
      return
    }
    const tool = this.#introduction.tool(params.name)
    const { active } = this.#tracked
    const meant =
      active !== null && args.notebook === undefined && takesNotebook(tool) ? notebookArgument(active) : null
    this.#forward(request, size, { tool: params.name, arguments: args, mutates: mutates(tool), meant })
  }

  async #callLocal(id: RequestId, tool: LocalTool, args: JsonObject): Promise<void> {
    this.#answering.set(id, true)
    let result: JsonObject
    try {
      result = await tool.call(args)
    } catch (error) {
      result = toolError({ code: 'internal', message: (error as Error).message, retryable: false })
    }
    this.#answered(id, { result })
  }

  #forward(request: Request, size: number, call: Parameters<OpenCalls['open']>[1]): void {
    const unread = this.#supervisor.ready?.unread ?? 0
    if (!this.#open.fits(size + unread)) {
      const message = `${this.#open.count} calls are open already and hold too much; wait for one of them.`
      if (call === null) this.#refuse(request.id, RpcCode.unavailable, message)
      else this.#answer(request.id, { result: toolError({ code: 'overloaded', message, retryable: true }) })
      return
    }
    const meta = isObject(request.params?._meta) ? request.params._meta : {}
    const token = meta.progressToken
    const open = this.#open.open(
      { clientId: request.id, method: request.method, params: request.params, size },
      call,
      typeof token === 'string' || typeof token === 'number' ? token : null,
    )
    const { pause, ready } = this.#supervisor
    if (pause !== null) this.#settle(open, unsettled(open, pause, this.#options.clock.now()))
    else if (ready !== null) this.#send(open, ready)
    else this.#supervisor.start()
  }

  #send(open: OpenCall, child: Child): void {
    open.sentTo = child.generation
    open.everSent = true
    child.send({
      kind: 'request',
      id: open.wireId,
      method: open.method,
      params: open.call === null ? open.params : this.#paramsOf(open, open.call),
    })
  }

  /** A tool call as the child gets it: with its mutation id, and still for the room it was made for. */
  #paramsOf(open: OpenCall, call: NonNullable<OpenCall['call']>): JsonObject {
    const params = open.params ?? {}
    const meta = isObject(params._meta) ? params._meta : {}
    const { active } = this.#tracked
    const elsewhere = call.meant !== null && (active === null || notebookArgument(active) !== call.meant)
    return {
      ...params,
      ...(elsewhere ? { arguments: { ...call.arguments, notebook: call.meant } } : {}),
      _meta: {
        ...meta,
        'roomd/mutation': call.base,
        'roomd/settled': this.#open.settledBelow(),
      },
    }
  }

  #notification(notification: Notification): void {
    const params = notification.params ?? {}
    switch (notification.method) {
      case 'notifications/initialized':
        this.#options.clock.after(FIRST_START_AFTER, () => this.#supervisor.start())
        return
      case 'notifications/cancelled':
        this.#cancelled(params)
        return
      case 'notifications/progress':
        this.#toChild(this.#asked.progress(notification, this.#supervisor.ready?.generation ?? null))
        return
      default:
        if (this.#supervisor.ready !== null) this.#toChild(notification)
        else if (this.#kept.length < NOTIFICATIONS_KEPT) this.#kept.push(notification)
        else
          this.#options.log(`dropped ${notification.method}: ${NOTIFICATIONS_KEPT} wait for a child already`)
    }
  }

  #cancelled(params: JsonObject): void {
    const id = params.requestId
    if (typeof id !== 'string' && typeof id !== 'number') return
    if (this.#answering.has(id)) this.#answering.set(id, false)
    const open = this.#open.byClient(id)
    // Answered meanwhile: the two crossed.
    if (open === undefined) return
    const child = this.#supervisor.ready
    if (child !== null && open.sentTo === child.generation) {
      child.send({
        kind: 'notification',
        method: 'notifications/cancelled',
        params: { ...params, requestId: open.wireId },
      })
    }
    this.#open.cancel(open)
    this.#oneLess()
  }

  #toChild(message: Message | null): void {
    if (message !== null) this.#supervisor.ready?.send(message)
  }

  // From the child

  #fromChild(message: Message, child: Child): void {
    // What a child says while it is being ended may be an echo of that: the next one is asked again.
    if (child.ending) return
    switch (message.kind) {
      case 'request':
        this.#options.write(this.#asked.ask(message, child.generation))
        return
      case 'notification':
        this.#notificationOfChild(message, child)
        return
      case 'response':
        this.#response(message)
    }
  }

  #response(response: Response): void {
    const open = this.#open.byWire(response.id)
    // A cancelled call's answer, late.
    if (open === undefined) return
    const { call } = open
    if (!('result' in response.outcome)) {
      this.#settle(open, response.outcome)
      return
    }
    const { result } = response.outcome
    if (call === null) {
      this.#introduction.remember(open.method, open.params ?? {})
      this.#settle(open, { result })
      return
    }
    this.#tracked = track(
      this.#tracked,
      { tool: call.tool, arguments: call.arguments, result },
      this.#options.cwd,
    )
    const news = this.#announcement.take()
    if (news === null) {
      this.#settle(open, { result })
      return
    }
    // It has its answer: a child that dies meanwhile must not be asked again.
    if (!this.#open.close(open)) return
    const { clientId } = open
    this.#answering.set(clientId, true)
    void this.#announcement.known().then(() => {
      if (this.#answering.get(clientId) !== true) this.#announcement.giveBack(news)
      this.#answered(clientId, { result: this.#announcement.prepend(result, news) })
    })
  }

  #notificationOfChild(notification: Notification, child: Child): void {
    const params = notification.params ?? {}
    switch (notification.method) {
      case 'notifications/roomd/child':
        this.#told(params)
        return
      case 'notifications/progress':
        this.#progress(notification)
        return
      case 'notifications/cancelled': {
        const cancelled = this.#asked.cancel(params, child.generation)
        if (cancelled !== null) this.#options.write(cancelled)
        return
      }
      case 'notifications/tools/list_changed':
        void this.#introduction.learn(child)
        return
      default:
        this.#options.write(notification)
    }
  }

  /** What the child tells the proxy itself. */
  #told(params: JsonObject): void {
    if (params.kind === 'handoff') {
      if (typeof params.target === 'string') this.#tracked = named(this.#tracked, params.target)
      return
    }
    if (params.kind !== 'rejoin') return
    const rejoin = parseRejoin(params, rejoinTarget(this.#tracked.active))
    if (rejoin === null) return
    if (rejoin.outcome === 'succeeded') this.#tracked = named(this.#tracked, rejoin.target)
    this.#announcement.settle(rejoin)
  }

  /** Progress of a call that several children worked on never goes back, as the protocol wants it. */
  #progress(notification: Notification): void {
    const params = notification.params ?? {}
    const token = params.progressToken
    const open =
      typeof token === 'string' || typeof token === 'number' ? this.#open.byToken(token) : undefined
    // Answered or cancelled meanwhile.
    if (open === undefined) return
    const { progress } = open
    if (typeof params.progress !== 'number') return
    const value = progress.base + params.progress
    progress.last = Math.max(progress.last, value)
    const total = typeof params.total === 'number' ? { total: progress.base + params.total } : {}
    this.#options.write({ ...notification, params: { ...params, progress: value, ...total } })
  }

  #tooLongFromChild(line: Extract<Line, { kind: 'too_long' }>, child: Child): void {
    if (child.ending) return
    const id = idAtTheEnds(line.head, line.tail)
    const open = id === null ? undefined : this.#open.byWire(id)
    if (open !== undefined) {
      this.#settle(open, tooLong(open, line.bytes))
      return
    }
    this.#options.log(`the child wrote a line of ${line.bytes} bytes that answers nothing; it is ended`)
    child.kill()
  }

  // The child's life

  #launch(): LaunchSpec {
    const target = rejoinTarget(this.#tracked.active)
    this.#announcement.starting(target)
    return this.#options.launch(target)
  }

  #ready(child: Child, { title, since }: ReadyChild): void {
    if (this.#paused) child.pause()
    if (since.length > 0) {
      for (const { kind, detail } of since)
        this.#options.log(`child ended (${kind}: ${detail}); ${title} is ready`)
    }
    // A start that succeeds at last is no news to somebody who has seen no child before.
    if (this.#title !== null) {
      const { parked } = this.#tracked
      this.#tracked = forgetParked(this.#tracked)
      this.#announcement.restarted({ ends: since, before: this.#title, after: title, parked, toolsGone: [] })
    }
    this.#title = title
    for (const message of this.#introduction.recalled()) {
      void child.request(message.method, message.params).catch((error: Error) => {
        this.#options.log(`the new child refused ${message.method}: ${error.message}`)
      })
    }
    for (const open of this.#open.all) this.#send(open, child)
    const kept = this.#kept
    this.#kept = []
    for (const notification of kept) child.send(notification)
    void this.#introduction.learn(child).then((gone) => this.#announcement.toolsGone(gone))
  }

  #gone(child: Child, _end: End): void {
    this.#open.childGone()
    for (const message of this.#asked.childGone(child.generation)) this.#options.write(message)
  }

  async #reconnect(): Promise<JsonObject> {
    const { clock } = this.#options
    const deadline = clock.now() + RECONNECT_BOUND
    const before = this.#title
    try {
      await this.#supervisor.restart('reconnect')
    } catch (error) {
      if (!(error instanceof PausedError)) throw error
      const message = `not reconnected: ${pauseText(error.pause, clock.now())}.`
      const cause = { reason: error.pause.reason, retry_in_ms: error.pause.until - clock.now() }
      return toolError({ code: 'internal', message, retryable: true, cause })
    }
    const news = this.#announcement.take()
    await Promise.race([
      this.#announcement.known(),
      new Promise<void>((resolve) => clock.after(Math.max(0, deadline - clock.now()), resolve)),
    ])
    const { rejoin } = this.#announcement
    const after = this.#title ?? ''
    const told = news ?? { ends: [], before: after, after, parked: [], toolsGone: [] }
    const text = news === null ? `[roomd] The MCP child is ready (${after}).` : banner(news, rejoin)
    return {
      content: [{ type: 'text', text }],
      structuredContent: {
        restarted: true,
        version: { before: before ?? after, after },
        rejoin: { ...rejoin },
        parked_lost: told.parked.flatMap((session) => rejoinTarget(session) ?? []),
      },
    }
  }

  // To the client

  #settle(open: OpenCall, outcome: { result: JsonObject } | { error: RpcError }): void {
    if (!this.#open.close(open)) return
    this.#answer(open.clientId, outcome)
    this.#oneLess()
  }

  #answer(id: RequestId, outcome: { result: JsonObject } | { error: RpcError }): void {
    this.#options.write({ kind: 'response', id, outcome })
  }

  /** The answer of a request in `#answering`, unless it was cancelled. */
  #answered(id: RequestId, outcome: { result: JsonObject } | { error: RpcError }): void {
    const wanted = this.#answering.get(id) === true
    this.#answering.delete(id)
    if (wanted) this.#answer(id, outcome)
    this.#oneLess()
  }

  #refuse(id: RequestId | null, code: number, message: string): void {
    if (id !== null) this.#answer(id, { error: { code, message } })
    else this.#options.log(`the client sent what is no message: ${message}`)
  }

  #notify(method: string): void {
    this.#options.write({ kind: 'notification', method, params: undefined })
  }

  #oneLess(): void {
    if (this.openCount > 0) return
    this.#onSettled()
  }
}
