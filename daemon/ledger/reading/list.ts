/** `session_list`: every session, however it was made, the last changed first. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import type { Failure } from '../outcome.ts'
import { type Choice, countSessions, listedSession, newestSessions, shownOf } from './listed.ts'

export function list(
  reader: Reader,
  params: LedgerParams<'session_list'>,
  mirror: string | null,
): LedgerResult<'session_list'> | Failure {
  const { project, limit, include_archived } = params
  const fault = project === '' ? null : nameFault(project, 'project')
  if (fault) return fault
  const choice: Choice = { project, from: null, to: null, includeArchived: include_archived }
  const sessions = newestSessions(reader, choice, limit).map((row) => listedSession(reader, row, mirror))
  return { success: true, sessions, ...shownOf(sessions.length, countSessions(reader, choice)) }
}
