/** What time takes away, as the settings say: old sessions are archived, archived ones deleted, single events and keys forgotten. */
import type { Settings } from '../../../protocol/config.ts'
import type { Transaction } from '../../store/transaction.ts'
import { forgetToolEvents } from '../rows/tool-events.ts'
import { forgetSession } from './import-session.ts'

export interface RetentionInput {
  /** UTC microseconds. */
  readonly now: number
  readonly settings: Pick<
    Settings['ledger'],
    'archive_after_days' | 'delete_archived_after_days' | 'keep_events_days'
  >
}

/** Ids of sessions. */
export interface RetentionResult {
  readonly archived: readonly string[]
  readonly deleted: readonly string[]
  /** Those whose tool events were forgotten. */
  readonly forgotten: readonly string[]
}

const DAY_US = 86_400_000_000
/** Idempotency keys are for calls that are made again, not for ever. */
const KEYS_DAYS = 30
/** Sessions of one run: others wait for the store meanwhile. */
const MOST = 200

export function forgetOld(transaction: Transaction, { now, settings }: RetentionInput): RetentionResult {
  const archived =
    settings.archive_after_days === 0
      ? []
      : transaction.all<{ session_id: string }>(
          `UPDATE ledger_sessions SET archived_us = ?, rev = rev + 1 WHERE session_key IN (
             SELECT session_key FROM ledger_sessions WHERE archived_us IS NULL AND updated_us < ? LIMIT ?)
           RETURNING session_id`,
          now,
          now - settings.archive_after_days * DAY_US,
          MOST,
        )
  const deleted =
    settings.delete_archived_after_days === 0
      ? []
      : transaction.all<{ session_key: number; session_id: string }>(
          'SELECT session_key, session_id FROM ledger_sessions WHERE archived_us < ? LIMIT ?',
          now - settings.delete_archived_after_days * DAY_US,
          MOST,
        )
  for (const { session_key } of deleted) forgetSession(transaction, session_key)
  const forgotten =
    settings.keep_events_days === 0 ? [] : forgetEvents(transaction, now - settings.keep_events_days * DAY_US)
  transaction.run('DELETE FROM ledger_keys WHERE at_us < ?', now - KEYS_DAYS * DAY_US)
  return {
    archived: archived.map((row) => row.session_id),
    deleted: deleted.map((row) => row.session_id),
    forgotten,
  }
}

/** Hook events from before, and tool events of sessions in which nothing has happened since: a session that goes on keeps all of its. */
function forgetEvents(transaction: Transaction, before: number): string[] {
  transaction.run('DELETE FROM ledger_hook_events WHERE at_us < ?', before)
  const quiet = transaction.all<{ session_key: number; session_id: string }>(
    `SELECT session_key, session_id FROM ledger_sessions s WHERE updated_us < ?
       AND EXISTS (SELECT 1 FROM ledger_tool_events e WHERE e.session_key = s.session_key) LIMIT ?`,
    before,
    MOST,
  )
  for (const { session_key } of quiet) forgetToolEvents(transaction, session_key)
  return quiet.map((row) => row.session_id)
}
