/** Everything of one session as one text, to see whether an import changed anything. Counters of changes are not part of it. */
import type { Reader } from '../../store/transaction.ts'

const tables: ReadonlyArray<readonly [table: string, order: string]> = [
  ['ledger_totals', 'session_key'],
  ['ledger_requests', 'n'],
  ['ledger_seen', 'kind, value'],
  ['ledger_relations', 'other'],
  ['ledger_tool_events', 'n'],
]

export function snapshotOf(reader: Reader, key: number): string {
  const parts: unknown[] = [
    reader.get(
      `SELECT session_id, project, parent, chained, skill, task_type, last_prompt, user_summary, auto_summary, status, created_us,
         created_text, updated_us, finalized_us, archived_us, extra FROM ledger_sessions WHERE session_key = ?`,
      key,
    ),
    reader.all('SELECT name FROM ledger_session_tags WHERE session_key = ? ORDER BY name', key),
    reader.all(
      `SELECT work_id, type, description, status, started_text, completed_text, metadata, extra FROM ledger_work_items
       WHERE session_key = ? ORDER BY work_key`,
      key,
    ),
    reader.all(
      `SELECT kind, project, name, hex(body) AS body, modified_us, recovered FROM ledger_artifacts
       WHERE session_key = ? ORDER BY kind, project`,
      key,
    ),
    reader.all(
      `SELECT h.modified_us, hex(h.body) AS body FROM ledger_artifact_history h JOIN ledger_artifacts USING (artifact_key)
       WHERE session_key = ? AND h.archived = 1 ORDER BY h.modified_us`,
      key,
    ),
    ...tables.map(([table, order]) =>
      reader.all(`SELECT * FROM ${table} WHERE session_key = ? ORDER BY ${order}`, key),
    ),
  ]
  return JSON.stringify(parts)
}
