/** `session_list`: every session, however it was made, the last changed first. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import type { Failure } from '../outcome.ts'
import type { SessionRow } from '../rows/sessions.ts'
import { countSessions, listedSession, projectCondition } from './listed.ts'

export function list(
  reader: Reader,
  params: LedgerParams<'session_list'>,
  mirror: string | null,
): LedgerResult<'session_list'> | Failure {
  const { project, limit, include_archived } = params
  const fault = project === '' ? null : nameFault(project, 'project')
  if (fault) return fault
  const condition = projectCondition(project)
  const where = `WHERE ${condition.sql} ${include_archived ? '' : 'AND s.archived_us IS NULL'}`
  const rows = reader.all<SessionRow>(
    `SELECT s.* FROM ledger_sessions s ${where} ORDER BY s.updated_us DESC, s.session_key DESC LIMIT ?`,
    ...condition.values,
    limit,
  )
  const sessions = rows.map((row) => listedSession(reader, row, mirror))
  const total_matched = countSessions(reader, condition.sql, condition.values, include_archived)
  return {
    success: true,
    sessions,
    count: sessions.length,
    total_matched,
    truncated: total_matched > sessions.length,
  }
}
