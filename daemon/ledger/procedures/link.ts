/** `session_link`: which session goes on which. A session has one parent; children are those that name it. No cycles. */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { revFault, valueError } from '../outcome.ts'
import { indexProfile } from '../rows/profile.ts'
import { findSession, insertSession, type Origin, type SessionRow, touchSession } from '../rows/sessions.ts'

export function link(
  transaction: Transaction,
  call: Call<LedgerParams<'session_link'>>,
): Changed<LedgerResult<'session_link'>> {
  const { child_id, parent_id, expect_rev } = call.params
  const fault = nameFault(child_id, 'child_id') ?? nameFault(parent_id, 'parent_id')
  if (fault) return refused(fault)
  if (child_id === parent_id) return refused(valueError(`a session cannot be its own parent: ${child_id}`))
  const child = findSession(transaction, child_id)
  const stale = revFault(expect_rev, child?.rev ?? 0)
  if (stale) return refused(stale)
  if (descendsFrom(transaction, parent_id, child_id))
    return refused(
      valueError(`${parent_id} goes on ${child_id} already: linking them this way round would be a cycle`),
    )
  const rev = linkSessions(transaction, call.now, child_id, parent_id, 'tool')
  return {
    value: {
      success: true,
      child: child_id,
      parent: parent_id,
      message: `Linked ${child_id} -> ${parent_id}`,
      rev,
    },
    changed: [child_id, parent_id],
  }
}

/** Makes what is missing: the parent as a stub without a time, then the child. Returns the child's rev. */
export function linkSessions(
  transaction: Transaction,
  now: number,
  childId: string,
  parentId: string,
  origin: Origin,
): number {
  const parent = chained(transaction, parentId, { now, origin, created_text: '' })
  const child = chained(transaction, childId, { now, origin })
  if (child.parent === parent.session_id) return child.rev
  transaction.run('UPDATE ledger_sessions SET parent = ? WHERE session_key = ?', parentId, child.session_key)
  return touchSession(transaction, child.session_key, now)
}

/** The session, with a record of its own from now on. */
export function chained(
  transaction: Transaction,
  sessionId: string,
  made: { now: number; origin: Origin; created_text?: string },
): SessionRow {
  const found = findSession(transaction, sessionId)
  if (!found) {
    const row = insertSession(transaction, { session_id: sessionId, ...made, chained: true, synthetic: true })
    indexProfile(transaction, row.session_key)
    return row
  }
  if (found.chained === 0)
    transaction.run('UPDATE ledger_sessions SET chained = 1 WHERE session_key = ?', found.session_key)
  return found
}

/** Whether `ancestor` is reached from `sessionId` by going from parent to parent. */
export function descendsFrom(transaction: Transaction, sessionId: string, ancestor: string): boolean {
  return (
    transaction.get(
      `WITH RECURSIVE up (id) AS (
         SELECT parent FROM ledger_sessions WHERE session_id = ? AND parent IS NOT NULL
         UNION SELECT parent FROM ledger_sessions JOIN up ON session_id = up.id WHERE parent IS NOT NULL)
       SELECT 1 FROM up WHERE id = ?`,
      sessionId,
      ancestor,
    ) !== undefined
  )
}
