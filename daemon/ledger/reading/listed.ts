/** A session as lists show it. */
import type { LedgerSession } from '../../../protocol/ledger.ts'
import type { Reader } from '../../store/transaction.ts'
import { fileName, treeFile } from '../names.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { type SessionRow, summaryOf } from '../rows/sessions.ts'
import { isoText } from '../times.ts'

export function listedSession(reader: Reader, row: SessionRow, mirror: string | null): LedgerSession {
  const saved = reader.get<{ project: string; size: number }>(
    `SELECT project, length(body) AS size FROM ledger_artifacts
     WHERE session_key = ? AND kind = 'summary' ORDER BY modified_us DESC LIMIT 1`,
    row.session_key,
  )
  const totals = reader.get<{ requests: number }>(
    'SELECT requests FROM ledger_totals WHERE session_key = ?',
    row.session_key,
  )
  const summary = summaryOf(row)
  const file = saved
    ? row.archived_us === null
      ? treeFile.saved(saved.project, row.session_id)
      : treeFile.archived(saved.project, row.session_id)
    : treeFile.log(row.session_id, 'session-summary.md')
  return {
    project: row.project,
    session_id: row.session_id,
    file: fileName(mirror, file),
    size_bytes: saved?.size ?? Buffer.byteLength(summary),
    modified: isoText(row.updated_us),
    created_at: row.created_text,
    status: row.status,
    task_type: row.task_type,
    skill: row.skill,
    summary,
    tags: tagsOfSession(reader, row.session_key),
    requests: totals?.requests ?? 0,
    parent: row.parent,
    archived: row.archived_us !== null,
    synthetic: row.synthetic === 1,
  }
}

/** Conditions that lists and searches share; `values` in order of the question marks. */
export function projectCondition(project: string): { sql: string; values: string[] } {
  if (project === '') return { sql: 'true', values: [] }
  return {
    sql: `s.session_key IN (SELECT session_key FROM ledger_sessions WHERE project = ?
            UNION SELECT session_key FROM ledger_artifacts WHERE kind = 'summary' AND project = ?)`,
    values: [project, project],
  }
}

/** Sessions under a condition. Archived ones are few and have an index: they are counted off, instead of reading all others. */
export function countSessions(
  reader: Reader,
  condition: string,
  values: ReadonlyArray<string | number>,
  includeArchived: boolean,
): number {
  const count = (sql: string): number => reader.get<{ n: number }>(sql, ...values)?.n ?? 0
  const all = count(`SELECT count(*) AS n FROM ledger_sessions s WHERE ${condition}`)
  if (includeArchived) return all
  return (
    all -
    count(`SELECT count(*) AS n FROM ledger_sessions s WHERE s.archived_us IS NOT NULL AND ${condition}`)
  )
}
