/**
 * Keeps one client connected: dials, redials by itself, and is the one authority on which daemon incarnation is spoken to. At
 * most one dial is under way; at most one link is up. Who needs the daemon says so with `needDaemon`: that dials at once, starts a
 * daemon where that is allowed, and reports when the daemon has been away too long.
 *
 * Races: a socket that appears while a dial is failing makes the next dial immediate; a link that ends while it is being
 * announced is announced as lost right after; closing aborts the dial under way.
 */
import { type GoAway, type Hello, Welcome } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import { offer } from '../../protocol/wire/handshake.ts'
import type { WireEnd } from '../../protocol/wire/wire.ts'
import type { Backoff } from './backoff.ts'
import type { Dialer } from './dialer.ts'
import { Emitter } from './emitter.ts'
import { Link } from './link.ts'

/** Which daemon process a connection speaks to. `started_at`: epoch ms. */
export interface Incarnation {
  readonly boot_id: string
  readonly pid: number
  readonly version: string
  readonly started_at: number
}

/**
 * What happens to the daemon, as this client sees it. Every successful dial tells one `connected` or, when another incarnation
 * answers than before, one `replaced`.
 */
export type DaemonEvent =
  | ({ readonly state: 'connected' } & Incarnation)
  | ({ readonly state: 'replaced'; readonly previous: Incarnation } & Incarnation)
  | ({ readonly state: 'lost'; readonly message: string } & Incarnation)
  | ({ readonly state: 'going_away' } & Incarnation & GoAway)

export interface ConnectionOptions {
  readonly dialer: Dialer
  readonly hello: Hello
  readonly clock: Clock
  readonly backoff: Backoff
  /** Starts a daemon; null: never. */
  readonly autostart: (() => Promise<void>) | null
  /** How long a call waits for a daemon that is away, in ms. 0: one dial decides. */
  readonly waitMs: number
}

interface Events {
  daemon: DaemonEvent
  /** A link is up; everything that speaks attaches to it now. */
  up: Link
}

/** One call, or one attach, that needs the daemon. */
interface Need {
  readonly fail: (error: RoomdError) => void
  stopTimer: () => void
  /** A start of the daemon was tried for it during this absence. */
  started: boolean
}

/** Trying again is no use until something is changed by a person or a new version. */
const PERMANENT = new Set(['forbidden', 'unauthorized', 'unsupported', 'client_protocol', 'invalid_argument'])

export class Connection extends Emitter<Events> {
  readonly #options: ConnectionOptions
  readonly #needs = new Set<Need>()
  #link: Link | null = null
  #incarnation: Incarnation | null = null
  #dialling: AbortController | null = null
  #dialAgain = false
  #stopTimer = () => {}
  #stopWatching: (() => void) | null = null
  #starting = false
  #lastFailure: unknown = null
  #closed = false
  #whenEnded = () => {}

  constructor(options: ConnectionOptions) {
    super()
    this.#options = options
  }

  /** The link that is up, or null while the daemon is away. */
  get link(): Link | null {
    return this.#link
  }

  /** The newest incarnation spoken to, also while it is away. */
  get incarnation(): Incarnation | null {
    return this.#incarnation
  }

  get closed(): boolean {
    return this.#closed
  }

  get place(): string {
    return this.#options.dialer.place
  }

  /**
   * Says that somebody needs the daemon until the returned function is called. While it is away it is dialled at once; when it
   * has been away for the whole wait, `fail` is called, once.
   */
  needDaemon(fail: (error: RoomdError) => void): () => void {
    const need: Need = { fail, stopTimer: () => {}, started: false }
    this.#needs.add(need)
    if (!this.#link && !this.#closed) {
      this.#arm(need)
      this.#dialNow()
    }
    return () => {
      need.stopTimer()
      this.#needs.delete(need)
    }
  }

