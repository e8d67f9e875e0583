/**
 * The seams inside the daemon: what a room asks of its parts (document, executions, kernel) and what they may ask of the room.
 * A part changes its own memory at once and hands the durable form of the change to the room with `commit`; nobody outside
 * sees it before it is committed (ARCHITECTURE.md, committed and pending). All methods are synchronous unless they return a
 * promise, and all run on the main thread.
 */
import type { CellChange, CellsDelta, DurableEvent } from '../../protocol/events.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { Execution, ExecutionSummary, Output } from '../../protocol/notebook.ts'
import type { DocumentOperation } from '../documents/operations.ts'
import type { RoomComms } from '../executions/comms/room-comms.ts'
import type { PreparedFileOutputs } from '../executions/file-outputs.ts'
import type { ShownExecutions } from '../executions/shown-executions.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { Statement, Store } from '../store/store.ts'

/** One durable change of one room: all of it commits together or none. */
export interface RoomChange {
  /** Rows of the part that makes the change. The room adds event, journal and mutation rows. */
  readonly statements: readonly Statement[]
  /** Durable events, numbered by the room in this order at the call, sent to peers after the commit. */
  readonly events?: readonly DurableEvent[]
}

/** What the parts of a room may ask of it. */
export interface RoomPort {
  readonly id: NotebookId
  readonly store: Store
  /** Blob files; see executions/blobs.ts. */
  now(): number
  /**
   * Hands over a change. Commits are in call order. Resolves after the commit and after its events were sent to all peers.
   * Rejects with the storage error; the room is then rebuilding itself from the store and the part will be disposed.
   */
  commit(change: RoomChange): Promise<void>
  /** The cell as the document has it now, pending changes included. */
  cell(cellId: CellId): { cell_type: string; source: string; source_hash: string } | undefined
  /** Ids of all code cells in document order. */
  codeCells(): CellId[]
  /** The running kernel, or a started one; single flight. Rejects with kernel_not_found, kernel_start_failed. */
  kernel(): Promise<Kernel>
  /** The kernel if there is one now. */
  readonly presentKernel: Kernel | null
}

/** A document change as it is told outside, in the terms of protocol/events.ts `cells`. */
export interface DocumentChange {
  readonly delta: CellsDelta
  readonly changes: readonly CellChange[]
  readonly metadata?: Record<string, unknown>
  /** The Yjs update that makes it. */
  readonly update: Uint8Array
}

/** One of several edits that came together. */
export interface DocumentEdit {
  readonly operations: readonly DocumentOperation[]
  readonly check: (ahead: number) => void
}

export type EditOutcome =
  | {
      readonly ok: true
      readonly cellIds: CellId[]
      /** Texts that it set and that no edit before it had set. */
      readonly texts: readonly CellChange[]
    }
  | { readonly ok: false; readonly error: unknown }

/** The document of a room: Yjs in YNotebook layout. Owned by documents/; the room numbers and journals its changes. */
export interface RoomDocument {
  /**
   * Applies all operations as one transaction, or throws RoomdError and changes nothing. `metadata`: replaces the notebook's own
   * in the same transaction.
   */
  apply(
    operations: readonly DocumentOperation[],
    metadata?: Readonly<Record<string, unknown>>,
  ): { change: DocumentChange | null; cellIds: CellId[] }
  /**
   * Applies edits that came together as one transaction, in order. Each is checked at its turn (`ahead`: how many before it changed
   * something); one that its check or the document refuses changes nothing and stops no other. `change`: of all.
   */
  applyEach(edits: readonly DocumentEdit[]): { change: DocumentChange | null; outcomes: EditOutcome[] }
  /**
   * Applies a peer's Yjs update. null: it held nothing new. Throws `invalid_argument` for bytes that are no update or break the
   * layout, `source_conflict` for one that touches a cell of `closed`; the document is then as it was.
   */
  applyUpdate(update: Uint8Array, closed?: ReadonlySet<CellId>): DocumentChange | null
  /** Yjs state vector / update since one, pending changes included. */
  stateVector(): Uint8Array
  updateSince(stateVector?: Uint8Array): Uint8Array
  /** All of a document that is small enough to be encoded at once, pending changes included; null: of any other. */
  whole(): Uint8Array | null
  /** Updates were lost with a damaged store: it shows less than there was. */
  readonly incomplete: boolean
  readonly cellCount: number
  readonly metadata: Record<string, unknown>
  cellIds(): CellId[]
  cell(cellId: CellId): DocumentCellView | undefined
  cells(start: number, count: number): DocumentCellView[]
  /**
   * Frees the Yjs document until something is asked of it again, which then takes its building; a large one stays. For rooms in
   * which nobody is.
   */
  rest(): void
  /** Frees the Yjs document. */
  dispose(): void
}

