/**
 * Outputs on their way out of and into .ipynb files. What came with a file becomes an execution of origin `file`, so that a cell
 * shows it like any other; for saving, a cell's outputs are had in full, blobs read back. Works on the store alone.
 */

import type { DurableEvent } from '../../protocol/events.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import { isJsonMime } from '../../protocol/mime.ts'
import { type ExecutionSummary, INLINE_LIMIT, type Output } from '../../protocol/notebook.ts'
import { Breathing } from '../breathing.ts'
import { sourceHash } from '../documents/source-hash.ts'
import type { Statement, Store } from '../store/store.ts'
import type { Blobs } from './blobs.ts'
import { isRecord } from './messages.ts'
import { insertOutput } from './output-entry.ts'
import { readStoredOutputs, readStreamText } from './reading.ts'
import { RisingIds } from './rising-ids.ts'
import { insertFileExecution, showInCell } from './rows.ts'
import { StreamOutput } from './stream-output.ts'
import { needsBlobs, readBundle, storeBundle } from './values.ts'

/** Cells whose blobs are written side by side. */
const CELLS_AT_ONCE = 64

/** Rows that are written together lie beside each other in the store. */
const ids = new RisingIds()

/** A code cell of a file. `outputs` as nbformat 4 has them; multi-line texts may be lists. */
export interface FileCell {
  readonly cell_id: CellId
  readonly source: string
  readonly execution_count: number | null
  readonly outputs: readonly unknown[]
}

/** A cell's outputs ready to be taken: large values are durable blobs. */
export interface PreparedFileOutputs {
  readonly execution_id: ExecutionId
  readonly cell_id: CellId
  readonly source_hash: string
  readonly execution_count: number | null
  readonly status: 'done' | 'error'
  readonly outputs: readonly Output[]
}

/** An output in nbformat 4's in-memory form: texts are whole strings (the writer splits them into lines). */
export type FileOutput =
  | { output_type: 'stream'; name: string; text: string }
  | { output_type: 'display_data'; data: Record<string, unknown>; metadata: Record<string, unknown> }
  | {
      output_type: 'execute_result'
      data: Record<string, unknown>
      metadata: Record<string, unknown>
      execution_count: number | null
    }
  | { output_type: 'error'; ename: string; evalue: string; traceback: string[] }

/**
 * Makes the outputs of a file's cells ready for `RoomExecutions.takeFileOutputs`. Cells with neither outputs nor a count are
 * left out. Rejects with the storage error when a blob cannot be written.
 */
export async function prepareFileOutputs(
  blobs: Blobs,
  cells: readonly FileCell[],
): Promise<PreparedFileOutputs[]> {
  const all: PreparedFileOutputs[] = []
  const breathing = new Breathing()
  // Some at a time: blobs are written side by side, and a huge file does not become a million promises.
  for (let start = 0; start < cells.length; start += CELLS_AT_ONCE) {
    const some = cells.slice(start, start + CELLS_AT_ONCE)
    for (const cell of await Promise.all(some.map((one) => prepareCell(blobs, one)))) {
      if (cell) all.push(cell)
    }
    if (breathing.due) await breathing.pause()
  }
  return all
}

async function prepareCell(blobs: Blobs, cell: FileCell): Promise<PreparedFileOutputs | null> {
  if (cell.outputs.length === 0 && cell.execution_count === null) return null
  const outputs = cell.outputs.map(fromFile)
  if (!outputs.some(isLarge)) return prepared(cell, outputs)
  return prepared(cell, await Promise.all(outputs.map((output) => storeLarge(output, blobs))))
}

/** The same for a cell whose values all fit into rows, at once and in any thread. `large`: some do not. null: there is nothing. */
export function prepareSmallOutputs(cell: FileCell): PreparedFileOutputs | 'large' | null {
  if (cell.outputs.length === 0 && cell.execution_count === null) return null
  const outputs = cell.outputs.map(fromFile)
  return outputs.some(isLarge) ? 'large' : prepared(cell, outputs)
}

function prepared(cell: FileCell, outputs: readonly Output[]): PreparedFileOutputs {
  return {
    execution_id: ids.next(),
    cell_id: cell.cell_id,
    source_hash: sourceHash(cell.source),
    execution_count: cell.execution_count,
    status: outputs.some((output) => output.output_type === 'error') ? 'error' : 'done',
    outputs,
  }
}

/** What a cell shows of its file. */
export interface TakenOutputs {
  readonly summary: ExecutionSummary
  readonly outputs: Output[]
}

/**
 * Rows, events and records of outputs taken from a file at `now`. The events make a mirror show them: an execution that is at once
 * over, with its outputs.
 */
export function takeRows(
  notebookId: NotebookId,
  cells: readonly PreparedFileOutputs[],
  now: number,
  nextQueueSeq: () => number,
): {
  statements: Statement[]
  events: DurableEvent[]
  entries: Map<ExecutionId, TakenOutputs>
} {
  const statements: Statement[] = []
  const events: DurableEvent[] = []
  const entries = new Map<ExecutionId, TakenOutputs>()
  for (const cell of cells) {
    const taken = rowsOfCell(notebookId, cell, now, nextQueueSeq(), statements)
    const { summary, outputs } = taken
    const { execution_id } = cell
    events.push({ type: 'execution_queued', execution: summary })
    for (const [index, output] of outputs.entries())
      events.push({ type: 'output', execution_id, index, output })
    events.push({ type: 'execution_finished', execution: summary })
    entries.set(execution_id, taken)
  }
  return { statements, events, entries }
}

