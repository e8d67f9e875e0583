/**
 * The records of a room: which executions are in memory, which one each cell shows, and what can be read again from the store.
 *
 * Invariant: whatever a change that is not committed yet touches stays in memory until it is; everything else may be dropped,
 * because the store tells it. So what this answers is the state of all changes handed over, never less.
 */
import type { CellId, ExecutionId, KernelId, NotebookId } from '../../protocol/ids.ts'
import { type ExecutionSummary, isTerminal, type Output } from '../../protocol/notebook.ts'
import type { Store } from '../store/store.ts'
import { Live } from './live.ts'
import { readStoredOutputs } from './reading.ts'
import { Recorder } from './recorder.ts'
import { type ExecutionRow, executionColumns, openStatuses, readDetail, summaryOf } from './rows.ts'
import type { ShownExecutions } from './shown-executions.ts'

/** Terminal executions whose outputs are kept for the next look, and how many outputs one of them may have. */
const CACHED_EXECUTIONS = 200
const CACHED_OUTPUTS = 100
/** Cells that show something, beyond which the list of them stays: to read it again would keep other rooms waiting. */
const MOST_READ_AGAIN = 1000
/** Ids known to be no execution of this room. */
const REMEMBERED_STRANGERS = 1000

/** Taken from a file in one change and perhaps not committed yet. */
interface FileBatch {
  readonly last: ExecutionId
  readonly entries: ReadonlyMap<ExecutionId, { summary: ExecutionSummary; outputs: readonly Output[] }>
}

export class RecordBook {
  readonly #store: Store
  readonly #notebookId: NotebookId
  readonly #limit: number
  readonly #live = new Map<ExecutionId, Live>()
  /** Not terminal, in queue order. */
  readonly open: Live[] = []
  #shown: Map<CellId, ExecutionId> | null = null
  #summaries = new Map<ExecutionId, ExecutionSummary>()
  readonly #outputs = new Map<ExecutionId, Output[]>()
  readonly #strangers = new Set<string>()
  #files: FileBatch[] = []
  #queueSeq: number

