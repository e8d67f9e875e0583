/** An open room, as its user sees it: edit, run, save, follow. All of it survives the loss of the connection and of the daemon. */
import type { Awareness } from 'y-protocols/awareness'
import type { Doc } from 'yjs'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import type { MethodParams, MethodResult, RoomMethod } from '../../protocol/methods.ts'
import type { Execution, ExecutionSummary, KeepAlive } from '../../protocol/notebook.ts'
import type { PresenceState } from '../../protocol/presence.ts'
import type { CallOptions } from './calls.ts'
import type { Comms } from './comms.ts'
import type { ExecutionRecord } from './execution-record.ts'
import type { RoomEvents } from './room-events.ts'
import type { RoomSession } from './room-session.ts'
import type { RoomState } from './room-state.ts'
import { Run } from './run.ts'
import { unlessAborted } from './unless-aborted.ts'

/** One edit, ids as plain text; see `Operation` in protocol/methods.ts. */
export type EditOperation = MethodParams<'edit'>['operations'][number]

/** Options of `execute` and `runAll` beside those of every call. */
export interface ExecuteOptions extends CallOptions {
  /** What an error does to what is queued behind it in the same batch. Default: stop. */
  readonly onError?: 'stop' | 'continue'
  /** Refuses with `conflict` when the cell's source is another than the caller has seen. */
  readonly expectSourceHash?: string
  /** false: `input()` raises, as in Jupyter without a front end. Default: true. */
  readonly allowStdin?: boolean
}

export interface NewCell {
  readonly source: string
  readonly cellType?: 'code' | 'markdown' | 'raw'
  /** absent: at the end; null: at the start. */
  readonly afterCellId?: string | null
  readonly metadata?: Record<string, unknown>
}

/** What a room needs of its client. */
export interface RoomSurroundings {
  /** What the others see of this client wherever it shows itself. */
  readonly presence: Pick<PresenceState, 'label' | 'color' | 'kind'>
  readonly getExecution: (executionId: ExecutionId) => Promise<Execution>
  readonly readText: (executionId: ExecutionId, index: number, offset: number) => Promise<string>
  /** The room is over and holds nothing any more. */
  readonly closed: (room: Room) => void
}

export class Room {
  readonly #session: RoomSession
  readonly #surroundings: RoomSurroundings
  #loading: Promise<void> | null = null

  /** Made by `client.openRoom`. */
  constructor(session: RoomSession, surroundings: RoomSurroundings) {
    this.#session = session
    this.#surroundings = surroundings
    session.on('lost', () => surroundings.closed(this))
  }

  /** Identifies the room for ever. */
  get id(): NotebookId {
    return this.state.notebook_id
  }

  /** Kernel, queue, executions, peers, readiness, cells; `room.state.on('change', …)`. */
  get state(): RoomState {
    return this.#session.state
  }

  /** Widgets and other comms of the kernel: those that are open with their state, `on('open', …)`, messages both ways. */
  get comms(): Comms {
    return this.#session.comms
  }

  /** Events of the room (`event`, or one type of them), and `away`, `resumed`, `lost`. Returns how to stop listening. */
  on<Name extends keyof RoomEvents>(name: Name, listener: (value: RoomEvents[Name]) => void): () => void {
    return this.#session.on(name, listener)
  }

  /**
   * Any method of the room. Held until its gate opens and through a loss of the connection; a mutation takes effect at most once
   * however often it is sent. Rejects with a RoomdError: what the daemon answered, or `client_closed`, `client_timeout`,
   * `client_aborted`, `daemon_lost`.
   */
  call<M extends RoomMethod>(
    method: M,
    params: MethodParams<M>,
    options?: CallOptions,
  ): Promise<MethodResult<M>> {
    return this.#session.calls.call(method, params, options) as Promise<MethodResult<M>>
  }

  // --- the document --------------------------------------------------------------------------------------------------

