/**
 * All rooms: which are in memory, how one is found, entered, closed and given up. Owns the map of resident rooms and the single flights that
 * load or make one, so that a path and an id, asked for at once by many, are one room. How a room comes to be is in room-maker.ts.
 */
import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import type { Open } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { type ClientInstance, NotebookId } from '../../protocol/ids.ts'
import type { ConnectionMethod, MethodArguments } from '../../protocol/methods.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { FileClaims } from '../documents/file-claims.ts'
import { FileWatch } from '../documents/file-watch.ts'
import type { Statement } from '../store/store.ts'
import { type ConnectionHandler, connectionHandlers } from './connection-requests.ts'
import { mayEnter, mustReachRoom } from './entry.ts'
import { existingFile, newFile } from './file-path.ts'
import { activeElsewhere, claimsFolder, mayUseFile, mustBeOwner } from './file-use.ts'
import { type Flight, Flights, firstOf, type OnItsWay } from './flights.ts'
import { roomByOtherName } from './former-names.ts'
import { goneRoom } from './gone.ts'
import { Mutations } from './mutations.ts'
import { loadParts, makeHiddenRoom } from './opening.ts'
import { Room } from './room.ts'
import { RoomMaker } from './room-maker.ts'
import { isUnfinished, type RoomRecord, recordById, recordByPath, recordsByPrefix } from './room-record.ts'
import { isAttachable, isListed } from './room-state.ts'
import type { FileSurroundings, RoomsContext } from './rooms-context.ts'
import type { AttachedPeer, PeerChannel, RequestContext, Rooms } from './seam.ts'
import { forgetOld, SWEEP_MS, sweepRooms } from './upkeep.ts'

/** What a kernel without a room gets to end in order. */
export const UNWANTED_GRACE_MS = 500

export class RoomRegistry implements Rooms {
  readonly context: RoomsContext
  readonly mutations: Mutations
  readonly resident = new Map<NotebookId, Room>()
  readonly #flights = new Flights()
  readonly #maker: RoomMaker
  readonly #more = new Map<ConnectionMethod, ConnectionHandler<ConnectionMethod>>()
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
    this.#maker = new RoomMaker({
      surroundings: {
        context,
        mutations: this.mutations,
        files: this.#files,
        load: (notebookId) => loadParts(context, this.#mustHaveRecord(notebookId)),
      },
      resident: this.resident,
      stopping: () => this.#stopping,
      mustRun: () => this.#mustRun(),
      byId: (notebookId) => this.byId(notebookId),
      drop: (room, reason) => this.#drop(room, reason),
    })
    this.#scheduleSweep()
  }

  instance(clientInstance: ClientInstance): { activation_generation: number; mutation_id: number } {
    return this.mutations.instance(clientInstance)
  }

  counts(): { rooms: number; peers: number; kernels: number } {
    let { peers } = this.#flights
    let rooms = 0
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
    return this.#flights.join(notebookId, async ({ show }) => {
      const record = recordById(this.context.store, notebookId)
      if (!record || record.state === 'discarded' || isUnfinished(record))
        throw goneRoom(this.context, notebookId)
      return this.#maker.load(record, show)
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
      await this.#flights.at(path)?.room.catch(() => {})
      const record = recordByPath(store, path) ?? (await roomByOtherName(store, path, name))
      if (record) return record
    }
    throw new RoomdError(
      'not_found',
      `no room is named "${name}": give an id, a unique prefix of one, or a path ("roomd ps --all" lists them)`,
    )
  }

  // --- rooms that nobody asked for yet -------------------------------------------------------------------------------

  /** Answers methods beyond those of rooms. */
  serve(method: ConnectionMethod, handler: unknown): void {
    this.#more.set(method, handler as ConnectionHandler<ConnectionMethod>)
  }

  /** A hidden room in memory and in the store, in `warming`. `rows` are of the same transaction. */
  async makeHidden(wanted: Parameters<typeof makeHiddenRoom>[1], rows: readonly Statement[]): Promise<Room> {
    this.#mustRun()
    return this.#maker.install(await makeHiddenRoom(this.context, wanted, rows), [])
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

  /** Silent peers go, and rooms that nobody uses leave memory. */
  sweep(): void {
    sweepRooms(this.resident, this.context.clock.now(), (room) => this.#drop(room, 'unused'))
  }

  /** What was kept for a while and is of no use any more. */
  forgetOld(): Promise<void> {
    return forgetOld(this.context, this.mutations, this.resident, [
      ...this.#flights.keys,
      ...this.#maker.installing,
    ])
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
    return this.#maker.create(target.create, context)
  }

  /** `path`: canonical; `given`: as it was asked for. */
  #byPath(path: string, given: string, mode: 'attach' | 'open', scope: Scope): Room | Flight {
    const { store } = this.context
    for (const room of this.resident.values()) if (room.record.path === path) return room
    return this.#flights.join(path, async ({ show, isAlso }) => {
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
      return this.#maker.importFile(path, other !== null, { show, isAlso }).catch(async (error) => {
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
