/**
 * All rooms: which are in memory, how one is found, made, loaded, closed and reaped. Owns the map of resident rooms and the single
 * flights that load or make one, so that a path and an id, asked for at once by many, are one room.
 */
import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import type { Open } from '../../protocol/channels.ts'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import { type ClientInstance, NotebookId } from '../../protocol/ids.ts'
import type { ConnectionMethod, MethodArguments } from '../../protocol/methods.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { FileClaims } from '../documents/file-claims.ts'
import { FileWatch } from '../documents/file-watch.ts'
import { FileWitness } from '../documents/file-witness.ts'
import { collectBlobs, pruneExecutions, roomsToPrune } from '../executions/retention.ts'
import type { AdoptedKernel, GoneKernel } from '../kernels/kernel.ts'
import type { Statement } from '../store/store.ts'
import { type ConnectionHandler, connectionHandlers } from './connection-requests.ts'
import type { ReadFile } from './disk-changes.ts'
import { mayEnter, mustReachRoom } from './entry.ts'
import { existingFile, newFile } from './file-path.ts'
import { activeElsewhere, claimsFolder, mayUseFile, mustBeOwner } from './file-use.ts'
import { roomByOtherName } from './former-names.ts'
import { goneRoom } from './gone.ts'
import { Loading } from './loading.ts'
import { Mutations } from './mutations.ts'
import { OneAtATime } from './one-at-a-time.ts'
import {
  createRoom,
  importFile,
  isLargeFile,
  isLargeRoom,
  loadParts,
  makeHiddenRoom,
  type NewRoom,
} from './opening.ts'
import {
  type FirstPage,
  type LargeRoom,
  loadLargeRoom,
  openLargeFile,
  recordOfFile,
} from './opening-large.ts'
import { takeBeforehand } from './picture.ts'
import { takeReadyRoom } from './ready-room.ts'
import { refoundFromFile } from './refounding.ts'
import { Room, type RoomSurroundings } from './room.ts'
import { isUnfinished, type RoomRecord, recordById, recordByPath, recordsByPrefix } from './room-record.ts'
import { isAttachable, isListed } from './room-state.ts'
import type { FileSurroundings, RoomsContext } from './rooms-context.ts'
import type { AttachedPeer, PeerChannel, RequestContext, Rooms } from './seam.ts'
import { removeUnfinished, storeNewRoom } from './storing.ts'

/** How often unused rooms leave memory, old results are forgotten and silent peers are looked for. */
export const SWEEP_MS = 5 * 60_000
/** Unused rooms beyond this many, or older than RESIDENT_MS, leave memory. */
export const RESIDENT_ROOMS = 64
export const RESIDENT_MS = 24 * 3_600_000
/** What a kernel without a room gets to end in order. */
const UNWANTED_GRACE_MS = 500
/** A peer that sent nothing for this long is detached. */
export const SILENT_PEER_MS = 5 * 60_000

/** A room being loaded or made. `early`: what can be shown of it before; never settles where there is nothing. */
interface Flight {
  readonly room: Promise<Room>
  readonly early: Promise<Loading>
}

/** What a flight tells of itself while it is under way. */
interface InFlight {
  readonly show: (loading: Loading) => void
  /** Another key by which the same room may be asked for. */
  readonly isAlso: (key: string) => void
}

interface OnItsWay {
  readonly loading: Loading
  readonly room: Promise<Room>
}

/** What is there first: the room, or its first page. */
function firstOf({ room, early }: Flight): Promise<Room | OnItsWay> {
  return Promise.race([room, early.then((loading) => ({ loading, room }))])
}

