/**
 * The comms of a room: Jupyter widgets and whatever else speaks with code in the kernel. Kept equal to the daemon's by its pages and events,
 * across connections and daemons, so a comm that was opened before this client came is here with its state.
 *
 * What a peer sets holds for all peers at once, in the daemon's order; older echoes of the kernel are passed over there, so nothing
 * has to be expected or taken back here.
 */
import type { Projection } from '../../protocol/channels.ts'
import { type CommContent, CommId, type CommView, takeBuffers } from '../../protocol/comms.ts'
import type { RoomEvent } from '../../protocol/events.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { MethodParams, MethodResult, RoomMethod } from '../../protocol/methods.ts'
import type { CallOptions } from './calls.ts'
import { Emitter } from './emitter.ts'

/** What goes along with a message beside its data. */
export interface CommMessageOptions extends CallOptions {
  readonly metadata?: Record<string, unknown>
  readonly buffers?: readonly Uint8Array[]
}

/** Values of a comm's state that are new. */
export interface CommUpdate {
  /** Those that came with the event; all of `comm.state` includes them. */
  readonly state: Readonly<Record<string, unknown>>
  /** Names of values too large for events: `comm.load()` gets them. */
  readonly omitted: readonly string[]
  /** Label of the peer who set them; null: the kernel. */
  readonly by: string | null
}

export interface CommEvents {
  update: CommUpdate
  /** A message that is no update. */
  message: CommContent
  /** Nothing follows. `reason`: it is gone with its kernel. */
  close: { readonly data: Readonly<Record<string, unknown>>; readonly reason?: string }
}

export interface CommsEvents {
  open: Comm
  close: Comm
}

type Call = <M extends RoomMethod>(
  method: M,
  params: MethodParams<M>,
  options?: CallOptions,
) => Promise<MethodResult<M>>

/** One comm. Made by the room; `open` stays true until `close` is told. */
export class Comm extends Emitter<CommEvents> {
  readonly id: CommId
  readonly targetName: string
  readonly targetModule: string | null
  /** Of its opening, without state. */
  readonly data: Readonly<Record<string, unknown>>
  readonly metadata: Readonly<Record<string, unknown>>
  readonly buffers: readonly Uint8Array[]
  /** Whose run opened it. */
  readonly executionId: ExecutionId | null
  readonly #call: Call
  #state: Readonly<Record<string, unknown>>
  #omitted: Set<string>
  #partial: boolean
  #open = true

  constructor(view: CommView, call: Call) {
    super()
    this.id = view.comm_id
    this.targetName = view.target_name
    this.targetModule = view.target_module
    this.data = view.data
    this.metadata = view.metadata
    this.buffers = view.buffers
    this.executionId = view.execution_id
    this.#state = view.state
    this.#omitted = new Set(view.omitted)
    this.#partial = view.partial
    this.#call = call
  }

  /** Newest values by name; binary ones are bytes. Large ones are missing until `load`. Never changed, only replaced. */
  get state(): Readonly<Record<string, unknown>> {
    return this.#state
  }

