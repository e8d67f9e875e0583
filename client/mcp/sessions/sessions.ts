/**
 * The sessions of one MCP connection: the active one, the parked ones, rooms that single calls use, and why the last session was
 * lost. What wins a race is decided in `activations.ts`; here is what attaching, parking and losing do.
 */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { Clock } from '../../../protocol/clock.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import type { Client, RoomTarget } from '../../sdk/client.ts'
import { Emitter } from '../../sdk/emitter.ts'
import type { Room } from '../../sdk/room.ts'
import { unlessAborted } from '../../sdk/unless-aborted.ts'
import type { DaemonLink } from '../daemon-link.ts'
import { Activations, type Flight, supersededError } from './activations.ts'
import { nextConnect, openBound, roomTarget } from './attaching.ts'
import { type Drop, type DropReason, noSessionError } from './drop.ts'
import { Guests, type Lease, type Opened } from './guests.ts'
import { type Parked, ParkedSessions, park } from './parked.ts'
import { Session } from './session.ts'
import { type Since, sinceParked } from './since.ts'
import { canonicalPath, idKey, keyOf, parseTarget, pathKey, type Target } from './target.ts'

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
  /** Looks at the room before it becomes the active session; what it throws fails the call. */
  readonly check?: ((room: Room) => void) | undefined
}

export type CreateWanted = Extract<RoomTarget, { create: unknown }>['create']

export interface Disconnected {
  readonly notebook_id: string | null
  readonly path: string | null
  readonly was: 'active' | 'parked' | 'pending_rejoin'
}

export type RejoinOutcome =
  | { readonly outcome: 'succeeded'; readonly session: Session }
  | { readonly outcome: 'failed'; readonly reason: string }
  /** Somebody asked for something else meanwhile. */
  | { readonly outcome: 'none' }

const REJOIN_ATTEMPTS = 4
/** Milliseconds between two attempts to rejoin. */
const REJOIN_PAUSE = 1_000

