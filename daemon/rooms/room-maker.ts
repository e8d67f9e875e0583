/**
 * How rooms come to be in memory: from their rows, from a file, or new. Owns the makings under way, and what they leave behind when they
 * fail: nothing. A room is in the map of resident rooms only when it is durable and its file has been looked at.
 */
import type { z } from 'zod'
import type { Open } from '../../protocol/channels.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { FileWitness } from '../documents/file-witness.ts'
import type { Statement } from '../store/store.ts'
import type { ReadFile } from './disk-changes.ts'
import { newFile } from './file-path.ts'
import type { InFlight } from './flights.ts'
import { Loading } from './loading.ts'
import type { Mutations } from './mutations.ts'
import { OneAtATime } from './one-at-a-time.ts'
import { createRoom, importFile, isLargeFile, isLargeRoom, loadParts, type NewRoom } from './opening.ts'
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
import type { RoomRecord } from './room-record.ts'
import { isAttachable, isListed } from './room-state.ts'
import type { RoomsContext } from './rooms-context.ts'
import type { RequestContext } from './seam.ts'
import { storeNewRoom } from './storing.ts'

export interface MakerPort {
  readonly surroundings: RoomSurroundings
  readonly resident: Map<NotebookId, Room>
  stopping(): boolean
  /** Throws `shutting_down` while the daemon stops. */
  mustRun(): void
  byId(notebookId: NotebookId): Promise<Room>
  drop(room: Room, reason: string): void
}

export class RoomMaker {
  readonly #port: MakerPort
  readonly #context: RoomsContext
  /** Small rooms that are being stored. */
  readonly #installing = new Set<NotebookId>()
  /** Makings of new files, by path. */
  readonly #making = new OneAtATime()

  constructor(port: MakerPort) {
    this.#port = port
    this.#context = port.surroundings.context
  }

  /** Rooms whose rows are being written. */
  get installing(): Iterable<NotebookId> {
    return this.#installing
  }

  /** Makes a room of a file, and of nothing else. `elsewhere`: another daemon has it. */
  async importFile(path: string, elsewhere: boolean, { show, isAlso }: InFlight): Promise<Room> {
    if (await isLargeFile(path)) {
      const record = recordOfFile(this.#context, path)
      // Whoever asks for it by its id while it is stored, or before it is in memory, waits for this one.
      isAlso(record.notebook_id)
      const witness = await FileWitness.begin(this.#port.surroundings.files.watch, path)
      try {
        const made = await openLargeFile(this.#context, record, path, (page) => {
          // Who else has the file is told in place of a page.
          if (!elsewhere) show(this.#show(page))
        })
        const { hash } = made.parts.record.source
        const room = await this.#take(made, hash === undefined ? null : { hash, witness })
        this.#context.hooks?.listChanged(room.id)
        return room
      } finally {
        witness.dispose()
      }
    }
    const room = await this.install(await importFile(this.#context, path), [])
    await this.#openFile(room)
    return room
  }

  /** A new room, or the same one again for the same mutation. */
  async create(
    wanted: Extract<z.output<typeof Open>['target'], { create: unknown }>['create'],
    context: RequestContext,
  ): Promise<Room> {
    type Rows = (value: unknown) => ReturnType<Mutations['resultRows']>
    const makeOne = async (path: string | null, rows: Rows): Promise<unknown> => {
      const original = wanted.clone_of === undefined ? null : await this.#port.byId(wanted.clone_of)
      const ready = original ? null : await takeReadyRoom(this.#context, wanted, path, rows)
      if (ready) {
        await this.#openFile(ready)
        return { notebook_id: ready.id }
      }
      const { made, placed } = await createRoom(this.#context, wanted, path, original)
      const value = { notebook_id: made.parts.record.notebook_id }
      const room = await this.install(made, rows(value))
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
        : await this.#port.surroundings.mutations.run({ clientInstance, id }, 'create', null, (mutation) =>
            make((result) => this.#port.surroundings.mutations.resultRows(mutation, result)),
          )
    const notebookId = NotebookId.parse((value as { notebook_id: unknown }).notebook_id)
    return this.#port.byId(notebookId)
  }

  /** Runs within a flight by id: nobody else loads the same room. */
  async load(record: RoomRecord, show: (loading: Loading) => void): Promise<Room> {
    await refoundFromFile(this.#context, record)
    if (isLargeRoom(this.#context, record)) {
      const { path } = record
      const ours = path === null || (await this.#port.surroundings.files.claims.take(path)) === null
      const witness =
        path === null ? null : await FileWitness.begin(this.#port.surroundings.files.watch, path)
      try {
        const loading = loadLargeRoom(this.#context, record, (page) => {
          if (ours && isAttachable(record.state)) show(this.#show(page))
        })
        // Behind the document, while it is being built. What keeps the file from being read is told by the look at it.
        const hashing = path === null ? null : this.#context.worker.hash(path).catch(() => null)
        const [made, hash] = await Promise.all([loading, hashing])
        return await this.#take(made, hash !== null && witness ? { hash, witness } : null)
      } finally {
        witness?.dispose()
      }
    }
    const room = new Room(loadParts(this.#context, record), this.#port.surroundings)
    await this.#openFile(room)
    this.#port.resident.set(room.id, room)
    return room
  }

  /** A large room that is stored: looks at its file, and is there for all. */
  async #take({ parts, shown }: LargeRoom, read: ReadFile | null): Promise<Room> {
    if (this.#port.stopping()) parts.document.dispose()
    this.#port.mustRun()
    const room = new Room(parts, this.#port.surroundings)
    room.executions.preload(shown)
    await this.#openFile(room, read)
    await takeBeforehand(room)
    if (this.#port.stopping()) room.dispose('the daemon is stopping')
    this.#port.mustRun()
    this.#port.resident.set(room.id, room)
    return room
  }

  #show(page: FirstPage): Loading {
    return new Loading(page, () => this.#context.clock.now())
  }

  /** What happened to the file meanwhile is taken before anybody is shown the room. A store that fails is told by the room itself. */
  async #openFile(room: Room, read: ReadFile | null = null): Promise<void> {
    await room.source.open(read).catch((error: unknown) => {
      this.#context.log.warn({ room: room.id, reason: String(error) }, 'the file could not be looked at')
    })
  }

  /** Makes a new room durable, with the outputs that came with its file; only then it is there for others. */
  async install(made: NewRoom, rows: readonly Statement[]): Promise<Room> {
    const room = new Room(made.parts, this.#port.surroundings)
    this.#installing.add(room.id)
    try {
      await storeNewRoom(this.#context.store, made, room.executions, rows)
    } catch (error) {
      room.dispose('the new room could not be stored')
      throw error
    } finally {
      this.#installing.delete(room.id)
    }
    this.#port.resident.set(room.id, room)
    if (isListed(room.record.state)) this.#context.hooks?.listChanged(room.id)
    return room
  }

  /** Takes back a room whose making failed after its rows were written. */
  async #forget(room: Room): Promise<void> {
    this.#port.drop(room, 'the room could not be made')
    await this.#context.store.write([
      { sql: 'DELETE FROM mutations WHERE notebook_id = ? AND method = ?', values: [room.id, 'create'] },
      { sql: 'DELETE FROM rooms WHERE notebook_id = ?', values: [room.id] },
    ])
    this.#context.hooks?.listChanged(room.id)
  }
}
