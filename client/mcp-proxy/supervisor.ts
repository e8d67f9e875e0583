/**
 * Keeps one child running: starts it, shakes hands, starts another when it ends, pauses when that happens too often. Owns which child
 * is the present one. A child's end is an event; nobody polls. Restarts that are asked for at the same time are one restart, and
 * so are those asked for while a start is under way.
 *
 * Every way a child can fail ends in `RestartControl.ended`: a process that cannot be started, one that refuses or does not answer
 * `initialize`, one that dies later.
 */
import type { Clock } from '../../protocol/clock.ts'
import { Child, type ChildEnd, type ChildEvents, HANDOFF_CODE, type LaunchSpec, titleOf } from './child.ts'
import type { JsonObject } from './jsonrpc.ts'
import { waitPatiently } from './patience.ts'
import { type End, type Pause, RestartControl } from './restart-control.ts'
import { type SignOfLife, signOfLife } from './signs-of-life.ts'

export interface SupervisorEvents extends Pick<ChildEvents, 'message' | 'tooLong' | 'log'> {
  /** The child answered `initialize`; messages may be sent. `since`: the ends since the last one that was ready, oldest first. */
  ready(child: Child, answer: ReadyChild): void
  /** The present child is gone; what it was sent has no answer. Another start follows, or `paused`. */
  gone(child: Child, end: End): void
  paused(pause: Pause): void
}

export interface ReadyChild {
  /** `roomd <version>` as the child says it. */
  readonly title: string
  readonly initialized: JsonObject
  readonly since: readonly End[]
}

export interface SupervisorOptions {
  readonly clock: Clock
  /** Resolved afresh at every start. May throw: that is a failed start. */
  readonly launch: () => LaunchSpec
  /** The client's `initialize` parameters. */
  readonly initializeParams: () => JsonObject
  readonly events: SupervisorEvents
  readonly control?: RestartControl
  /** For tests: whether a process is at work. */
  readonly signs?: (pid: number) => SignOfLife | null
}

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'delayed'; readonly cancel: () => void }
  | { readonly kind: 'starting'; readonly child: Child; readonly cancel: () => void }
  | { readonly kind: 'ready'; readonly child: Child }
  /** Asked to end; the next one starts when it is gone. */
  | { readonly kind: 'ending'; readonly child: Child }
  | { readonly kind: 'paused'; readonly cancel: () => void }
  | { readonly kind: 'disposed' }

export class PausedError extends Error {
  readonly pause: Pause

  constructor(pause: Pause) {
    super(pause.reason)
    this.name = 'PausedError'
    this.pause = pause
  }
}

