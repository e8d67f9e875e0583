/** Work items of a session, in the order in which they were added. */
import type { LedgerWorkItem } from '../../../protocol/ledger.ts'
import type { Reader } from '../../store/transaction.ts'
import { parseLenient } from '../lenient-json.ts'
import { plainJson } from '../plain-json.ts'

export interface WorkItemRow {
  readonly work_key: number
  readonly session_key: number
  readonly work_id: string
  readonly type: string
  readonly description: string
  readonly status: string
  readonly started_text: string
  readonly completed_text: string | null
  readonly metadata: string
  readonly extra: string | null
}

export function workItemsOf(reader: Reader, key: number): WorkItemRow[] {
  return reader.all<WorkItemRow>(
    'SELECT * FROM ledger_work_items WHERE session_key = ? ORDER BY work_key',
    key,
  )
}

export function findWorkItem(reader: Reader, key: number, workId: string): WorkItemRow | undefined {
  return reader.get<WorkItemRow>(
    'SELECT * FROM ledger_work_items WHERE session_key = ? AND work_id = ?',
    key,
    workId,
  )
}

export function workItemResult(row: WorkItemRow): LedgerWorkItem {
  return {
    work_id: row.work_id,
    type: row.type,
    description: row.description,
    started_at: row.started_text,
    completed_at: row.completed_text,
    status: row.status,
    metadata: plainJson(parseLenient(row.metadata)),
  }
}
