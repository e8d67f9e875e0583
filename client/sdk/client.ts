/**
 * One client of one daemon: its connection, the calls on channel 0, the rooms it has open. Closing it closes all of them; a closed
 * client does nothing any more.
 */
import type { Hello, Open } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { BlobHash, ExecutionId, MutationId, NotebookId } from '../../protocol/ids.ts'
import type { ConnectionMethod, MethodParams, MethodResult } from '../../protocol/methods.ts'
import { presenceColor } from '../../protocol/presence.ts'
import { DaemonEventEnvelope, type DaemonEvent as HomeEvent } from '../../protocol/projects.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { Backoff } from './backoff.ts'
import { BlobFetches } from './blobs.ts'
import { type CallOptions, CallTable } from './calls.ts'
import { Connection, type DaemonEvent, type Incarnation } from './connection.ts'
import type { Dialer } from './dialer.ts'
import { Emitter } from './emitter.ts'
import { MutationIds } from './mutation-ids.ts'
import { Room } from './room.ts'
import { RoomSession } from './room-session.ts'

/** Which room: a file, a room that is known by its id, or a new one. */
export type RoomTarget =
  | {
      readonly path: string
      /** Upgrade a file of notebook format 3 or older first; owners only. Does nothing to a file of format 4. */
      readonly convert?: boolean
    }
  | { readonly notebook_id: string }
  | {
      readonly create: {
        /** Where it will be saved; absent: untitled. */
        readonly path?: string
        readonly kernel?: string
        readonly working_dir?: string
        readonly ephemeral?: boolean
        /** Id of a room whose cells and metadata it begins with, without their outputs. */
        readonly clone_of?: string
      }
    }

export interface OpenRoomOptions {
  /** Default: `open` for a path (the file must exist), `create` for a new room, `attach` for an id (never creates). */
  readonly mode?: 'attach' | 'open' | 'create' | undefined
  /** Less than the connection's own scope. */
  readonly scope?: Scope | undefined
  /** Refused with `session_superseded` when this client instance has told a higher one. */
  readonly activationGeneration?: number | undefined
  /** false: no cells in `room.state`; for editors that bind to the Y.Doc. Default: true. */
  readonly projection?: boolean | undefined
  /** For a new room: repeats the create of an earlier process of this client instance under its id. Default: a new id. */
  readonly mutationId?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface ClientOptions {
  readonly dialer: Dialer
  readonly hello: Hello
  readonly clock: Clock
  readonly random: () => number
  readonly autostart: (() => Promise<void>) | null
  readonly waitMs: number
  readonly settledBelow?: (() => number) | undefined
}

export class Client {
  readonly #options: ClientOptions
  readonly #connection: Connection
  readonly #mutations: MutationIds
  readonly #calls: CallTable
  readonly #blobs: BlobFetches
  readonly #events = new Emitter<{ event: HomeEvent }>()
  readonly #rooms = new Set<Room>()
  readonly #opening = new Set<RoomSession>()
  #closing: Promise<void> | null = null