/** Adds the rows of one cell's outputs to `statements`, and tells what the cell then shows. */
export function rowsOfCell(
  notebookId: NotebookId,
  cell: PreparedFileOutputs,
  now: number,
  queueSeq: number,
  statements: Statement[],
): TakenOutputs {
  const summary = summaryOfCell(notebookId, cell, now)
  statements.push(insertFileExecution(summary, queueSeq), ...showInCell(summary))
  const outputs: Output[] = []
  cell.outputs.forEach((output, index) => {
    const taken = outputRows(cell.execution_id, index, output)
    statements.push(...taken.statements)
    outputs.push(taken.shown)
  })
  return { summary, outputs }
}

/** How an execution that came with a file looks. */
export function summaryOfCell(
  notebookId: NotebookId,
  cell: Omit<PreparedFileOutputs, 'outputs'>,
  now: number,
): ExecutionSummary {
  return {
    execution_id: cell.execution_id,
    notebook_id: notebookId,
    cell_id: cell.cell_id,
    status: cell.status,
    execution_count: cell.execution_count,
    origin: 'file',
    by: 'file',
    source_hash: cell.source_hash,
    queued_at: now,
    started_at: null,
    finished_at: now,
    truncated: false,
  }
}

/** Rows of one finished output; a long text goes into pieces. */
function outputRows(
  executionId: ExecutionId,
  index: number,
  output: Output,
): { statements: Statement[]; shown: Output } {
  const text = output.output_type === 'stream' ? output.text : null
  if (typeof text !== 'string' || output.output_type !== 'stream' || Buffer.byteLength(text) <= INLINE_LIMIT)
    return { statements: [insertOutput(executionId, index, output)], shown: output }
  // As it is in the file: nothing is carried out that a terminal would.
  const stream = StreamOutput.finished(output.name, text)
  return { statements: stream.rows(executionId, index), shown: stream.snapshot() }
}

/**
 * What a file should hold for this cell: the outputs of the execution it shows, in full, as committed. null: it shows none.
 * Rejects `not_found` when a blob is gone, so that a file is never overwritten with less.
 */
export async function outputsForFile(
  store: Store,
  blobs: Blobs,
  notebookId: NotebookId,
  cellId: CellId,
): Promise<{ execution_id: ExecutionId; execution_count: number | null; outputs: FileOutput[] } | null> {
  const row = store.get<{ execution_id: ExecutionId; execution_count: number | null }>(
    `SELECT e.execution_id, e.execution_count FROM cell_executions c JOIN executions e USING (execution_id)
     WHERE c.notebook_id = ? AND c.cell_id = ?`,
    notebookId,
    cellId,
  )
  if (!row) return null
  const outputs: FileOutput[] = []
  for (const stored of readStoredOutputs(store, row.execution_id)) {
    outputs.push(await toFile(store, blobs, row.execution_id, stored.index, stored.output))
  }
  return { execution_id: row.execution_id, execution_count: row.execution_count, outputs }
}

async function toFile(
  store: Store,
  blobs: Blobs,
  executionId: ExecutionId,
  index: number,
  output: Output,
): Promise<FileOutput> {
  switch (output.output_type) {
    case 'stream': {
      const { name } = output
      return { output_type: 'stream', name, text: readStreamText(store, executionId, index, output) }
    }
    case 'display_data':
      return {
        output_type: 'display_data',
        data: await readBundle(output.data, blobs),
        metadata: output.metadata,
      }
    case 'execute_result':
      return {
        output_type: 'execute_result',
        data: await readBundle(output.data, blobs),
        metadata: output.metadata,
        execution_count: output.execution_count,
      }
    case 'error':
      return output
  }
}

function isLarge(output: Output): boolean {
  return 'data' in output && needsBlobs(output.data)
}

async function storeLarge(output: Output, blobs: Blobs): Promise<Output> {
  return 'data' in output ? { ...output, data: await storeBundle(output.data, blobs) } : output
}

/** Its values are whole. */
function fromFile(value: unknown): Output {
  const output = isRecord(value) ? value : {}
  const type = output.output_type
  switch (type) {
    case 'stream':
      return {
        output_type: 'stream',
        name: typeof output.name === 'string' ? output.name : 'stdout',
        text: joinLines(output.text),
      }
    case 'display_data':
    case 'execute_result': {
      const data: Record<string, unknown> = {}
      for (const [mime, raw] of Object.entries(isRecord(output.data) ? output.data : {}))
        data[mime] = isJsonMime(mime) || !isLines(raw) ? raw : joinLines(raw)
      const metadata = isRecord(output.metadata) ? output.metadata : {}
      if (type === 'display_data') return { output_type: type, data, metadata }
      const count = output.execution_count
      return {
        output_type: type,
        data,
        metadata,
        execution_count: typeof count === 'number' && Number.isInteger(count) ? count : null,
      }
    }
    case 'error':
      return {
        output_type: 'error',
        ename: String(output.ename ?? ''),
        evalue: String(output.evalue ?? ''),
        traceback: Array.isArray(output.traceback) ? output.traceback.map(String) : [],
      }
    default:
      // The file keeps it as it is; only the picture of it cannot be shown.
      return {
        output_type: 'display_data',
        data: { 'text/plain': `[an output of the unknown type ${JSON.stringify(type) ?? 'none'}]` },
        metadata: {},
      }
  }
}

function isLines(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((line) => typeof line === 'string')
}

function joinLines(value: unknown): string {
  if (isLines(value)) return value.join('')
  return typeof value === 'string' ? value : String(value ?? '')
}