  constructor(store: Store, notebookId: NotebookId, limit: number) {
    this.#store = store
    this.#notebookId = notebookId
    this.#limit = limit
    const rows = store.all<ExecutionRow>(
      `SELECT ${executionColumns} FROM executions e WHERE e.notebook_id = ? AND status IN ${openStatuses} ORDER BY queue_seq`,
      notebookId,
    )
    for (const row of rows) this.open.push(this.#load(row))
    const last = store.get<{ seq: number | null }>(
      'SELECT max(queue_seq) AS seq FROM executions WHERE notebook_id = ?',
      notebookId,
    )
    this.#queueSeq = last?.seq ?? 0
  }

  nextQueueSeq(): number {
    return ++this.#queueSeq
  }

  /** Takes a new execution; its cell shows it from now on. */
  add(row: ExecutionRow): Live {
    const live = new Live(row, new Recorder(row.execution_id, this.#limit))
    this.#live.set(live.id, live)
    if (!live.terminal) this.open.push(live)
    if (row.cell_id !== null) {
      const before = this.shown.get(row.cell_id)
      if (before !== undefined) this.#summaries.delete(before)
      this.shown.set(row.cell_id, live.id)
    }
    return live
  }

  /** The execution that is not terminal, of this cell. */
  openOfCell(cellId: CellId): Live | undefined {
    return this.open.find((live) => live.row.cell_id === cellId && !live.leaving)
  }

  inMemory(id: ExecutionId): Live | undefined {
    return this.#live.get(id)
  }

  /** The execution, read from the store if need be; undefined: none of this room's. */
  find(id: string): Live | undefined {
    const live = this.#live.get(id as ExecutionId)
    if (live || this.#strangers.has(id)) return live
    const row = this.#store.get<ExecutionRow>(
      `SELECT ${executionColumns} FROM executions e WHERE execution_id = ? AND e.notebook_id = ?`,
      id,
      this.#notebookId,
    )
    if (row) return this.#load(row)
    if (this.#strangers.size >= REMEMBERED_STRANGERS) this.#strangers.clear()
    this.#strangers.add(id)
    return undefined
  }

  /** Executions of a kernel whose rows hold this display id, as committed. */
  searchDisplay(kernelId: KernelId, displayId: string): ExecutionId[] {
    return this.#store
      .all<{ execution_id: ExecutionId }>(
        `SELECT DISTINCT e.execution_id FROM executions e JOIN outputs o ON o.execution_id = e.execution_id
         WHERE e.notebook_id = ? AND e.kernel_id = ? AND instr(o.body, ?) > 0`,
        this.#notebookId,
        kernelId,
        Buffer.from(displayId),
      )
      .map((row) => row.execution_id)
  }

  ended(live: Live): void {
    const at = this.open.indexOf(live)
    if (at >= 0) this.open.splice(at, 1)
  }

  /** Holds these in memory until the change they are in is committed. */
  pin(lives: Iterable<Live>): void {
    for (const live of lives) {
      live.pins++
      this.#outputs.delete(live.id)
      this.#summaries.delete(live.id)
    }
  }

  unpin(lives: Iterable<Live>): void {
    for (const live of lives) {
      live.pins--
      if (live.pins > 0 || !live.terminal) continue
      this.#live.delete(live.id)
      this.#keep(live.id, live.recorder.outputs())
      const { cell_id } = live.row
      if (cell_id !== null && this.#shown?.get(cell_id) === live.id)
        this.#summaries.set(live.id, live.summary)
    }
  }

  /** Lets go of one that `find` read and nothing was done with. */
  release(live: Live): void {
    if (live.pins === 0 && live.terminal) this.#live.delete(live.id)
  }

  /** Takes what all cells show, as another thread has read it; nothing may have changed since. */
  preload({ cells, summaries }: ShownExecutions): void {
    if (this.#shown || this.#summaries.size > 0) return
    this.#shown = cells
    this.#summaries = summaries
    for (const id of this.#live.keys()) summaries.delete(id)
  }

  /** Which execution each cell shows; loaded at the first look. */
  get shown(): Map<CellId, ExecutionId> {
    if (this.#shown) return this.#shown
    const rows = this.#store.all<ExecutionRow & { shown_by: CellId }>(
      `SELECT c.cell_id AS shown_by, ${executionColumns} FROM cell_executions c JOIN executions e USING (execution_id)
       WHERE c.notebook_id = ?`,
      this.#notebookId,
    )
    this.#shown = new Map()
    for (const row of rows) {
      this.#shown.set(row.shown_by, row.execution_id)
      if (!this.#live.has(row.execution_id)) this.#summaries.set(row.execution_id, summaryOf(row))
    }
    return this.#shown
  }

  summary(id: ExecutionId): ExecutionSummary | undefined {
    const live = this.#live.get(id)
    if (live) return live.summary
    const known = this.#summaries.get(id) ?? this.#fileEntry(id)?.summary
    if (known) return known
    const row = this.#store.get<ExecutionRow>(
      `SELECT ${executionColumns} FROM executions e WHERE execution_id = ? AND e.notebook_id = ?`,
      id,
      this.#notebookId,
    )
    return row ? summaryOf(row) : undefined
  }

  outputs(id: ExecutionId): Output[] {
    const live = this.#live.get(id)
    if (live) return live.recorder.outputs()
    const cached = this.#outputs.get(id)
    if (cached) return cached
    const fromFile = this.#fileEntry(id)
    if (fromFile) return [...fromFile.outputs]
    const read = readStoredOutputs(this.#store, id).map(({ output }) => output)
    this.#keep(id, read)
    return read
  }

  /** The newest, newest first. */
  list(limit: number): ExecutionSummary[] {
    const byId = new Map<ExecutionId, { seq: number; summary: ExecutionSummary }>()
    const rows = this.#store.all<ExecutionRow>(
      `SELECT ${executionColumns} FROM executions e WHERE e.notebook_id = ? ORDER BY queue_seq DESC LIMIT ?`,
      this.#notebookId,
      limit,
    )
    for (const row of rows) byId.set(row.execution_id, { seq: row.queue_seq, summary: summaryOf(row) })
    for (const live of this.#live.values())
      byId.set(live.id, { seq: live.row.queue_seq, summary: live.summary })
    return [...byId.values()]
      .sort((a, b) => b.seq - a.seq)
      .slice(0, limit)
      .map(({ summary }) => summary)
  }

  addFiles(entries: FileBatch['entries']): void {
    const last = [...entries.keys()].at(-1)
    if (last === undefined) return
    this.#files.push({ last, entries })
    for (const [id, { summary }] of entries) {
      if (summary.cell_id !== null) this.shown.set(summary.cell_id, id)
      this.#summaries.set(id, summary)
    }
  }

  /** Drops what the store can tell again. */
  trim(): void {
    this.#confirmFiles()
    this.#outputs.clear()
    this.#strangers.clear()
    if (this.#live.size > 0 || this.#files.length > 0) return
    if (this.#shown && this.#shown.size > MOST_READ_AGAIN) return
    this.#shown = null
    this.#summaries.clear()
  }

  #load(row: ExecutionRow): Live {
    const detail = readDetail(row)
    const sealed = isTerminal(row.status)
    const recorder = Recorder.resume(this.#store, row.execution_id, this.#limit, detail, sealed)
    const live = new Live(row, recorder)
    this.#live.set(live.id, live)
    return live
  }

  #fileEntry(id: ExecutionId): { summary: ExecutionSummary; outputs: readonly Output[] } | undefined {
    if (this.#files.length === 0) return undefined
    this.#confirmFiles()
    for (const batch of this.#files) {
      const entry = batch.entries.get(id)
      if (entry) return entry
    }
    return undefined
  }

  /** A batch is one change: when its last row is in the store, all are. */
  #confirmFiles(): void {
    this.#files = this.#files.filter(
      ({ last }) => !this.#store.get('SELECT 1 FROM executions WHERE execution_id = ?', last),
    )
  }

  #keep(id: ExecutionId, outputs: Output[]): void {
    this.#outputs.delete(id)
    if (outputs.length > CACHED_OUTPUTS) return
    this.#outputs.set(id, outputs)
    for (const oldest of this.#outputs.keys()) {
      if (this.#outputs.size <= CACHED_EXECUTIONS) break
      this.#outputs.delete(oldest)
    }
  }
}