  /** Made by `connect`. */
  constructor(options: ClientOptions) {
    const { dialer, hello, clock, random, autostart, waitMs } = options
    this.#options = options
    this.#mutations = new MutationIds(options.settledBelow)
    this.#connection = new Connection({
      dialer,
      hello,
      clock,
      backoff: new Backoff(random),
      autostart,
      waitMs,
    })
    this.#calls = new CallTable({
      clock,
      mutations: this.#mutations,
      needDaemon: (fail) => this.#connection.needDaemon(fail),
      refusedForMs: waitMs,
    })
    this.#blobs = new BlobFetches((blob) => this.call('fetch_blob', { blob }))
    this.#connection.on('up', (link) => {
      this.#mutations.raise(link.welcome.mutation_id)
      const channel = link.connectionChannel({
        value: (type, payload) => {
          if (type === FrameType.RESPONSE) this.#calls.response(payload)
          else if (type === FrameType.BLOB) this.#blobs.received(payload)
          else if (type === FrameType.EVENT) this.#told(payload)
        },
        ended: () => {
          this.#blobs.interrupted()
          this.#calls.detach()
        },
      })
      this.#calls.attach(
        (type, payload) => channel.send(type, payload),
        () => true,
      )
    })
  }

  /** For `connect`: the first link, or why there is none. */
  async start(signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const settle = (): void => {
        stopNeed()
        stopUp()
        signal?.removeEventListener('abort', abort)
      }
      const abort = (): void => {
        settle()
        reject(new RoomdError('client_aborted', 'connecting was aborted by the caller'))
      }
      const stopUp = this.#connection.on('up', () => {
        settle()
        resolve()
      })
      const stopNeed = this.#connection.needDaemon((error) => {
        settle()
        reject(error)
      })
      if (signal?.aborted) abort()
      else signal?.addEventListener('abort', abort, { once: true })
    }).catch(async (error) => {
      await this.close()
      throw error
    })
  }

  /** The daemon process this client speaks to, or spoke to last. */
  get daemon(): Incarnation | null {
    return this.#connection.incarnation
  }

  /** Whether it is there at this moment. */
  get connected(): boolean {
    return this.#connection.link !== null
  }

  /** What the daemon said when this connection was made: scope, limits, highest activation generation; null while it is away. */
  get welcome() {
    return this.#connection.link?.welcome ?? null
  }

  /** This client's lifetime as its user sees it. */
  get clientInstance(): string {
    return this.#options.hello.client_instance
  }

  /**
   * `daemon`: connected, replaced by another process, lost, or about to go. `event`: something happened beyond this client's rooms
   * (rooms and projects that come and go, the warm pool, drafts); not repeated for who was away. Returns how to stop listening.
   */
  on(name: 'daemon', listener: (event: DaemonEvent) => void): () => void
  on(name: 'event', listener: (event: HomeEvent) => void): () => void
  on(
    ...[name, listener]:
      | [name: 'daemon', listener: (event: DaemonEvent) => void]
      | [name: 'event', listener: (event: HomeEvent) => void]
  ): () => void {
    return name === 'daemon' ? this.#connection.on(name, listener) : this.#events.on(name, listener)
  }

  /** A method of the connection's own channel. Rules as for `room.call`. */
  call<M extends ConnectionMethod>(
    method: M,
    params: MethodParams<M>,
    options?: CallOptions,
  ): Promise<MethodResult<M>> {
    return this.#calls.call(method, params, options) as Promise<MethodResult<M>>
  }

  /** The bytes of an output kept as a blob; checked against its hash. Rejects with `not_found` when it is not kept any more. */
  fetchBlob(blob: string, options?: { signal?: AbortSignal }): Promise<Uint8Array> {
    return this.#blobs.fetch(blob as BlobHash, options)
  }

  /**
   * Attaches to a room. Resolves when its cells can be shown; document and kernel may still be on their way (`room.state.readiness`;
   * calls wait for what they need). A create whose answer is lost finds the room it made.
   */
  async openRoom(target: RoomTarget, options: OpenRoomOptions = {}): Promise<Room> {
    if (this.#closing) throw closedError()
    const mutationId = 'create' in target ? this.#mutations.take(options.mutationId) : undefined
    const { clock, random, waitMs } = this.#options
    const getExecution = async (execution_id: ExecutionId) =>
      (await this.call('get_execution', { execution_id })).execution
    const session = new RoomSession({
      connection: this.#connection,
      clock,
      mutations: this.#mutations,
      random,
      waitMs,
      open: this.#openOf(target, options, mutationId),
      getExecution,
    })
    this.#opening.add(session)
    try {
      await session.start(options.signal)
    } finally {
      this.#opening.delete(session)
      if (mutationId !== undefined) this.#mutations.settle(mutationId)
    }
    const { label, kind } = this.#options.hello
    const room = new Room(session, {
      presence: { label, color: presenceColor(label), kind: kind ?? 'editor' },
      getExecution,
      readText: async (execution_id, index, offset) =>
        (await this.call('read_output', { execution_id, index, offset })).text,
      closed: (closed) => this.#rooms.delete(closed),
    })
    this.#rooms.add(room)
    return room
  }

  /** Rooms that are open. */
  get rooms(): ReadonlySet<Room> {
    return this.#rooms
  }

  /**
   * Closes all rooms (waiting for their edits as `room.close` does), then the connection. Rejects with the first room's failure;
   * closed it is in any case. Idempotent.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const error = closedError()
    for (const session of [...this.#opening]) session.end(error)
    const outcomes = await Promise.allSettled([...this.#rooms].map((room) => room.close()))
    this.#calls.close(error)
    await this.#connection.close()
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }

  /** An event of a kind that this version does not know is passed over. */
  #told(payload: Uint8Array): void {
    const envelope = DaemonEventEnvelope.safeParse(decode(payload))
    if (envelope.success) this.#events.emit('event', envelope.data.event)
  }

  #openOf(target: RoomTarget, options: OpenRoomOptions, mutationId: MutationId | undefined): Open {
    const { mode, scope, activationGeneration, projection } = options
    const { dialer } = this.#options
    const rest = {
      ...(scope === undefined ? {} : { scope }),
      ...(activationGeneration === undefined ? {} : { activation_generation: activationGeneration }),
      ...(projection === undefined ? {} : { projection }),
    }
    if ('path' in target)
      return {
        target: {
          path: dialer.resolvePath(target.path),
          ...(target.convert === undefined ? {} : { convert: target.convert }),
        },
        mode: mode ?? 'open',
        ...rest,
      }
    if ('notebook_id' in target)
      return { target: { notebook_id: target.notebook_id as NotebookId }, mode: mode ?? 'attach', ...rest }
    const { path, working_dir, clone_of, ...create } = target.create
    return {
      target: {
        create: {
          ...create,
          ...(clone_of === undefined ? {} : { clone_of: clone_of as NotebookId }),
          ...(path === undefined ? {} : { path: dialer.resolvePath(path) }),
          ...(working_dir === undefined ? {} : { working_dir: dialer.resolvePath(working_dir) }),
          ...(mutationId === undefined ? {} : { mutation_id: mutationId }),
        },
      },
      mode: mode ?? 'create',
      ...rest,
    }
  }
}

function closedError(): RoomdError {
  return new RoomdError('client_closed', 'this client was closed')
}