interface Waiter {
  resolve(): void
  reject(error: Error): void
}

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #control: RestartControl
  #state: State = { kind: 'idle' }
  #generation = 0
  #since: End[] = []
  /** A failure that the proxy saw and the process's end will not tell: why its handshake failed. */
  #reason: string | null = null
  #waiters: Waiter[] = []

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#control = options.control ?? new RestartControl(options.clock)
  }

  /** The child that messages may be sent to. */
  get ready(): Child | null {
    return this.#state.kind === 'ready' ? this.#state.child : null
  }

  get pause(): Pause | null {
    return this.#state.kind === 'paused' ? this.#control.pause : null
  }

  /** Counts children, the present one included. */
  get generation(): number {
    return this.#generation
  }

  /** The process that is there now, in whatever state. */
  get pid(): number | undefined {
    return 'child' in this.#state ? this.#state.child.pid : undefined
  }

  /** Starts the first child. Later calls change nothing: children follow each other by themselves. */
  start(): void {
    if (this.#state.kind === 'idle') this.#launch()
  }

  /**
   * Ends the present child in good order and resolves when the next one is ready. Joins a start that is under way. Rejects with
   * PausedError when there have been too many crashes, and when the proxy ends.
   */
  restart(detail: string): Promise<void> {
    const { pause } = this
    if (pause !== null) return Promise.reject(new PausedError(pause))
    if (this.#state.kind === 'disposed') return Promise.reject(new Error('the proxy is ending'))
    const ready = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }))
    if (this.#state.kind === 'idle') this.#launch()
    else if (this.#state.kind === 'ready') {
      const { child } = this.#state
      this.#state = { kind: 'ending', child }
      this.#reason = detail
      void child.end()
    }
    return ready
  }

  /** Ends the child and starts no more. Resolves when no process is left; twice is once. */
  async dispose(): Promise<void> {
    const state = this.#state
    this.#state = { kind: 'disposed' }
    this.#wake(new Error('the proxy is ending'))
    switch (state.kind) {
      case 'delayed':
      case 'paused':
        state.cancel()
        return
      case 'starting':
        state.cancel()
        return state.child.end()
      case 'ready':
      case 'ending':
        return state.child.end()
      case 'idle':
      case 'disposed':
        return
    }
  }

  #launch(): void {
    const { clock, launch, events } = this.#options
    this.#generation++
    this.#reason = null
    let child: Child
    try {
      child = new Child(launch(), this.#generation, clock, {
        message: events.message,
        tooLong: events.tooLong,
        log: events.log,
        ended: (end, ended) => this.#ended(end, ended),
      })
    } catch (error) {
      this.#follow(null, {
        kind: 'crash',
        detail: `could not be started: ${(error as Error).message}`,
        unready: true,
      })
      return
    }
    const { signs = signOfLife } = this.#options
    const cancel = waitPatiently({
      clock,
      look: () => (child.pid === undefined ? null : signs(child.pid)),
      over: (reason) => this.#fail(child, reason),
    })
    this.#state = { kind: 'starting', child, cancel }
    child.request('initialize', this.#options.initializeParams()).then(
      (initialized) => this.#greeted(child, initialized),
      (error: Error) => this.#fail(child, `refused initialize: ${error.message}`),
    )
  }

  #greeted(child: Child, initialized: JsonObject): void {
    if (this.#state.kind !== 'starting' || this.#state.child !== child) return
    this.#state.cancel()
    child.send({ kind: 'notification', method: 'notifications/initialized', params: undefined })
    this.#state = { kind: 'ready', child }
    this.#control.ready()
    const since = this.#since
    this.#since = []
    this.#options.events.ready(child, { title: titleOf(initialized), initialized, since })
    this.#wake(null)
  }

  /** A child that is there and cannot be used. Its end follows. */
  #fail(child: Child, reason: string): void {
    if (this.#state.kind !== 'starting' || this.#state.child !== child) return
    this.#reason ??= reason
    child.kill()
  }

  #ended(end: ChildEnd, child: Child): void {
    const state = this.#state
    if (state.kind === 'starting') state.cancel()
    if (!('child' in state) || state.child !== child) return
    const detail = this.#reason ?? end.detail
    if (state.kind === 'ending') this.#follow(child, { kind: 'asked', detail })
    else if (end.code === HANDOFF_CODE) this.#follow(child, { kind: 'handoff', detail })
    else
      this.#follow(child, { kind: 'crash', detail, ...(state.kind === 'starting' ? { unready: true } : {}) })
  }

  #follow(child: Child | null, end: End): void {
    this.#since.push(end)
    const decision = this.#control.ended(end)
    // The state first: whoever is told may ask.
    if (decision.kind === 'pause') {
      const left = decision.pause.until - this.#options.clock.now()
      const cancel = this.#options.clock.after(left, () => this.#launch())
      this.#state = { kind: 'paused', cancel }
      if (child !== null) this.#options.events.gone(child, end)
      this.#options.events.paused(decision.pause)
      this.#wake(new PausedError(decision.pause))
      return
    }
    const cancel =
      decision.afterMs === 0 ? () => {} : this.#options.clock.after(decision.afterMs, () => this.#launch())
    this.#state = { kind: 'delayed', cancel }
    if (child !== null) this.#options.events.gone(child, end)
    if (decision.afterMs === 0 && this.#state.kind === 'delayed') this.#launch()
  }

  #wake(error: Error | null): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const waiter of waiters) {
      if (error === null) waiter.resolve()
      else waiter.reject(error)
    }
  }
}
