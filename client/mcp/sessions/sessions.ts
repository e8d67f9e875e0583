/**
 * The sessions of one MCP connection: the active one, the parked ones, rooms that single calls use, and why the last session was
 * lost. What wins a race is decided in `activations.ts`; here is what attaching, parking and losing do.
 */
import { randomUUID } from 'node:crypto'
import type { Clock } from '../../../protocol/clock.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import { Emitter } from '../../sdk/emitter.ts'
import type { Room } from '../../sdk/room.ts'
import { unlessAborted } from '../../sdk/unless-aborted.ts'
import type { DaemonLink } from '../daemon-link.ts'
import { Activations, type Flight, supersededError } from './activations.ts'
import { nextConnect } from './attaching.ts'
import { type Drop, type DropReason, noSessionError, reasonOf, stillComingError } from './drop.ts'
import { Guests, type Lease } from './guests.ts'
import { type Attached, type CreateWanted, Opener } from './opener.ts'
import { type Parked, ParkedSessions, park } from './parked.ts'
import { type RejoinOutcome as Outcome, Rejoining } from './rejoining.ts'
import { Session } from './session.ts'
import { type Since, sinceParked } from './since.ts'
import { canonicalPath, keyOf, namesOf, parseTarget, pathKey, type Target } from './target.ts'
import { unlessLate } from './unless-late.ts'

export interface SessionsOptions {
  readonly daemon: DaemonLink
  readonly clock: Clock
  /** Folder that relative paths start from. */
  readonly cwd: string
}

export interface Connected {
  readonly session: Session
  readonly status: 'connected' | 'already_connected' | 'resumed'
  /** The notebook that was active before and is parked now. */
  readonly switchedFrom: Parked | null
  /** For `resumed`. */
  readonly since: Since | null
}

export interface ConnectOptions {
  readonly signal?: AbortSignal | undefined
  /** Upgrade a file of notebook format 3 or older first; if that fails, nothing is connected. */
  readonly convert?: boolean | undefined
  /** Only to look; absent: all that the connection has. */
  readonly scope?: 'viewer' | undefined
}

export interface Disconnected {
  readonly notebook_id: string | null
  readonly path: string | null
  readonly was: 'active' | 'parked' | 'pending_rejoin'
}

export type RejoinOutcome = Outcome<Session>

/** Milliseconds a call waits for a session that is on its way, whatever it is that takes the time. */
const PATIENCE = 10_000

export class Sessions extends Emitter<{ changed: undefined }> {
  readonly #options: SessionsOptions
  readonly #activations: Activations<Session>
  readonly #parked = new ParkedSessions()
  readonly #guests: Guests
  readonly #opener: Opener
  readonly #rejoining: Rejoining<Session>
  /** Sessions whose room was made by the call that attached it. */
  readonly #created = new WeakSet<Session>()
  #lastDrop: Drop | null = null
  #disposed = false