  /** Sends what is queued (at most `drainMs`), closes, and dials no more. Resolves when the socket is closed. */
  async close(drainMs = 1_000): Promise<void> {
    this.#closed = true
    this.#stopTimer()
    this.#stopWatching?.()
    this.#stopWatching = null
    this.#dialling?.abort()
    const error = new RoomdError('client_closed', 'this client was closed')
    for (const need of [...this.#needs]) this.#giveUp(need, error)
    const link = this.#link
    if (!link) return
    await new Promise<void>((resolve) => {
      this.#whenEnded = resolve
      link.close(drainMs)
    })
  }

  #dialNow(): void {
    if (this.#closed || this.#link) return
    if (this.#dialling) return
    this.#stopTimer()
    this.#stopTimer = () => {}
    void this.#dial()
  }

  async #dial(): Promise<void> {
    const { dialer, hello, clock } = this.#options
    const dialling = new AbortController()
    this.#dialling = dialling
    this.#dialAgain = false
    let link: Link | null = null
    try {
      await dialer.dial(dialling.signal, async (transport) => {
        await offer(transport, hello, {
          welcome: Welcome,
          clock,
          signal: dialling.signal,
          handlers: (wire, welcome) => {
            const made: Link = new Link(wire, welcome, {
              goAway: (goAway) => this.#goingAway(made, goAway),
              ended: (end) => this.#down(made, end),
            })
            link = made
            this.#dialling = null
            this.#up(made)
            return made.handlers()
          },
        })
      })
    } catch (error) {
      // A link that came up and ended at once was reported by `ended`.
      if (link) return
      this.#dialling = null
      this.#failed(error)
    }
  }

  #up(link: Link): void {
    if (this.#closed) {
      link.destroy('this client was closed')
      return
    }
    const { boot_id, pid, version, started_at } = link.welcome
    const incarnation = { boot_id, pid, version, started_at }
    const previous = this.#incarnation
    this.#link = link
    this.#incarnation = incarnation
    this.#lastFailure = null
    this.#options.backoff.up(this.#options.clock.now())
    this.#stopWatching?.()
    this.#stopWatching = null
    for (const need of this.#needs) {
      need.stopTimer()
      need.started = false
    }
    // Handlers of the wire are in place only when this turn's call returns; who sends before only queues.
    this.emit(
      'daemon',
      previous && previous.boot_id !== boot_id
        ? { state: 'replaced', ...incarnation, previous }
        : { state: 'connected', ...incarnation },
    )
    if (this.#link === link) this.emit('up', link)
  }

  #goingAway(link: Link, goAway: GoAway): void {
    if (this.#link !== link || !this.#incarnation) return
    this.emit('daemon', { state: 'going_away', ...this.#incarnation, ...goAway })
  }

  #down(link: Link, end: WireEnd): void {
    if (this.#link !== link) return
    this.#link = null
    this.#options.backoff.down(this.#options.clock.now())
    this.#whenEnded()
    if (this.#closed) return
    this.#lastFailure = new Error(end.message)
    for (const need of this.#needs) this.#arm(need)
    if (this.#incarnation) this.emit('daemon', { state: 'lost', ...this.#incarnation, message: end.message })
    this.#retryLater()
  }

  #failed(error: unknown): void {
    if (this.#closed) return
    this.#lastFailure = error
    if (error instanceof RoomdError && PERMANENT.has(error.code)) {
      for (const need of [...this.#needs]) this.#giveUp(need, error)
    } else {
      this.#start(error)
      // Without a wait, the first dial decides.
      if (this.#options.waitMs === 0 && !this.#starting)
        for (const need of [...this.#needs]) this.#giveUp(need, this.#lostError())
    }
    this.#retryLater()
  }

  #retryLater(): void {
    if (this.#closed || this.#link || this.#dialling) return
    this.#stopWatching ??= this.#options.dialer.watch(() => this.#appeared())
    if (this.#dialAgain) {
      this.#dialNow()
      return
    }
    this.#stopTimer()
    this.#stopTimer = this.#options.clock.after(this.#options.backoff.next(), () => this.#dialNow())
  }

  #appeared(): void {
    this.#options.backoff.reset()
    if (this.#dialling) this.#dialAgain = true
    else this.#dialNow()
  }

  #arm(need: Need): void {
    const { clock, waitMs } = this.#options
    if (waitMs > 0) need.stopTimer = clock.after(waitMs, () => this.#giveUp(need, this.#lostError()))
  }

  /** Starts a daemon once for each need that has not had one started for it; concurrent starts are one. */
  #start(error: unknown): void {
    const { autostart } = this.#options
    if (!autostart || this.#starting || !nobodyListens(error)) return
    const waiting = [...this.#needs].filter((need) => !need.started)
    if (waiting.length === 0) return
    for (const need of waiting) need.started = true
    this.#starting = true
    autostart().then(
      () => {
        this.#starting = false
        this.#appeared()
      },
      (reason: unknown) => {
        this.#starting = false
        const told =
          reason instanceof RoomdError
            ? reason
            : new RoomdError('daemon_lost', `no daemon runs and starting one failed: ${messageOf(reason)}`)
        // Somebody else may have started one meanwhile.
        if (!this.#link) for (const need of waiting) this.#giveUp(need, told)
      },
    )
  }

  #giveUp(need: Need, error: RoomdError): void {
    need.stopTimer()
    if (this.#needs.delete(need)) need.fail(error)
  }

  #lostError(): RoomdError {
    const waited = this.#options.waitMs > 0 ? ` within ${this.#options.waitMs / 1000} s` : ''
    const why = this.#lastFailure === null ? '' : ` (${messageOf(this.#lastFailure)})`
    return new RoomdError(
      'daemon_lost',
      `no roomd daemon answered at ${this.place}${waited}${why}. See "roomd status"; start one with "roomd start"`,
    )
  }
}

function nobodyListens(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return code === 'ENOENT' || code === 'ECONNREFUSED'
}
