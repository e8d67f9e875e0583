/**
 * The proxy between one MCP client and the children that follow each other: takes the client's messages and the children's and gives
 * each to the part that owns it. It never exits to recover.
 *
 * Invariant: what a child says once it is being ended counts for nothing; the next one is asked again.
 */
import type { Clock } from '../../protocol/clock.ts'
import { Announcement, parseRejoin } from './announcement.ts'
import { toolError } from './answers.ts'
import type { Child, LaunchSpec } from './child.ts'
import { ClientAnswers } from './client-answers.ts'
import { Forwarding } from './forwarding.ts'
import { Introduction } from './introduction.ts'
import {
  idAtTheEnds,
  isObject,
  type JsonObject,
  type Message,
  type Notification,
  parseMessage,
  type Request,
  RpcCode,
} from './jsonrpc.ts'
import type { Line } from './lines.ts'
import type { LocalTool } from './local-tools.ts'
import { PeerRequests } from './peer-requests.ts'
import { reconnectTool } from './reconnect.ts'
import type { RestartControl } from './restart-control.ts'
import { SessionTracker } from './session-tracker.ts'
import type { SignOfLife } from './signs-of-life.ts'
import { type ReadyChild, Supervisor } from './supervisor.ts'
import type { Advertised } from './tool-list.ts'

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
  /** For tests: whether a process is at work. */
  readonly signs?: (pid: number) => SignOfLife | null
}

/** The first child starts this long after the client's `initialized`, unless a call needs it: the tool list comes first. */
const FIRST_START_AFTER = 25
const NOTIFICATIONS_KEPT = 100

export class McpProxy {
  readonly supervisor: Supervisor
  readonly #options: ProxyOptions
  readonly #answers: ClientAnswers
  readonly #forwarding: Forwarding
  readonly #asked = new PeerRequests()
  readonly #announcement: Announcement
  readonly #introduction: Introduction
  readonly #sessions: SessionTracker
  readonly #local: ReadonlyMap<string, LocalTool>
  /** Notifications of the client for the child that is being started. */
  #kept: Notification[] = []
  #title: string | null = null
  #held = false
  #onIdle = () => {}