  constructor(options: SessionsOptions) {
    super()
    this.#options = options
    this.#guests = new Guests(options.clock)
    this.#activations = new Activations<Session>({
      keys: (session) => session.keys,
      reusable: (session) => session.bound,
      discard: (session) => this.#discard(session),
      displaced: (session) => this.#displaced(session),
    })
    this.#opener = new Opener(options.daemon, (generation) => this.#activations.raise(generation))
    this.#rejoining = new Rejoining({
      clock: options.clock,
      // Nothing is brought back at the end.
      epoch: () => (this.#disposed ? -1 : this.#activations.epoch),
      reachable: async (target) => target.kind === 'remote' || options.daemon.whenever(),
      attempt: (target) => this.#rejoin(target),
      failed: (target, reason, message) => {
        this.#lastDrop = { ...namesOf(target), target, reason, message }
      },
    })
    options.daemon.on('daemon', (event) => {
      if (event.state !== 'connected' && event.state !== 'replaced') return
      const welcome = options.daemon.present?.welcome
      if (welcome) this.#activations.raise(welcome.activation_generation)
    })
  }

  get active(): Session | null {
    return this.#activations.active
  }

  get parked(): readonly Parked[] {
    return this.#parked.all
  }

  get lastDrop(): Drop | null {
    return this.#lastDrop
  }

  /** What the proxy has a new child rejoin: the active session, or one that is being rejoined. */
  get handoffTarget(): Target | null {
    return this.active?.target ?? this.#rejoining.target
  }

  /** A target as an argument names it. Throws `invalid_argument`. */
  target(text: string): Target {
    return parseTarget(text, this.#options.cwd)
  }

  // --- activations ---------------------------------------------------------------------------------------------------

  /** Makes a room the active session. What was active stays so when this fails. */
  async connect(target: Target, options: ConnectOptions = {}): Promise<Connected> {
    const { scope } = options
    this.#mustFit(target, scope)
    if (options.convert) await this.#opener.convert(target, options.signal)
    const request = {
      key: keyOf(target),
      aliases: () => this.#opener.aliases(target),
      attach: async (flight: Flight) => this.#session(await this.#opener.attach(target, flight, scope)),
    }
    return this.#activated(request, options.signal)
  }

  /** A session keeps the scope that it was opened with: throws `conflict` when the active one is of this target and has another. */
  #mustFit(target: Target, scope: 'viewer' | undefined): void {
    const { active } = this
    if (!active?.keys.includes(keyOf(target))) return
    const held = active.room.state.scope
    const most = active.client.welcome?.scope ?? held
    if (held === (scope ?? most)) return
    throw new RoomdError(
      'conflict',
      `this notebook is active already with scope ${held}; disconnect_notebook leaves it, then connect again`,
      { next: { tool: 'disconnect_notebook', arguments: {} } },
    )
  }

  /** Makes a new room and activates it. `mutationId`: see OpenRoomOptions. */
  async create(
    wanted: CreateWanted,
    options: { signal?: AbortSignal | undefined; mutationId?: number | undefined } = {},
  ): Promise<Connected> {
    const request = {
      key: `create:${randomUUID()}`,
      attach: async (flight: Flight) => {
        const session = this.#session(await this.#opener.attachNew(wanted, flight, options.mutationId))
        this.#created.add(session)
        return session
      },
    }
    return this.#activated(request, options.signal)
  }

  async #activated(
    request: Parameters<Activations<Session>['activate']>[0],
    signal: AbortSignal | undefined,
  ): Promise<Connected> {
    const before = this.active
    const { session, how } = await this.#activations.activate(request, signal)
    const switchedFrom =
      before && before !== session
        ? (this.#parked.all.find((parked) => parked.notebook_id === before.notebookId) ?? null)
        : null
    const parked = this.#parked.take(session.notebookId)
    this.#guests.endIdle(session.notebookId)
    this.emit('changed', undefined)
    if (how === 'already') return { session, status: 'already_connected', switchedFrom: null, since: null }
    if (!parked) return { session, status: 'connected', switchedFrom, since: null }
    const since = await sinceParked(parked, session.room).catch((error: unknown) => {
      // The session stands; only the summary is missing, which is no reason to fail the call.
      if (error instanceof RoomdError) return null
      throw error
    })
    return { session, status: 'resumed', switchedFrom, since }
  }

  /** Ends the active session, forgets a parked one, or calls off a rejoin. Throws when there is none of that. */
  disconnect(target?: Target): Disconnected {
    const keys = target ? [keyOf(target)] : []
    const parked = this.#parked.find(keys)
    if (parked) {
      this.#parked.take(parked.notebook_id)
      this.emit('changed', undefined)
      return { notebook_id: parked.notebook_id, path: parked.path, was: 'parked' }
    }
    const { active } = this
    if (active && (!target || active.keys.includes(keyOf(target)))) {
      this.#activations.deactivate()
      this.#dropped(active, 'disconnected')
      active.dispose()
      return { notebook_id: active.notebookId, path: active.path, was: 'active' }
    }
    const rejoining = this.#rejoining.target
    if (rejoining && (!target || keyOf(rejoining) === keyOf(target))) {
      this.#activations.intend()
      this.#rejoining.callOff()
      return { ...namesOf(rejoining), was: 'pending_rejoin' }
    }
    if (!target) throw noSessionError(this.#lastDrop)
    throw new RoomdError(
      'not_found',
      'this connection has no session of that notebook, neither active nor parked; list_active_notebooks shows them',
      { next: { tool: 'list_active_notebooks', arguments: {} } },
    )
  }

  /** Brings a session back in the background; see rejoining.ts. Rejects only at the end of this process. */
  rejoin(target: Target): Promise<RejoinOutcome> {
    return this.#rejoining.start(target)
  }

  async #rejoin(target: Target): Promise<Session | null> {
    const request = {
      key: keyOf(target),
      aliases: () => this.#opener.aliases(target),
      attach: async (flight: Flight) => this.#session(await this.#opener.attach(target, flight)),
    }
    const session = await this.#activations.rejoin(request, () => !this.#disposed)
    if (!session) return null
    this.#parked.take(session.notebookId)
    this.emit('changed', undefined)
    return session
  }

  // --- rooms for calls -----------------------------------------------------------------------------------------------

  /** The room a call works on: the named one, else the active session. Release it when the call ends. */
  async use(notebook: string | undefined, signal?: AbortSignal): Promise<Lease> {
    if (notebook === undefined) return (await this.#mustBeActive(signal)).lease()
    const target = this.target(notebook)
    const { active } = this
    if (active?.keys.includes(keyOf(target))) return active.lease()
    return this.#guests.lease(keyOf(target), () => this.#opener.guest(target), signal)
  }

  /** The active session; waits for one that is on its way, within one deadline for all that may happen meanwhile. */
  async #mustBeActive(signal: AbortSignal | undefined): Promise<Session> {
    const { daemon, clock } = this.#options
    const end = clock.now() + PATIENCE
    for (;;) {
      const { active } = this
      if (active) return active
      const pending = this.#activations.pending ?? this.#rejoining.done
      if (!pending) throw noSessionError(this.#lastDrop)
      // A rejoin waits for a daemon without asking for one; a call dials, and starts it where that is allowed.
      const local = this.#rejoining.target !== null && this.#rejoining.target.kind !== 'remote'
      const coming = Promise.all([pending, local ? daemon.local() : null]).then(() => true)
      const came = unlessLate(clock, end - clock.now(), coming)
      if (!(await unlessAborted(came, signal, 'waiting for the session'))) {
        const target = this.#rejoining.target
        const away = target?.kind !== 'remote' && !daemon.present?.connected
        throw stillComingError({ ms: PATIENCE, target, away })
      }
    }
  }

  /** The target of a rejoin that is under way. Waits for its end, but not longer than `ms`. */
  async pendingRejoin(ms: number, signal?: AbortSignal): Promise<Target | null> {
    const { done } = this.#rejoining
    if (done) {
      const ended = done.then(
        () => true,
        () => true,
      )
      const came = unlessLate(this.#options.clock, ms, ended)
      await unlessAborted(came, signal, 'waiting for the session')
    }
    return this.active ? null : this.#rejoining.target
  }

  /** What a call is told that failed with the room it used: why the session was lost, where it was that. */
  explained(error: RoomdError, room: Room): RoomdError {
    const drop = this.#lastDrop
    if (this.active || room.state.attachment !== 'lost' || drop?.notebook_id !== room.id) return error
    return noSessionError(drop)
  }

  /** Drops every peer. */
  dispose(): void {
    this.#disposed = true
    this.#activations.deactivate()?.dispose(true)
    this.#guests.dispose()
  }

  #session(parts: Attached): Session {
    return new Session({
      ...parts,
      lost: (session, error) => this.#lost(session, error),
      moved: (session, path) => {
        this.#activations.alias(session, pathKey(canonicalPath(path)))
        this.emit('changed', undefined)
      },
    })
  }

  // --- losing --------------------------------------------------------------------------------------------------------

  #discard(session: Session): RoomdError {
    session.dispose()
    const cause = { notebook_id: session.notebookId, path: session.path }
    return this.#created.has(session)
      ? supersededError({ cause, next: nextConnect(session.target) })
      : supersededError({ cause })
  }

  #displaced(session: Session): void {
    // The same room, attached anew, is no switch.
    if (this.active?.notebookId !== session.notebookId) this.#parked.add(park(session))
    session.dispose()
  }

  #lost(session: Session, error: RoomdError): void {
    if (!this.#activations.drop(session) || this.#disposed) return
    const takenOver =
      error.code === 'session_superseded' &&
      (session.client.welcome?.activation_generation ?? 0) > this.#activations.taken
    const reason = takenOver ? 'superseded' : reasonOf(error)
    this.#dropped(session, reason, error.message)
    if (reason === 'evicted' || takenOver) return
    // What failed may pass; the user's next call waits for this or overrules it.
    this.rejoin(session.target).catch(() => {
      // Only the end of this process gets here.
    })
  }

  #dropped(session: Session, reason: DropReason, message?: string): void {
    this.#lastDrop = {
      reason,
      notebook_id: session.notebookId,
      path: session.path,
      target: session.target,
      message,
    }
    this.emit('changed', undefined)
  }
}
