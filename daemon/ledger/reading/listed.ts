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

/** What lists and searches choose by. Times are of the last change, UTC microseconds, inclusive. */
export interface Choice {
  /** Empty: all. */
  readonly project: string
  readonly from: number | null
  readonly to: number | null
  readonly includeArchived: boolean
}

interface Condition {
  readonly sql: string
  readonly values: ReadonlyArray<string | number>
}

/** A session is of a project that it was made in, and of each in which a summary of it was saved. */
const SAVED_IN = `ledger_artifacts a CROSS JOIN ledger_sessions s ON s.session_key = a.session_key
  WHERE a.kind = 'summary' AND a.project = ? AND s.project <> ?`
const NEWEST_FIRST = 'ORDER BY updated_us DESC, session_key DESC LIMIT ?'

/** For sessions that are looked at one by one, by their keys. */
export function conditionOf(choice: Choice): Condition {
  const { project } = choice
  const rest = beyondProject(choice)
  if (project === '') return rest
  return {
    sql: `(s.project = ? OR EXISTS (SELECT 1 FROM ledger_artifacts a
             WHERE a.session_key = s.session_key AND a.kind = 'summary' AND a.project = ?)) AND ${rest.sql}`,
    values: [project, project, ...rest.values],
  }
}

function beyondProject({ from, to, includeArchived }: Choice): Condition {
  const sql: string[] = []
  const values: number[] = []
  if (from !== null) {
    sql.push('s.updated_us >= ?')
    values.push(from)
  }
  if (to !== null) {
    sql.push('s.updated_us <= ?')
    values.push(to)
  }
  if (!includeArchived) sql.push('s.archived_us IS NULL')
  return { sql: sql.length === 0 ? 'true' : sql.join(' AND '), values }
}

/** The last changed first. Each way to be of a project has an index that gives its own newest. */
export function newestSessions(reader: Reader, choice: Choice, limit: number): SessionRow[] {
  const { project } = choice
  const { sql, values } = beyondProject(choice)
  if (project === '')
    return reader.all(`SELECT s.* FROM ledger_sessions s WHERE ${sql} ${NEWEST_FIRST}`, ...values, limit)
  return reader.all(
    `SELECT * FROM (SELECT s.* FROM ledger_sessions s WHERE s.project = ? AND ${sql} ${NEWEST_FIRST})
     UNION ALL
     SELECT * FROM (SELECT s.* FROM ${SAVED_IN} AND ${sql} ${NEWEST_FIRST})
     ${NEWEST_FIRST}`,
    project,
    ...values,
    limit,
    project,
    project,
    ...values,
    limit,
    limit,
  )
}

/** Archived ones are few and have an index: they are counted off, instead of reading all others. */
export function countSessions(reader: Reader, choice: Choice): number {
  const { project } = choice
  const { sql, values } = beyondProject({ ...choice, includeArchived: true })
  const count = (from: string, ...names: string[]): number =>
    reader.get<{ n: number }>(`SELECT count(*) AS n FROM ${from} AND ${sql}`, ...names, ...values)?.n ?? 0
  const made = project === '' ? 'true' : 's.project = ?'
  // The plus keeps SQLite from the index by project, which does not know what is archived.
  const madeAndArchived = `${project === '' ? 'true' : '+s.project = ?'} AND s.archived_us IS NOT NULL`
  const names = project === '' ? [] : [project]
  const saved = (besides: string): number =>
    project === '' ? 0 : count(`${SAVED_IN} AND ${besides}`, project, project)
  const all = count(`ledger_sessions s WHERE ${made}`, ...names) + saved('true')
  if (choice.includeArchived) return all
  return (
    all - count(`ledger_sessions s WHERE ${madeAndArchived}`, ...names) - saved('s.archived_us IS NOT NULL')
  )
}

/** How much of what was found is shown. */
export function shownOf(shown: number, total: number) {
  return { count: shown, total_matched: total, truncated: total > shown }
}
