/** Rows of `executions` and back: one place for their columns. */
import { decode, encode } from '../../protocol/codec.ts'
import type { CellId, ExecutionId, KernelId, NotebookId } from '../../protocol/ids.ts'
import {
  type ExecutionStatus,
  type ExecutionSummary,
  isTerminal,
  type OutputGap,
} from '../../protocol/notebook.ts'
import type { Statement } from '../store/store.ts'

/** What has no column of its own. */
export interface Detail {
  reason?: string
  /** The open input_request. */
  input?: { msg_id: string; prompt: string; password: boolean }
  truncated?: boolean
  /** Someone asked for an interrupt while it ran. */
  interrupted?: boolean
  /** `clear_output(wait=True)`: the next output clears. */
  clear_next?: boolean
  /** Of this host event the first `units` of its text are in; the rest follows in a later change. */
  partial?: { seq: number; units: number }
  /** Where output of it is missing. */
  gaps?: OutputGap[]
  /** Output beyond the first half of the limit: index of the marker, and bytes left out so far. */
  tail?: { index: number; missing: number }
}

export interface ExecutionRow {
  execution_id: ExecutionId
  notebook_id: NotebookId
  queue_seq: number
  cell_id: CellId | null
  batch: string | null
  status: ExecutionStatus
  execution_count: number | null
  origin: 'peer' | 'file'
  asked_by: string
  source_hash: string
  on_error: 'stop' | 'continue'
  allow_stdin: number
  kernel_id: KernelId | null
  queued_at: number
  started_at: number | null
  finished_at: number | null
  detail: Uint8Array | null
}

/** All columns but `source`, which may be large and is read only to run it. */
export const executionColumns = `execution_id, e.notebook_id, queue_seq, e.cell_id, batch, status, execution_count, origin, asked_by,
  source_hash, on_error, allow_stdin, kernel_id, queued_at, started_at, finished_at, detail`

export const openStatuses = `('queued', 'running', 'waiting_for_input')`

export function readDetail(row: { detail: Uint8Array | null }): Detail {
  return row.detail === null ? {} : (decode(row.detail) as Detail)
}

export function summaryOf(row: ExecutionRow, detail: Detail = readDetail(row)): ExecutionSummary {
  const { status } = row
  return {
    execution_id: row.execution_id,
    notebook_id: row.notebook_id,
    cell_id: row.cell_id,
    status,
    execution_count: row.execution_count,
    origin: row.origin,
    by: row.asked_by,
    source_hash: row.source_hash,
    queued_at: row.queued_at,
    started_at: row.started_at,
    finished_at: row.finished_at,
    ...(status === 'waiting_for_input' && detail.input
      ? { prompt: detail.input.prompt, password: detail.input.password }
      : {}),
    ...(isTerminal(status) && detail.reason !== undefined ? { reason: detail.reason } : {}),
    truncated: detail.truncated ?? false,
    ...(detail.gaps ? { gaps: detail.gaps } : {}),
  }
}

export function insertExecution(row: ExecutionRow, detail: Detail, source: string): Statement {
  return {
    sql: `INSERT INTO executions (execution_id, notebook_id, queue_seq, cell_id, batch, status, execution_count, origin, asked_by,
      source, source_hash, on_error, allow_stdin, kernel_id, queued_at, started_at, finished_at, detail)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    values: [
      row.execution_id,
      row.notebook_id,
      row.queue_seq,
      row.cell_id,
      row.batch,
      row.status,
      row.execution_count,
      row.origin,
      row.asked_by,
      source,
      row.source_hash,
      row.on_error,
      row.allow_stdin,
      row.kernel_id,
      row.queued_at,
      row.started_at,
      row.finished_at,
      writeDetail(detail),
    ],
  }
}

/**
 * The row of outputs that came with a file: over from the beginning. What was run to make them is not known, so its source is empty;
 * `source_hash` is that of the cell beside them.
 */
export function insertFileExecution(summary: ExecutionSummary, queueSeq: number): Statement {
  return {
    sql: `INSERT INTO executions (execution_id, notebook_id, queue_seq, cell_id, status, execution_count, source_hash, queued_at,
      finished_at, origin, asked_by, source, on_error, allow_stdin)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'file', 'file', '', 'stop', 0)`,
    values: [
      summary.execution_id,
      summary.notebook_id,
      queueSeq,
      summary.cell_id,
      summary.status,
      summary.execution_count,
      summary.source_hash,
      summary.queued_at,
      summary.finished_at,
    ],
  }
}

export function updateExecution(row: ExecutionRow, detail: Detail): Statement {
  return {
    sql: `UPDATE executions SET status = ?, execution_count = ?, kernel_id = ?, started_at = ?, finished_at = ?, detail = ?
      WHERE execution_id = ?`,
    values: [
      row.status,
      row.execution_count,
      row.kernel_id,
      row.started_at,
      row.finished_at,
      writeDetail(detail),
      row.execution_id,
    ],
  }
}

export function showInCell(row: Pick<ExecutionRow, 'notebook_id' | 'cell_id' | 'execution_id'>): Statement[] {
  if (row.cell_id === null) return []
  return [
    {
      sql: 'INSERT OR REPLACE INTO cell_executions (notebook_id, cell_id, execution_id) VALUES (?, ?, ?)',
      values: [row.notebook_id, row.cell_id, row.execution_id],
    },
  ]
}

/** Host events up to `seq` are durable here. */
export function consumed(kernelId: KernelId, seq: number): Statement {
  return {
    sql: 'UPDATE kernels SET consumed_seq = ? WHERE kernel_id = ? AND consumed_seq < ?',
    values: [seq, kernelId, seq],
  }
}

function writeDetail(detail: Detail): Uint8Array | null {
  return Object.values(detail).every((value) => value === undefined) ? null : encode(detail)
}