export interface DocumentCellView {
  readonly cell_id: CellId
  readonly cell_type: string
  readonly source: string
  readonly source_hash: string
  readonly metadata: Record<string, unknown>
  readonly attachments?: Record<string, unknown>
}

/** Executions of a room: records, queue, output shaping. Owned by executions/. */
export interface RoomExecutions {
  /** Queues code. Synchronous: memory changes at once; `committed` resolves when it is durable and told. */
  execute(request: ExecuteRequest): {
    execution: ExecutionSummary
    already_active: boolean
    statements: Statement[]
    events: DurableEvent[]
  }
  runAll(request: RunAllRequest): {
    executions: ExecutionSummary[]
    statements: Statement[]
    events: DurableEvent[]
  }
  /** Called by the room when the change that holds a queued execution is committed: it may run now. */
  admitted(executionIds: readonly ExecutionId[]): void
  cancel(executionId: ExecutionId): Promise<ExecutionSummary>
  sendInput(executionId: ExecutionId, value: string, by: string): Promise<void>
  /** `offer` when the running execution did not end within 5 s. */
  interrupt(): Promise<{ interrupted: ExecutionId | null; cancelled: ExecutionId[]; offer?: 'restart' }>
  /** Events of the room's kernel, in order. Acknowledges to the kernel after the commit. */
  kernelEvent(kernel: Kernel, event: HostEvent): void
  /**
   * Once after making it (a start, a rebuild): what the store left open goes on. With a kernel: what was handed to it is sent again
   * under the same request id (the host never sends it twice) and its events go on through `kernelEvent`; the rest follows in
   * order. null: what had been handed to a kernel ends as `lost` and, as at any death, what waited behind it is cancelled; if
   * nothing had been handed, the queue starts on a fresh kernel. `reason`: why the kernel is gone.
   */
  resume(kernel: Kernel | null, reason?: string): void
  /** Kernel gone for good (`lost`, died) or ended on request: every open execution ends at once. */
  kernelGone(reason: string, ending: 'died' | 'restarted' | 'shutdown' | 'start_failed'): void
  clearOutputs(cellIds: readonly CellId[] | undefined): {
    cellIds: CellId[]
    statements: Statement[]
    events: DurableEvent[]
  }
  /** Takes what all cells of a large room show, as another thread has read it, before anything here changes. It is its own from now on. */
  preload(all: ShownExecutions): void
  /** Newest execution a cell shows, or undefined. */
  ofCell(cellId: CellId): ExecutionSummary | undefined
  /** Outputs of a terminal execution as snapshots carry them; long texts and values shortened. */
  outputs(executionId: ExecutionId): Output[]
  /** Widgets' conversations with the kernel; gone with it. */
  readonly comms: RoomComms
  /**
   * Takes outputs that came with the notebook's file, made ready by `prepareFileOutputs` (executions/file-outputs.ts): each cell
   * shows them from now on, unless it has an execution that is not terminal. `events` tell peers; at opening there are none to tell.
   */
  takeFileOutputs(cells: readonly PreparedFileOutputs[]): { statements: Statement[]; events: DurableEvent[] }
  /**
   * Cheap name of what a cell shows now: changes whenever its outputs or count may have changed. `file:<execution>`: still what came
   * with the file; `none`: no execution. For the saver, which passes unchanged cells through.
   */
  outputMark(cellId: CellId): string
  /** Frees what can be read again from the store. For rooms that have become idle. */
  trim(): void
  /** Output so far of an execution that is not terminal, as events in pieces of at most 1 MiB. */
  replay(executionId: ExecutionId): DurableEvent[]
  get(executionId: ExecutionId): Execution | undefined
  list(limit: number): ExecutionSummary[]
  readonly running: ExecutionSummary | null
  readonly queued: readonly ExecutionSummary[]
  /** Idle: nothing running, queued or waiting for input. */
  readonly idle: boolean
  dispose(): void
}

export interface ExecuteRequest {
  readonly cell_id?: CellId
  readonly code?: string
  readonly on_error: 'stop' | 'continue'
  readonly allow_stdin: boolean
  readonly by: string
}

export interface RunAllRequest {
  readonly on_error: 'stop' | 'continue'
  readonly allow_stdin: boolean
  readonly by: string
}