  constructor(options: ProxyOptions) {
    this.#options = options
    const { clock, log, cwd } = options
    const less = () => {
      if (this.openCount === 0) this.#onIdle()
    }
    this.#answers = new ClientAnswers({ write: options.write, log, less })
    this.#announcement = new Announcement(clock)
    this.#sessions = new SessionTracker(cwd, options.rejoin ?? null)
    const local = [
      reconnectTool({
        clock,
        supervisor: () => this.supervisor,
        announcement: this.#announcement,
        title: () => this.#title,
      }),
      ...(options.localTools ?? []),
    ]
    this.#local = new Map(local.map((tool) => [tool.definition.name, tool]))
    this.#introduction = new Introduction({
      advertised: options.advertised,
      version: options.version,
      local: local.map((tool) => tool.definition),
      changed: () => this.#answers.notify('notifications/tools/list_changed'),
      log,
    })
    this.supervisor = new Supervisor({
      clock,
      launch: () => this.#launch(),
      initializeParams: () => this.#introduction.clientParams,
      events: {
        message: (message, child) => this.#fromChild(message, child),
        tooLong: (line, child) => {
          if (!child.ending) this.#forwarding.tooLong(line, child)
        },
        ready: (child, answer) => this.#ready(child, answer),
        gone: (child) => {
          this.#forwarding.childGone()
          for (const message of this.#asked.childGone(child.generation)) this.#answers.write(message)
        },
        paused: (pause) => {
          this.#introduction.giveUp()
          this.#forwarding.settleAll(pause)
        },
        log,
      },
      ...(options.control === undefined ? {} : { control: options.control }),
      ...(options.signs === undefined ? {} : { signs: options.signs }),
    })
    this.#forwarding = new Forwarding({
      clock,
      answers: this.#answers,
      supervisor: this.supervisor,
      introduction: this.#introduction,
      announcement: this.#announcement,
      sessions: this.#sessions,
      log,
      less,
    })
  }

  /** How many requests of the client have no answer yet. */
  get openCount(): number {
    return this.#forwarding.count + this.#answers.count
  }

  /** One line of the client. Never throws: a defect in handling it is answered as such. */
  receive(line: Line): void {
    if (line.kind === 'too_long') {
      const message = `a message of ${line.bytes} bytes is longer than one may be`
      this.#answers.refuse(idAtTheEnds(line.head, line.tail), RpcCode.invalidRequest, message)
      return
    }
    const message = parseMessage(line.text)
    try {
      switch (message.kind) {
        case 'malformed':
          this.#answers.refuse(message.id, message.code, message.reason)
          return
        case 'request':
          this.#request(message, line.text.length)
          return
        case 'notification':
          this.#notification(message)
          return
        case 'response':
          this.#toChild(this.#asked.answer(message, this.#generation))
      }
    } catch (error) {
      this.#options.log(`could not handle a message of the client: ${(error as Error).stack}`)
      if (message.kind === 'request') this.#answers.failed(message.id, error as Error)
    }
  }

  /** Resolves when every request has its answer. */
  idle(): Promise<void> {
    if (this.openCount === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onIdle = resolve
    })
  }

  /** The client does not keep up (true), or does again. */
  holdChild(hold: boolean): void {
    this.#held = hold
    if (hold) this.supervisor.ready?.pause()
    else this.supervisor.ready?.resume()
  }

  /** Ends the child; open calls get no answer any more. Resolves when no process is left. */
  dispose(): Promise<void> {
    return this.supervisor.dispose()
  }

  // From the client

  #request(request: Request, size: number): void {
    const { id, method, params } = request
    if (this.#forwarding.has(id) || this.#answers.has(id)) {
      this.#answers.refuse(id, RpcCode.invalidRequest, `request id ${JSON.stringify(id)} is in use`)
      return
    }
    switch (method) {
      case 'initialize':
        this.#answers.result(id, this.#introduction.greet(params ?? {}))
        return
      case 'ping':
        this.#answers.result(id, {})
        return
      case 'tools/list':
        void this.#list(request)
        return
      case 'tools/call': {
        const local = this.#local.get(String(params?.name))
        if (local !== undefined) void this.#callLocal(request, local)
        else if (typeof params?.name === 'string') this.#forwarding.forward(request, size)
        else this.#answers.refuse(id, RpcCode.invalidParams, 'tools/call needs the "name" of a tool')
        return
      }
      default:
        this.#forwarding.forward(request, size)
    }
  }

  async #list({ id, params }: Request): Promise<void> {
    const listed = this.#introduction.list(params)
    if (listed !== null) {
      this.#answers.answer(id, listed)
      return
    }
    // A build without its list: the first child's is the answer.
    this.#answers.begin(id)
    this.supervisor.start()
    await this.#introduction.known()
    this.#answers.finish(id, this.#introduction.list(params) ?? { result: { tools: [] } })
  }

  async #callLocal({ id, params }: Request, tool: LocalTool): Promise<void> {
    this.#answers.begin(id)
    let result: JsonObject
    try {
      result = await tool.call(isObject(params?.arguments) ? params.arguments : {})
    } catch (error) {
      result = toolError({ code: 'internal', message: (error as Error).message, retryable: false })
    }
    this.#answers.finish(id, { result })
  }

  #notification(notification: Notification): void {
    const params = notification.params ?? {}
    switch (notification.method) {
      case 'notifications/initialized':
        this.#options.clock.after(FIRST_START_AFTER, () => this.supervisor.start())
        return
      case 'notifications/cancelled': {
        const id = params.requestId
        if (typeof id !== 'string' && typeof id !== 'number') return
        this.#answers.cancel(id)
        this.#forwarding.cancel(id, params)
        return
      }
      case 'notifications/progress':
        this.#toChild(this.#asked.progress(notification, this.#generation))
        return
      default:
        if (this.supervisor.ready !== null) this.#toChild(notification)
        else if (this.#kept.length < NOTIFICATIONS_KEPT) this.#kept.push(notification)
        else
          this.#options.log(`dropped ${notification.method}: ${NOTIFICATIONS_KEPT} wait for a child already`)
    }
  }

  #toChild(message: Message | null): void {
    if (message !== null) this.supervisor.ready?.send(message)
  }

  get #generation(): number | null {
    return this.supervisor.ready?.generation ?? null
  }

  // From the child

  #fromChild(message: Message, child: Child): void {
    if (child.ending) return
    switch (message.kind) {
      case 'request':
        this.#answers.write(this.#asked.ask(message, child.generation))
        return
      case 'response':
        this.#forwarding.response(message)
        return
      case 'notification':
        this.#notificationOfChild(message, child)
    }
  }

  #notificationOfChild(notification: Notification, child: Child): void {
    const params = notification.params ?? {}
    switch (notification.method) {
      case 'notifications/roomd/child':
        this.#told(params)
        return
      case 'notifications/progress':
        this.#forwarding.progress(notification)
        return
      case 'notifications/cancelled': {
        const cancelled = this.#asked.cancel(params, child.generation)
        if (cancelled !== null) this.#answers.write(cancelled)
        return
      }
      case 'notifications/tools/list_changed':
        void this.#introduction.learn(child)
        return
      default:
        this.#answers.write(notification)
    }
  }

  /** What the child tells the proxy itself. */
  #told(params: JsonObject): void {
    if (params.kind === 'handoff') {
      if (typeof params.target === 'string') this.#sessions.named(params.target)
      return
    }
    if (params.kind !== 'rejoin') return
    const rejoin = parseRejoin(params, this.#sessions.target)
    if (rejoin === null) return
    if (rejoin.outcome === 'succeeded') this.#sessions.named(rejoin.target)
    this.#announcement.settle(rejoin)
  }

  // The child's life

  #launch(): LaunchSpec {
    const { target } = this.#sessions
    this.#announcement.starting(target)
    return this.#options.launch(target)
  }

  #ready(child: Child, { title, since }: ReadyChild): void {
    if (this.#held) child.pause()
    for (const { kind, detail } of since) {
      this.#options.log(`child ended (${kind}: ${detail}); ${title} is ready`)
    }
    // A start that succeeds at last is no news to somebody who has seen no child before.
    if (this.#title !== null) {
      const parked = this.#sessions.takeParked()
      this.#announcement.restarted({ ends: since, before: this.#title, after: title, parked, toolsGone: [] })
    }
    this.#title = title
    for (const { method, params } of this.#introduction.recalled()) {
      child.request(method, params).catch((error: Error) => {
        if (!child.ending) this.#options.log(`the new child refused ${method}: ${error.message}`)
      })
    }
    this.#forwarding.sendAll(child)
    const kept = this.#kept
    this.#kept = []
    for (const notification of kept) child.send(notification)
    void this.#introduction.learn(child).then((gone) => this.#announcement.toolsGone(gone))
  }
}