  /** Names of values that `state` lacks because they are large. */
  get omitted(): readonly string[] {
    return [...this.#omitted]
  }

  /** The room does not keep all of the state: `send({ method: 'request_state' })` has the kernel tell it. */
  get partial(): boolean {
    return this.#partial
  }

  get open(): boolean {
    return this.#open
  }

  /** Resolves with the state, large values included, which are in `state` from then on. */
  async load(options?: CallOptions): Promise<Readonly<Record<string, unknown>>> {
    if (this.#omitted.size > 0) {
      const names = [...this.#omitted]
      const { comm } = await this.#call('get_comm', { comm_id: this.id, names }, options)
      // What was told meanwhile is in the answer too: it came behind it.
      this.#state = { ...this.#state, ...comm.state }
      for (const name of Object.keys(comm.state)) this.#omitted.delete(name)
    }
    return this.#state
  }

  /** Sends a message to the kernel. Resolves once it is durable: it arrives once, whoever dies. Rejects `not_found` when the comm is closed. */
  async send(data: Record<string, unknown>, options: CommMessageOptions = {}): Promise<void> {
    const { metadata = {}, buffers = [], ...rest } = options
    await this.#call('send_comm', { comm_id: this.id, data, metadata, buffers: [...buffers] }, rest)
  }

  /** Sets values of the state, for the kernel and all peers; bytes travel as widgets have them. `state` includes them when it resolves. */
  async set(values: Record<string, unknown>, options?: CallOptions): Promise<void> {
    const { state, buffer_paths, buffers } = takeBuffers(values)
    await this.send({ method: 'update', state, buffer_paths }, { ...options, buffers })
  }

  async close(data: Record<string, unknown> = {}, options?: CallOptions): Promise<void> {
    await this.#call('close_comm', { comm_id: this.id, data }, options)
  }

  // --- for the room --------------------------------------------------------------------------------------------------

  updated(event: Extract<RoomEvent, { type: 'comm_updated' }>): void {
    const { state, omitted, partial, by } = event
    if (partial && Object.keys(state).length === 0 && omitted.length === 0) {
      // The room let go of it.
      this.#state = {}
      this.#omitted.clear()
    }
    this.#partial = partial
    this.#take(state, omitted)
    this.emit('update', { state, omitted, by })
  }

  /** What a fresh page says of it. */
  shown(view: CommView): void {
    const state = Object.fromEntries(
      Object.entries(view.state).filter(([name, value]) => !same(value, this.#state[name])),
    )
    const changed = Object.keys(state).length > 0 || view.omitted.length > 0
    this.#state = view.state
    this.#omitted = new Set(view.omitted)
    this.#partial = view.partial
    if (changed) this.emit('update', { state, omitted: view.omitted, by: null })
  }

  async received(event: Extract<RoomEvent, { type: 'comm_message' }>): Promise<void> {
    if (event.by !== null) return // from another peer to the kernel
    if (event.content) {
      this.emit('message', event.content)
      return
    }
    try {
      const { content } = await this.#call('read_comm_message', { message_id: event.message_id })
      if (this.#open) this.emit('message', content)
    } catch {
      // Too late: large messages are pictures of a moment, and newer ones have come.
    }
  }

  ended(data: Readonly<Record<string, unknown>>, reason?: string): void {
    if (!this.#open) return
    this.#open = false
    this.emit('close', { data, ...(reason === undefined ? {} : { reason }) })
  }

  #take(state: Readonly<Record<string, unknown>>, omitted: readonly string[]): void {
    const kept = Object.fromEntries(
      Object.entries({ ...this.#state, ...state }).filter(([name]) => !omitted.includes(name)),
    )
    this.#state = kept
    for (const name of Object.keys(state)) this.#omitted.delete(name)
    for (const name of omitted) this.#omitted.add(name)
  }
}

/** `room.comms`. */
export class Comms extends Emitter<CommsEvents> {
  readonly #call: Call
  readonly #open = new Map<CommId, Comm>()
  #page: CommView[] = []

  constructor(call: Call) {
    super()
    this.#call = call
  }

  /** Those that are open, in the order they were opened. */
  get all(): ReadonlyMap<string, Comm> {
    return this.#open
  }

  get(id: string): Comm | undefined {
    return this.#open.get(id as CommId)
  }

  /** Opens a comm to a target that the kernel knows; a kernel that does not closes it again. Resolves when the room has it. */
  async open(
    targetName: string,
    options: CommMessageOptions & {
      readonly data?: Record<string, unknown>
      readonly id?: string
      readonly targetModule?: string
    } = {},
  ): Promise<Comm> {
    const { data = {}, metadata = {}, buffers = [], id, targetModule, ...rest } = options
    // Chosen here, so that the comm is known by the time its opening is told, and a repetition opens the same.
    const comm_id = CommId.parse(id ?? globalThis.crypto.randomUUID())
    let comm: Comm | undefined
    const stop = this.on('open', (opened) => {
      if (opened.id === comm_id) comm = opened
    })
    try {
      await this.#call(
        'open_comm',
        {
          comm_id,
          target_name: targetName,
          ...(targetModule === undefined ? {} : { target_module: targetModule }),
          data,
          metadata,
          buffers: [...buffers],
        },
        rest,
      )
    } finally {
      stop()
    }
    comm ??= this.#open.get(comm_id)
    if (comm) return comm
    // Its opening was passed by a fresh picture, and it is closed again.
    const gone = new Comm({ ...unknown, comm_id, target_name: targetName, data, metadata }, this.#call)
    gone.ended({})
    return gone
  }

  /** Jupyter's comm_info: which are open, answered by the room. */
  async info(targetName?: string, options?: CallOptions): Promise<Record<string, { target_name: string }>> {
    const params = targetName === undefined ? {} : { target_name: targetName }
    return (await this.#call('list_comms', params, options)).comms
  }

  // --- for the room --------------------------------------------------------------------------------------------------

  event(event: RoomEvent): void {
    switch (event.type) {
      case 'comm_opened':
        this.#opened(event.comm)
        return
      case 'comm_updated':
        this.#open.get(event.comm_id)?.updated(event)
        return
      case 'comm_message':
        void this.#open.get(event.comm_id)?.received(event)
        return
      case 'comm_closed':
        this.#closed(event.comm_id, event.data)
        return
      case 'comms_gone':
        for (const id of [...this.#open.keys()]) this.#closed(id, {}, event.reason)
        return
      default:
        return
    }
  }

  page(page: Extract<Projection, { kind: 'comms' }>): void {
    if (page.first) this.#page = []
    this.#page.push(...page.comms)
    if (!page.last) return
    const views = new Map(this.#page.map((view) => [view.comm_id, view]))
    this.#page = []
    for (const id of [...this.#open.keys()]) if (!views.has(id)) this.#closed(id, {})
    for (const view of views.values()) {
      const known = this.#open.get(view.comm_id)
      if (known) known.shown(view)
      else this.#opened(view)
    }
  }

  #opened(view: CommView): void {
    this.#closed(view.comm_id, {})
    const comm = new Comm(view, this.#call)
    this.#open.set(comm.id, comm)
    this.emit('open', comm)
  }

  #closed(id: CommId, data: Readonly<Record<string, unknown>>, reason?: string): void {
    const comm = this.#open.get(id)
    if (!comm) return
    this.#open.delete(id)
    comm.ended(data, reason)
    this.emit('close', comm)
  }
}

const unknown = {
  target_module: null,
  buffers: [],
  execution_id: null,
  state: {},
  omitted: [],
  partial: true,
}

/** Whether two plain values are equal. */
function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    if (!(a instanceof Uint8Array) || !(b instanceof Uint8Array) || a.length !== b.length) return false
    return a.every((byte, i) => byte === b[i])
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
  const keys = Object.keys(left)
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && same(left[key], right[key]))
  )
}