  /**
   * The shared document in the layout of Jupyter's YNotebook (`cells`: Y.Array of Y.Map; `meta`), bound both ways. Loads Yjs
   * with the first call; resolves when the content is here. The same Y.Doc every time.
   */
  async doc(options: { signal?: AbortSignal } = {}): Promise<Doc> {
    this.#loading ??= this.#loadDocument()
    await unlessAborted(this.#loading, options.signal, 'waiting for the document')
    const binding = this.#session.document
    if (!binding) throw this.#session.ended ?? new RoomdError('client_closed', 'this room was closed')
    return binding.doc
  }

  /** y-protocols Awareness of the room; there with the document: `await room.doc()` first. */
  get presence(): Awareness {
    const binding = this.#session.document
    if (!binding)
      throw new RoomdError('client_protocol', 'presence comes with the document: await room.doc() first')
    return binding.awareness
  }

  /**
   * Shows the others where this client is and what it does, without loading Yjs: `state` beside label, color and kind, in place of
   * what was shown before. null: nothing any more, which is also what they see when the room is left. Lives through redials; lost
   * without harm where the connection is full. Throws `too_large` beyond 4 KiB. With the document loaded it sets `presence`'s state.
   */
  setPresence(state: Omit<PresenceState, 'label' | 'color' | 'kind'> | null): void {
    if (this.#session.ended) return
    this.#session.presence.set(state === null ? null : { ...this.#surroundings.presence, ...state })
  }

  /** Resolves when every edit made to the Y.Doc until now is durable at the daemon. At once when there is none. */
  async flush(options: { signal?: AbortSignal } = {}): Promise<void> {
    const binding = this.#session.document
    if (binding) await unlessAborted(binding.flush(), options.signal, 'waiting for edits to be durable')
  }

  async #loadDocument(): Promise<void> {
    const { DocumentBinding } = await import('./document.ts')
    const binding = new DocumentBinding({ ...this.#surroundings.presence })
    try {
      this.#session.bind(binding)
      await binding.synced()
    } catch (error) {
      if (error instanceof RoomdError) binding.dispose(error)
      throw error
    }
  }

  // --- edits ---------------------------------------------------------------------------------------------------------

  /** All operations as one change: all or none. Resolves when it is durable and this room's state includes it. */
  edit(operations: readonly EditOperation[], options?: CallOptions): Promise<MethodResult<'edit'>> {
    return this.call('edit', { operations: [...operations] }, options)
  }

  /** Resolves with the new cell's id. */
  async createCell(cell: NewCell, options?: CallOptions): Promise<CellId> {
    const { source, cellType, afterCellId, metadata } = cell
    const { cell_ids } = await this.edit(
      [
        {
          op: 'create_cell',
          source,
          ...(cellType === undefined ? {} : { cell_type: cellType }),
          ...(afterCellId === undefined ? {} : { after_cell_id: afterCellId }),
          ...(metadata === undefined ? {} : { metadata }),
        },
      ],
      options,
    )
    const [cellId] = cell_ids
    if (cellId === undefined) throw new RoomdError('client_protocol', 'the daemon told no id for a new cell')
    return cellId
  }

  /** Changes only the span that differs. `expectSourceHash`: refuses with `conflict` when the source is another. */
  setSource(
    cellId: string,
    source: string,
    options: CallOptions & { expectSourceHash?: string } = {},
  ): Promise<MethodResult<'edit'>> {
    const { expectSourceHash, ...rest } = options
    const hash = expectSourceHash === undefined ? {} : { expect_source_hash: expectSourceHash }
    return this.edit([{ op: 'set_source', cell_id: cellId, source, ...hash }], rest)
  }

  deleteCell(cellId: string, options?: CallOptions): Promise<MethodResult<'edit'>> {
    return this.edit([{ op: 'delete_cell', cell_id: cellId }], options)
  }

  /** `afterCellId` null: to the start. */
  moveCell(cellId: string, afterCellId: string | null, options?: CallOptions): Promise<MethodResult<'edit'>> {
    return this.edit([{ op: 'move_cell', cell_id: cellId, after_cell_id: afterCellId }], options)
  }

  /** absent: all cells. Cells that run keep theirs. */
  clearOutputs(cellIds?: readonly string[], options?: CallOptions): Promise<MethodResult<'clear_outputs'>> {
    return this.call('clear_outputs', cellIds ? { cell_ids: [...cellIds] } : {}, options)
  }

  /** `path`: save as; the room is bound to it from then on. */
  save(path?: string, options?: CallOptions): Promise<MethodResult<'save'>> {
    return this.call('save', path === undefined ? {} : { path }, options)
  }

  // --- runs ----------------------------------------------------------------------------------------------------------

  /** Runs a cell, or code of no cell. Resolves once the run is durable: it happens from then on, whoever dies. */
  async execute(what: string | { readonly code: string }, options: ExecuteOptions = {}): Promise<Run> {
    const { onError, expectSourceHash, allowStdin, ...rest } = options
    const { execution, already_active } = await this.call(
      'execute',
      {
        ...(typeof what === 'string' ? { cell_id: what } : { code: what.code }),
        ...(onError === undefined ? {} : { on_error: onError }),
        ...(expectSourceHash === undefined ? {} : { expect_source_hash: expectSourceHash }),
        ...(allowStdin === undefined ? {} : { allow_stdin: allowStdin }),
      },
      rest,
    )
    return this.#run(execution, already_active)
  }

  /** Runs all code cells in order; one Run each, in that order. */
  async runAll(options: Omit<ExecuteOptions, 'expectSourceHash'> = {}): Promise<Run[]> {
    const { onError, allowStdin, ...rest } = options
    const { executions } = await this.call(
      'run_all',
      {
        ...(onError === undefined ? {} : { on_error: onError }),
        ...(allowStdin === undefined ? {} : { allow_stdin: allowStdin }),
      },
      rest,
    )
    return Promise.all(executions.map((execution) => this.#run(execution, false)))
  }

  /** Follows an execution that somebody asked for, by its id. Rejects with `not_found`. */
  async follow(executionId: string): Promise<Run> {
    const id = executionId as ExecutionId
    const known = this.#session.mirror.record(id)
    const record = known ?? this.#session.mirror.learn(await this.#surroundings.getExecution(id))
    return this.#runOf(record, true)
  }

  /** Ends the running execution and cancels what is queued now. `offer`: the kernel did not stop within 5 s. */
  interrupt(options?: CallOptions): Promise<MethodResult<'interrupt'>> {
    return this.call('interrupt', {}, options)
  }

  /** Answers `input()`. The first answer wins; a second is `conflict`. */
  sendInput(executionId: string, value: string, options?: CallOptions): Promise<MethodResult<'send_input'>> {
    return this.call('send_input', { execution_id: executionId, value }, options)
  }

  /**
   * Ends the kernel and starts a fresh one; `kernel` names another kernelspec. Rejects with `kernel_start_failed` after kernels of
   * this room ran out of memory three times within 300 s, unless `reset` says that a person wants another.
   */
  restartKernel(
    kernel?: string,
    options: CallOptions & { reset?: boolean } = {},
  ): Promise<MethodResult<'restart_kernel'>> {
    const { reset, ...rest } = options
    const params = { ...(kernel === undefined ? {} : { kernel }), ...(reset ? { reset } : {}) }
    return this.call('restart_kernel', params, rest)
  }

  /**
   * How long the kernel is kept when nobody is here and nothing runs: seconds (5 to 604,800), `pinned` (for ever) or `default`. Holds
   * from now on, also without a daemon. Resolves with what holds.
   */
  async keepAlive(keep: KeepAlive | 'default', options?: CallOptions): Promise<KeepAlive> {
    return (await this.call('set_keep_alive', { keep_alive: keep }, options)).keep_alive
  }

  async #run(execution: ExecutionSummary, alreadyActive: boolean): Promise<Run> {
    // The event that queued it came before the answer, unless the answer is a repeated one of long ago.
    const known = this.#session.mirror.record(execution.execution_id)
    const record =
      known ?? this.#session.mirror.learn(await this.#surroundings.getExecution(execution.execution_id))
    return this.#runOf(record, alreadyActive)
  }

  #runOf(record: ExecutionRecord, alreadyActive: boolean): Run {
    if (this.#session.ended && !record.terminal) throw this.#session.ended
    return new Run(record, {
      alreadyActive,
      readText: (index, offset) => this.#surroundings.readText(record.id, index, offset),
      cancel: async () => (await this.call('cancel_execution', { execution_id: record.id })).execution,
    })
  }

  // --- the end -------------------------------------------------------------------------------------------------------

  /**
   * Detaches from the room; the room, its kernel and its runs go on. Waits until edits to the Y.Doc are durable and rejects when
   * they could not be made so; detached it is in any case. Idempotent.
   */
  async close(): Promise<void> {
    if (this.#session.ended) return
    try {
      await this.#session.settleDocument()
    } finally {
      this.end(new RoomdError('client_closed', 'this room was closed'))
    }
  }

  /** For the client: detaches at once. */
  end(error: RoomdError): void {
    this.#session.end(error)
    this.#surroundings.closed(this)
  }
}
