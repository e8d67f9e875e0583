/** `session_archive` and `session_unarchive`: sessions as wholes. An archived one is left out where it is not asked for. */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { fileName, treeFile } from '../names.ts'
import { notFound } from '../outcome.ts'
import { findSession, touchSession } from '../rows/sessions.ts'

const DAY_US = 86_400_000_000

export function archive(
  transaction: Transaction,
  call: Call<LedgerParams<'session_archive'>>,
): Changed<LedgerResult<'session_archive'>> {
  const { now, mirror, params } = call
  const any = transaction.get('SELECT 1 FROM ledger_sessions LIMIT 1')
  if (any === undefined) return { value: { success: true, archived: [], count: 0, failed: [] }, changed: [] }
  const rows = transaction.all<{
    session_key: number
    session_id: string
    project: string
    updated_us: number
  }>(
    `SELECT session_key, session_id, project, updated_us FROM ledger_sessions
     WHERE archived_us IS NULL AND updated_us < ? ORDER BY updated_us, session_key`,
    now - params.days_old * DAY_US,
  )
  for (const row of rows)
    transaction.run(
      'UPDATE ledger_sessions SET archived_us = ?, rev = rev + 1 WHERE session_key = ?',
      now,
      row.session_key,
    )
  return {
    value: {
      success: true,
      archived: rows.map((row) => ({
        file: fileName(mirror, treeFile.archived(row.project, row.session_id)),
        project: row.project,
        age_days: Math.floor((now - row.updated_us) / DAY_US),
        session_id: row.session_id,
      })),
      count: rows.length,
      failed: [],
      failed_count: 0,
      archive_dir: fileName(mirror, treeFile.archiveFolder),
    },
    changed: rows.map((row) => row.session_id),
  }
}

export function unarchive(
  transaction: Transaction,
  call: Call<LedgerParams<'session_unarchive'>>,
): Changed<LedgerResult<'session_unarchive'>> {
  const { session_id } = call.params
  const fault = nameFault(session_id, 'session_id')
  if (fault) return refused(fault)
  const row = findSession(transaction, session_id)
  if (!row) return refused(notFound(session_id))
  if (row.archived_us === null)
    return { value: { success: true, session_id, archived: false, rev: row.rev }, changed: [] }
  const rev = touchSession(transaction, row.session_key, row.updated_us, { revives: true })
  return { value: { success: true, session_id, archived: false, rev }, changed: [session_id] }
}
