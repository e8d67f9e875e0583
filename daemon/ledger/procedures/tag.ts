/** `session_tag` and `session_untag`. Related sessions are not written down: they are found when they are asked for. */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault, tagFault } from '../grammar.ts'
import { notFound, revFault } from '../outcome.ts'
import { indexProfile } from '../rows/profile.ts'
import { addTags, removeTags, tagsOfSession } from '../rows/session-tags.ts'
import { findSession, touchSession } from '../rows/sessions.ts'
import { commaList } from '../tags.ts'
import { chained } from './link.ts'

/** `auto_related` is added by the reader after the commit. */
export function tag(
  transaction: Transaction,
  call: Call<LedgerParams<'session_tag'>>,
): Changed<LedgerResult<'session_tag'>> {
  const { session_id, summary, expect_rev } = call.params
  const names = commaList(call.params.tags)
  const fault = nameFault(session_id, 'session_id') ?? names.map(tagFault).find((found) => found !== null)
  if (fault) return refused(fault)
  const stale = revFault(expect_rev, findSession(transaction, session_id)?.rev ?? 0)
  if (stale) return refused(stale)
  const row = chained(transaction, session_id, { now: call.now, origin: 'tool' })
  addTags(
    transaction,
    row.session_key,
    names.map((name) => ({ name, source: 'manual', span: null })),
    call.now,
  )
  if (summary !== '')
    transaction.run(
      'UPDATE ledger_sessions SET user_summary = ? WHERE session_key = ?',
      summary,
      row.session_key,
    )
  indexProfile(transaction, row.session_key)
  const rev = touchSession(transaction, row.session_key, call.now)
  return {
    value: { success: true, session_id, tags: tagsOfSession(transaction, row.session_key), rev },
    changed: [session_id],
  }
}

export function untag(
  transaction: Transaction,
  call: Call<LedgerParams<'session_untag'>>,
): Changed<LedgerResult<'session_untag'>> {
  const { session_id, expect_rev } = call.params
  const fault = nameFault(session_id, 'session_id')
  if (fault) return refused(fault)
  const row = findSession(transaction, session_id)
  if (!row) return refused(notFound(session_id))
  const stale = revFault(expect_rev, row.rev)
  if (stale) return refused(stale)
  const removed = removeTags(transaction, row.session_key, commaList(call.params.tags))
  indexProfile(transaction, row.session_key)
  const rev = removed.length === 0 ? row.rev : touchSession(transaction, row.session_key, call.now)
  return {
    value: { success: true, session_id, tags: tagsOfSession(transaction, row.session_key), removed, rev },
    changed: removed.length === 0 ? [] : [session_id],
  }
}