export class Sessions extends Emitter<{ changed: undefined }> {
  readonly #options: SessionsOptions
  readonly #activations: Activations<Session>
  readonly #parked = new ParkedSessions()
  readonly #guests: Guests
  /** Sessions whose room was made by the call that attached it. */
  readonly #created = new WeakSet<Session>()
  #lastDrop: Drop | null = null
  #rejoining: { readonly target: Target; readonly done: Promise<RejoinOutcome> } | null = null
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
    return this.active?.target ?? this.#rejoining?.target ?? null
  }

  /** A target as an argument names it. Throws `invalid_argument`. */
  target(text: string): Target {
    return parseTarget(text, this.#options.cwd)
  }

  // --- activations ---------------------------------------------------------------------------------------------------

  /** Makes a room the active session. What was active stays so when this fails. */
  async connect(target: Target, options: ConnectOptions = {}): Promise<Connected> {
    const request = {
      key: keyOf(target),
      aliases: () => this.#aliases(target),
      attach: (flight: Flight) => this.#attach(target, flight, options.check),
    }
    return this.#activated(request, options.signal)
  }

  /** Makes a new room and activates it. `mutationId`: see OpenRoomOptions. */
  async create(
    wanted: CreateWanted,
    options: { signal?: AbortSignal | undefined; mutationId?: number | undefined } = {},
  ): Promise<Connected> {
    const request = {
      key: `create:${randomUUID()}`,
      attach: (flight: Flight) => this.#attachNew(wanted, flight, options.mutationId),
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
    const rejoining = this.#rejoining
    if (rejoining && (!target || keyOf(rejoining.target) === keyOf(target))) {
      this.#activations.intend()
      this.#rejoining = null
      return { ...namesOf(rejoining.target), was: 'pending_rejoin' }
    }
    if (!target) throw noSessionError(this.#lastDrop)
    throw new RoomdError(
      'not_found',
      'this connection has no session of that notebook, neither active nor parked; list_active_notebooks shows them',
      { next: { tool: 'list_active_notebooks', arguments: {} } },
    )
  }

  /**
   * Brings a session back in the background: 4 attempts. Yields to whatever the user asks for meanwhile. A room that is gone and a
   * saved path that no longer exists are not tried again; a path never falls back to an id.
   */
  rejoin(target: Target): Promise<RejoinOutcome> {
    const done = this.#rejoin(target).finally(() => {
      if (this.#rejoining?.done === done) this.#rejoining = null
    })
    this.#rejoining = { target, done }
    return done
  }

  async #rejoin(target: Target): Promise<RejoinOutcome> {
    const { daemon, clock } = this.#options
    const { epoch } = this.#activations
    // Yields first, so that the caller has noted that this is under way.
    await Promise.resolve()
    if (target.kind !== 'remote') await daemon.whenever()
    for (let attempt = 1; ; attempt++) {
      if (this.#disposed || this.#activations.epoch !== epoch) return { outcome: 'none' }
      if (target.kind === 'path' && !existsSync(target.path)) {
        const reason = `there is no file ${target.path} any more`
        this.#lastDrop = { reason: 'evicted', notebook_id: null, path: target.path, target, message: reason }
        return { outcome: 'failed', reason }
      }
      try {
        const request = {
          key: keyOf(target),
          aliases: () => this.#aliases(target),
          attach: (flight: Flight) => this.#attach(target, flight),
        }
        const session = await this.#activations.rejoin(request, () => !this.#disposed)
        if (!session) return { outcome: 'none' }
        this.#parked.take(session.notebookId)
        this.emit('changed', undefined)
        return { outcome: 'succeeded', session }
      } catch (error) {
        if (!(error instanceof RoomdError)) throw error
        if (this.#activations.epoch !== epoch || this.#disposed) return { outcome: 'none' }
        if (!error.retryable || attempt === REJOIN_ATTEMPTS) {
          this.#lastDrop = { ...namesOf(target), target, reason: reasonOf(error), message: error.message }
          return { outcome: 'failed', reason: error.message }
        }
      }
      await new Promise<void>((resolve) => clock.after(REJOIN_PAUSE, resolve))
    }
  }

  // --- rooms for calls -----------------------------------------------------------------------------------------------

  /** The room a call works on: the named one, else the active session. Release it when the call ends. */
  async use(notebook: string | undefined, signal?: AbortSignal): Promise<Lease> {
    if (notebook === undefined) return (await this.#mustBeActive(signal)).lease()
    const target = this.target(notebook)
    const { active } = this
    if (active?.keys.includes(keyOf(target))) return active.lease()
    return this.#guests.lease(keyOf(target), () => this.#open(target), signal)
  }

  /** The active session; waits for one that is on its way. */
  async #mustBeActive(signal: AbortSignal | undefined): Promise<Session> {
    for (;;) {
      const { active } = this
      if (active) return active
      const pending = this.#activations.pending ?? this.#rejoining?.done
      if (!pending) throw noSessionError(this.#lastDrop)
      // A rejoin waits for a daemon for as long as it takes; a call waits no longer than any call does.
      if (this.#rejoining && this.#rejoining.target.kind !== 'remote')
        await unlessAborted(this.#options.daemon.local(), signal, 'waiting for the daemon')
      await unlessAborted(
        pending.then(() => {}),
        signal,
        'waiting for the session',
      )
    }
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

  // --- attaching -----------------------------------------------------------------------------------------------------

  async #attach(target: Target, flight: Flight, check?: (room: Room) => void): Promise<Session> {
    const client = await this.#options.daemon.for(target)
    this.#activations.raise(client.welcome?.activation_generation ?? 0)
    const generation = flight.takeGeneration()
    const { room, bootId } = await openBound(client, roomTarget(target), {
      generation,
      signal: flight.signal,
    })
    flight.alias(idKey(room.id))
    try {
      check?.(room)
    } catch (error) {
      await room.close()
      throw error
    }
    return this.#session({ room, client, target, generation, bootId })
  }

  async #attachNew(wanted: CreateWanted, flight: Flight, mutationId: number | undefined): Promise<Session> {
    const client = await this.#options.daemon.local()
    this.#activations.raise(client.welcome?.activation_generation ?? 0)
    const generation = flight.takeGeneration()
    const { room, bootId } = await openBound(
      client,
      { create: wanted },
      { generation, signal: flight.signal, mutationId },
    )
    flight.alias(idKey(room.id))
    const target = { kind: 'id', id: room.id } as const
    const session = this.#session({ room, client, target, generation, bootId })
    this.#created.add(session)
    return session
  }

  async #open(target: Target): Promise<Opened> {
    const client = await this.#options.daemon.for(target)
    const { room } = await openBound(client, roomTarget(target), {})
    return { room, client }
  }

  #session(parts: {
    room: Room
    client: Client
    target: Target
    generation: number
    bootId: string
  }): Session {
    return new Session({
      ...parts,
      lost: (session, error) => this.#lost(session, error),
      moved: (session, path) => {
        this.#activations.alias(session, pathKey(canonicalPath(path)))
        this.emit('changed', undefined)
      },
    })
  }

  /** Other keys of a target, as the daemon knows them now. */
  async #aliases(target: Target): Promise<readonly string[]> {
    if (target.kind === 'remote') return []
    const client = await this.#options.daemon.local()
    const name = target.kind === 'path' ? target.path : target.id
    const { room } = await client.call('find_room', { room: name })
    return [idKey(room.notebook_id), ...(room.path === null ? [] : [pathKey(canonicalPath(room.path))])]
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

function namesOf(target: Target): { notebook_id: string | null; path: string | null } {
  return {
    notebook_id: target.kind === 'path' ? null : target.id,
    path: target.kind === 'path' ? target.path : null,
  }
}

function reasonOf(error: RoomdError): DropReason {
  return error.code === 'notebook_unavailable' || error.code === 'not_found' ? 'evicted' : 'daemon_lost'
}