export class RoomRegistry implements Rooms {
  readonly context: RoomsContext
  readonly mutations: Mutations
  readonly resident = new Map<NotebookId, Room>()
  /** Loads and makings under way, by id or canonical path. */
  readonly #flights = new Map<string, Flight>()
  /** Large rooms that are shown and not yet there. */
  readonly #coming = new Set<Loading>()
  /** Small rooms that are being stored. */
  readonly #installing = new Set<NotebookId>()
  /** Makings of new files, by path. */
  readonly #making = new OneAtATime()
  readonly #more = new Map<ConnectionMethod, ConnectionHandler<ConnectionMethod>>()
  readonly #surroundings: RoomSurroundings
  readonly #files: FileSurroundings
  #stopping = false
  #cancelSweep: () => void = () => {}

  constructor(context: RoomsContext) {
    this.context = context
    this.mutations = new Mutations(context.store, context.clock)
    this.#files = {
      watch: new FileWatch(context.clock),
      claims: new FileClaims({
        folder: claimsFolder(),
        home: context.places.home,
        bootId: context.bootId ?? randomUUID(),
        clock: context.clock,
        log: context.log,
      }),
    }
    this.#surroundings = {
      context,
      mutations: this.mutations,
      files: this.#files,
      load: (notebookId) => loadParts(context, this.#mustHaveRecord(notebookId)),
    }
    this.#scheduleSweep()
  }

  instance(clientInstance: ClientInstance): { activation_generation: number; mutation_id: number } {
    return this.mutations.instance(clientInstance)
  }

  counts(): { rooms: number; peers: number; kernels: number } {
    let peers = 0
    let rooms = 0
    for (const loading of this.#coming) peers += loading.peers.size
    for (const room of this.resident.values()) {
      peers += room.peers.size
      if (isListed(room.record.state)) rooms++
    }
    const standbys = [...this.resident.values()].filter(
      (room) => !isAttachable(room.record.state) && room.presentKernel,
    )
    return { rooms, peers, kernels: this.context.kernels.running().length - standbys.length }
  }

  executions(): { running: number; queued: number } {
    let running = 0
    let queued = 0
    for (const { executions } of this.resident.values()) {
      if (executions.running) running++
      queued += executions.queued.length
    }
    return { running, queued }
  }

  async attach(
    open: z.output<typeof Open>,
    context: RequestContext,
    channel: PeerChannel,
  ): Promise<AttachedPeer> {
    this.#mustRun()
    const { clientInstance } = context.identity
    const generation = open.activation_generation
    if (generation !== undefined) this.mutations.checkGeneration(clientInstance, generation)
    const entering = mayEnter(open, context.identity)
    const found = await this.#resolve(entering, context)
    const room =
      found instanceof Room ? found : await this.#enter(found, entering, context, channel, generation)
    if (!(room instanceof Room)) return room
    const release = room.reserve()
    try {
      mustReachRoom(context.identity, room.id)
      await mayUseFile(room, open.scope ?? context.identity.scope)
      if (generation !== undefined) await this.mutations.activate(clientInstance, generation)
      context.signal.throwIfAborted()
      this.#mustRun()
      return room.attach(context.identity, open, channel)
    } finally {
      release()
    }
  }

  /** Attaches to what is there of a room that is loading, or waits for the room. */
  async #enter(
    { loading, room }: OnItsWay,
    open: z.output<typeof Open>,
    { identity, signal }: RequestContext,
    channel: PeerChannel,
    generation: number | undefined,
  ): Promise<Room | AttachedPeer> {
    mustReachRoom(identity, loading.id)
    if (generation !== undefined) await this.mutations.activate(identity.clientInstance, generation)
    signal.throwIfAborted()
    this.#mustRun()
    return loading.serves(open) ? loading.attach(identity, open, channel) : room
  }

  async request(method: ConnectionMethod, args: unknown, context: RequestContext): Promise<unknown> {
    this.#mustRun()
    const handler = (connectionHandlers[method as keyof typeof connectionHandlers] ??
      this.#more.get(method)) as ConnectionHandler<ConnectionMethod> | undefined
    if (!handler) throw new RoomdError('unsupported', `${method} is not a method of rooms`)
    return handler(this, args as MethodArguments<ConnectionMethod>, context)
  }

  /** The resident room or the loaded one; `notebook_unavailable` when there is none. Never creates. */
  async byId(notebookId: NotebookId): Promise<Room> {
    return this.resident.get(notebookId) ?? this.#loading(notebookId).room
  }

  #loading(notebookId: NotebookId): Flight {
    return this.#flight(notebookId, async ({ show }) => {
      const record = recordById(this.context.store, notebookId)
      if (!record || record.state === 'discarded' || isUnfinished(record))
        throw goneRoom(this.context, notebookId)
      return this.#load(record, show)
    })
  }

  /** Finds a record by id, unique prefix of an id, or path. */
  async findRecord(name: string): Promise<RoomRecord> {
    const { store } = this.context
    const id = NotebookId.safeParse(name)
    if (id.success) {
      const record = recordById(store, id.data)
      if (record && isAttachable(record.state)) return record
    }
    const matches = recordsByPrefix(store, name.toLowerCase())
    if (matches.length > 1) {
      throw new RoomdError('invalid_argument', `"${name}" begins more than one room id; give more of it`)
    }
    if (matches[0]) return matches[0]
    if (name.includes('/')) {
      const path = await newFile(name)
      // A file that is being opened is a room soon, or none.
      await this.#flights.get(path)?.room.catch(() => {})
      const record = recordByPath(store, path) ?? (await roomByOtherName(store, path, name))
      if (record) return record
    }
    throw new RoomdError(
      'not_found',
      `no room is named "${name}": give an id, a unique prefix of one, or a path ("roomd ps --all" lists them)`,
    )
  }

  /** Adopted kernels go back to their rooms; rooms whose kernel is gone are told. Before this, no request is served. */
  async recover(adopted: readonly AdoptedKernel[], gone: readonly GoneKernel[]): Promise<void> {
    const ending: Promise<void>[] = []
    for (const { kernel, notebookId } of adopted) {
      const record = recordById(this.context.store, notebookId)
      if (!record && this.context.store.health().incomplete) {
        // The recovery of a damaged store may have lost its room: it lives until its orphan grace is over.
        kernel.release()
        continue
      }
      // Born a standby or not: only the row tells whether anybody has it.
      if (!record || !isListed(record.state)) {
        // One that cannot be ended is no reason to serve nobody: the next start finds it again.
        const ended = kernel.shutdown(UNWANTED_GRACE_MS).catch((error: unknown) => {
          this.context.log.warn(
            { kernel: kernel.id, reason: messageOf(error) },
            'a kernel that nobody has could not be ended',
          )
        })
        ending.push(ended)
        continue
      }
      const room = await this.byId(notebookId)
      room.slot.adopt(kernel)
      room.resumeKernel()
    }
    await Promise.all(ending)
    const unfinished = this.context.store.all<{ notebook_id: string }>(
      `SELECT DISTINCT notebook_id FROM executions WHERE status IN ('queued', 'running', 'waiting_for_input')`,
    )
    const reasons = new Map(gone.map(({ notebookId, reason }) => [notebookId, reason]))
    for (const { notebook_id } of unfinished) {
      const room = await this.byId(NotebookId.parse(notebook_id))
      if (room.presentKernel) continue
      room.resumeKernel(reasons.get(room.id))
    }
  }

  // --- rooms that nobody asked for yet -------------------------------------------------------------------------------

  /** Answers methods beyond those of rooms. */
  serve(method: ConnectionMethod, handler: unknown): void {
    this.#more.set(method, handler as ConnectionHandler<ConnectionMethod>)
  }

  /** A hidden room in memory and in the store, in `warming`. `rows` are of the same transaction. */
  async makeHidden(wanted: Parameters<typeof makeHiddenRoom>[1], rows: readonly Statement[]): Promise<Room> {
    this.#mustRun()
    return this.#install(await makeHiddenRoom(this.context, wanted, rows), [])
  }

  /** Ends kernel and peers of a discarded room and forgets it; its row stays until `forget`. */
  async retire(room: Room, reason: string, graceMs?: number): Promise<void> {
    await room.slot.end('shutdown', reason, graceMs)
    await room.settled().catch(() => undefined) // what could not be stored of it is of no use to anybody
    if (this.resident.get(room.id) === room) this.#drop(room, reason)
  }

  /** Whoever was given the room has it no more: the same claim, sent again, is a new one. */
  forgetClaims(notebookId: NotebookId): Statement {
    return {
      sql: 'DELETE FROM mutations WHERE notebook_id = ? AND method = ?',
      values: [notebookId, 'claim_room'],
    }
  }

  /** The rows of a discarded room, and what its making promised to repeat. */
  forgetRows(notebookId: NotebookId): Statement[] {
    return [
      this.forgetClaims(notebookId),
      { sql: "DELETE FROM rooms WHERE notebook_id = ? AND state = 'discarded'", values: [notebookId] },
    ]
  }

  /** Ends kernel and peers, and takes the room out of memory. */
  async close(notebookId: NotebookId): Promise<boolean> {
    const room = await this.byId(notebookId)
    const ended = await room.slot.end('shutdown', 'the room was closed')
    await room.source.flush()
    await room.settled()
    this.#drop(room, 'the room was closed')
    if (isListed(room.record.state)) this.context.hooks?.listChanged(room.id)
    return ended
  }

  async shutdown(options: { kernels: boolean }): Promise<{ rooms: number; kernels_kept: number }> {
    this.#stopping = true
    this.#cancelSweep()
    const rooms = [...this.resident.values()]
    const broken = rooms.filter((room) => room.fault !== null)
    if (broken.length > 0) {
      this.#stopping = false
      this.#scheduleSweep()
      throw new RoomdError(
        'storage_failed',
        `not stopped: ${broken.length} room(s) cannot be made durable (${broken[0]?.fault?.message ?? ''})`,
      )
    }
    // Nobody has them, and the next daemon would only end them.
    const nobodys = rooms.filter((room) => !isListed(room.record.state))
    await Promise.all(
      nobodys.map((room) => room.slot.end('shutdown', 'the daemon was stopped', UNWANTED_GRACE_MS)),
    )
    if (options.kernels) {
      await Promise.all(rooms.map((room) => room.slot.end('shutdown', 'the daemon was stopped')))
    }
    // What cannot be saved into its file is kept in the store, and is no reason to stay.
    await Promise.all(rooms.map((room) => room.source.flush()))
    await Promise.all(rooms.map((room) => room.settled()))
    await this.context.store.settled()
    const kept = options.kernels ? 0 : this.context.kernels.running().length
    for (const room of rooms) this.#drop(room, 'the daemon is stopping')
    this.#files.watch.dispose()
    await this.#files.claims.dispose()
    return { rooms: rooms.length, kernels_kept: kept }
  }

  /** Rooms without peers, reservations, kernel or anything unsaved leave memory: too old, or beyond the newest 64. */
  sweep(): void {
    const now = this.context.clock.now()
    for (const room of this.resident.values()) {
      for (const peer of [...room.peers]) {
        if (now - peer.lastSeen <= SILENT_PEER_MS) continue
        peer.detach('silent for 5 minutes')
        peer.channel.close({ code: 'closed', reason: 'nothing was heard of this peer for 5 minutes' })
      }
    }
    const unused = [...this.resident.values()]
      .filter((room) => room.unused && !room.source.busy && !room.source.unsettled)
      .sort((a, b) => b.record.touched_at - a.record.touched_at)
    unused.forEach((room, i) => {
      if (i >= RESIDENT_ROOMS || now - room.record.touched_at > RESIDENT_MS) this.#drop(room, 'unused')
      else room.executions.trim()
    })
    for (const room of this.resident.values()) room.rest()
  }

  /** Removes what could not be removed of makings that failed. Forgets old results of mutations and of executions, and the blobs that nothing names any more. */
  async forgetOld(): Promise<void> {
    const { store, blobs, clock } = this.context
    await removeUnfinished(store, [...this.#flights.keys(), ...this.#installing])
    await this.mutations.forgetOld()
    for (const notebookId of roomsToPrune(store, clock.now())) {
      const room = this.resident.get(notebookId)
      if (room?.fault) continue
      await store.write(pruneExecutions(notebookId, room?.document.cellIds() ?? null, clock.now()))
    }
    await collectBlobs(store, blobs, clock.now())
  }

  async #resolve(open: z.output<typeof Open>, context: RequestContext): Promise<Room | OnItsWay> {
    const { target, mode } = open
    if ('notebook_id' in target) {
      if (mode !== 'attach') {
        throw new RoomdError('invalid_argument', `mode ${mode} needs a path; an id is attached to`)
      }
      const room = this.resident.get(target.notebook_id) ?? (await firstOf(this.#loading(target.notebook_id)))
      if (room instanceof Room && !isAttachable(room.record.state)) throw goneRoom(this.context, room.id)
      return room
    }
    if ('path' in target) {
      if (mode === 'create') {
        throw new RoomdError('invalid_argument', 'mode create takes the target {create: {path}}, not {path}')
      }
      const scope = open.scope ?? context.identity.scope
      const flight = this.#byPath(await existingFile(target.path), target.path, mode, scope)
      if (!target.convert) return flight instanceof Room ? flight : firstOf(flight)
      const room = flight instanceof Room ? flight : await flight.room
      mustBeOwner(scope)
      await room.source.convert()
      return room
    }
    if (mode !== 'create') throw new RoomdError('invalid_argument', `mode ${mode} cannot create a room`)
    return this.#create(target.create, context)
  }

  /** `path`: canonical; `given`: as it was asked for. */
  #byPath(path: string, given: string, mode: 'attach' | 'open', scope: Scope): Room | Flight {
    const { store } = this.context
    for (const room of this.resident.values()) if (room.record.path === path) return room
    return this.#flight(path, async ({ show, isAlso }) => {
      const record = recordByPath(store, path)
      if (record) {
        const resident = this.resident.get(record.notebook_id)
        if (resident) return resident
        const flight = this.#loading(record.notebook_id)
        flight.early.then((loading) => show(loading))
        return flight.room
      }
      const former = await this.#byOtherName(path, given)
      if (former) return former
      if (mode === 'attach') {
        throw new RoomdError('not_found', `no room has ${path} open; mode open opens it`, {
          next: { tool: 'connect_notebook', arguments: { path } },
        })
      }
      const other = await this.#files.claims.take(path)
      if (other && scope !== 'viewer') throw activeElsewhere(path, other)
      return this.#import(path, other !== null, { show, isAlso }).catch(async (error) => {
        // A file that is no room is nobody's.
        if (!recordByPath(store, path)) await this.#files.claims.release(path)
        throw error
      })
    })
  }

  /** The room that has the file under a name which leads to it now, brought to its real one. */
  async #byOtherName(path: string, given: string): Promise<Room | null> {
    const record = await roomByOtherName(this.context.store, path, given)
    if (!record || !isAttachable(record.state)) return null
    const room = await this.byId(record.notebook_id)
    await room.source.look(false)
    return room.record.path === path ? room : null
  }

  /** Makes a room of a file, and of nothing else. `elsewhere`: another daemon has it. */
  async #import(path: string, elsewhere: boolean, { show, isAlso }: InFlight): Promise<Room> {
    if (await isLargeFile(path)) {
      const record = recordOfFile(this.context, path)
      // Whoever asks for it by its id while it is stored, or before it is in memory, waits for this one.
      isAlso(record.notebook_id)
      const witness = await FileWitness.begin(this.#files.watch, path)
      try {
        const made = await openLargeFile(this.context, record, path, (page) => {
          // Who else has the file is told in place of a page.
          if (!elsewhere) show(this.#show(page))
        })
        const { hash } = made.parts.record.source
        const room = await this.#take(made, hash === undefined ? null : { hash, witness })
        this.context.hooks?.listChanged(room.id)
        return room
      } finally {
        witness.dispose()
      }
    }
    const room = await this.#install(await importFile(this.context, path), [])
    await this.#openFile(room)
    return room
  }

  async #create(
    wanted: Extract<z.output<typeof Open>['target'], { create: unknown }>['create'],
    context: RequestContext,
  ): Promise<Room> {
    type Rows = (value: unknown) => ReturnType<Mutations['resultRows']>
    const makeOne = async (path: string | null, rows: Rows): Promise<unknown> => {
      const original = wanted.clone_of === undefined ? null : await this.byId(wanted.clone_of)
      const ready = original ? null : await takeReadyRoom(this.context, wanted, path, rows)
      if (ready) {
        await this.#openFile(ready)
        return { notebook_id: ready.id }
      }
      const { made, placed } = await createRoom(this.context, wanted, path, original)
      const value = { notebook_id: made.parts.record.notebook_id }
      const room = await this.#install(made, rows(value))
      await placed().catch(async (error) => {
        await this.#forget(room)
        throw error
      })
      await this.#openFile(room)
      return value
    }
    // Who comes second to a path finds the file, and a room that is whole.
    const make = async (rows: Rows): Promise<unknown> => {
      if (wanted.path === undefined) return makeOne(null, rows)
      const path = await newFile(wanted.path)
      return this.#making.run(path, () => makeOne(path, rows))
    }
    const id = wanted.mutation_id
    const { clientInstance } = context.identity
    const value =
      id === undefined
        ? await make(() => [])
        : await this.mutations.run({ clientInstance, id }, 'create', null, (mutation) =>
            make((result) => this.mutations.resultRows(mutation, result)),
          )
    const notebookId = NotebookId.parse((value as { notebook_id: unknown }).notebook_id)
    return this.byId(notebookId)
  }

  /** Runs within a flight by id: nobody else loads the same room. */
  async #load(record: RoomRecord, show: (loading: Loading) => void): Promise<Room> {
    await refoundFromFile(this.context, record)
    if (isLargeRoom(this.context, record)) {
      const { path } = record
      const ours = path === null || (await this.#files.claims.take(path)) === null
      const witness = path === null ? null : await FileWitness.begin(this.#files.watch, path)
      try {
        const loading = loadLargeRoom(this.context, record, (page) => {
          if (ours && isAttachable(record.state)) show(this.#show(page))
        })
        // Behind the document, while it is being built. What keeps the file from being read is told by the look at it.
        const hashing = path === null ? null : this.context.worker.hash(path).catch(() => null)
        const [made, hash] = await Promise.all([loading, hashing])
        return await this.#take(made, hash !== null && witness ? { hash, witness } : null)
      } finally {
        witness?.dispose()
      }
    }
    const room = new Room(loadParts(this.context, record), this.#surroundings)
    await this.#openFile(room)
    this.resident.set(room.id, room)
    return room
  }

  /** A large room that is stored: looks at its file, and is there for all. */
  async #take({ parts, shown }: LargeRoom, read: ReadFile | null): Promise<Room> {
    if (this.#stopping) parts.document.dispose()
    this.#mustRun()
    const room = new Room(parts, this.#surroundings)
    room.executions.preload(shown)
    await this.#openFile(room, read)
    await takeBeforehand(room)
    if (this.#stopping) room.dispose('the daemon is stopping')
    this.#mustRun()
    this.resident.set(room.id, room)
    return room
  }

  #show(page: FirstPage): Loading {
    return new Loading(page, () => this.context.clock.now())
  }

  /** What happened to the file meanwhile is taken before anybody is shown the room. A store that fails is told by the room itself. */
  async #openFile(room: Room, read: ReadFile | null = null): Promise<void> {
    await room.source.open(read).catch((error: unknown) => {
      this.context.log.warn({ room: room.id, reason: String(error) }, 'the file could not be looked at')
    })
  }

  /** Makes a new room durable, with the outputs that came with its file; only then it is there for others. */
  async #install(made: NewRoom, rows: readonly Statement[]): Promise<Room> {
    const room = new Room(made.parts, this.#surroundings)
    this.#installing.add(room.id)
    try {
      await storeNewRoom(this.context.store, made, room.executions, rows)
    } catch (error) {
      room.dispose('the new room could not be stored')
      throw error
    } finally {
      this.#installing.delete(room.id)
    }
    this.resident.set(room.id, room)
    if (isListed(room.record.state)) this.context.hooks?.listChanged(room.id)
    return room
  }

  /** Takes back a room whose making failed after its rows were written. */
  async #forget(room: Room): Promise<void> {
    this.#drop(room, 'the room could not be made')
    await this.context.store.write([
      { sql: 'DELETE FROM mutations WHERE notebook_id = ? AND method = ?', values: [room.id, 'create'] },
      { sql: 'DELETE FROM rooms WHERE notebook_id = ?', values: [room.id] },
    ])
    this.context.hooks?.listChanged(room.id)
  }

  /** Those who came while it was loading become peers, or are told why not, in the turn in which the flight ends. */
  #flight(key: string, run: (flying: InFlight) => Promise<Room>): Flight {
    const flying = this.#flights.get(key)
    if (flying) return flying
    const keys = [key]
    let shown: (loading: Loading) => void = () => {}
    const early = new Promise<Loading>((resolve) => {
      shown = resolve
    })
    let own: Loading | null = null
    const show = (loading: Loading): void => {
      // The flight by path shows that of the flight by id, which ends it.
      if (!this.#coming.has(loading)) {
        own = loading
        this.#coming.add(loading)
      }
      shown(loading)
    }
    const isAlso = (other: string): void => {
      keys.push(other)
      this.#flights.set(other, flight)
    }
    const end = (): void => {
      for (const one of keys) this.#flights.delete(one)
      if (own) this.#coming.delete(own)
    }
    // Behind this turn, in which the flight is not yet there.
    const begun = Promise.resolve().then(() => run({ show, isAlso }))
    const room = begun.then(
      (made) => {
        end()
        own?.finish(made)
        return made
      },
      (error: unknown) => {
        end()
        own?.fail(error)
        throw error
      },
    )
    const flight: Flight = { room, early }
    this.#flights.set(key, flight)
    return flight
  }

  #drop(room: Room, reason: string): void {
    this.resident.delete(room.id)
    room.dispose(reason)
  }

  #mustRun(): void {
    if (this.#stopping) {
      throw new RoomdError('shutting_down', 'the daemon is stopping; connect again when it is back')
    }
  }

  #mustHaveRecord(notebookId: NotebookId): RoomRecord {
    const record = recordById(this.context.store, notebookId)
    if (!record) throw new RoomdError('internal', `the row of room ${notebookId} is gone`)
    return record
  }

  #scheduleSweep(): void {
    this.#cancelSweep = this.context.clock.after(SWEEP_MS, () => {
      this.sweep()
      this.forgetOld().catch((error) =>
        this.context.log.warn({ reason: String(error) }, 'old results were not forgotten'),
      )
      this.#scheduleSweep()
    })
  }
}

/** Makes the registry, adopts what outlived the last daemon, and ends what belongs to no room. */
export async function createRooms(context: RoomsContext): Promise<RoomRegistry> {
  await removeUnfinished(context.store)
  const rooms = new RoomRegistry(context)
  await context.hooks?.begin(rooms)
  const { kernels, gone } = await context.kernels.adopt()
  await rooms.recover(kernels, gone)
  await context.hooks?.ready()
  return rooms
}
