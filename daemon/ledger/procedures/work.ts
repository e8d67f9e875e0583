/** `session_add_work_item` and `session_complete_work_item`. An item ends once; ending it the same way again tells the first time. */
import { workItemEnds } from '../../../protocol/ledger.ts'
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault, prefixFault } from '../grammar.ts'
import { parseLenient, UnreadableFile } from '../lenient-json.ts'
import { newWorkId } from '../names.ts'
import { failure, notFound, revFault, valueError } from '../outcome.ts'
import { pythonJsonLine } from '../render/python-json.ts'
import { setDoc } from '../rows/docs.ts'
import { firstAnswer, keepAnswer } from '../rows/keys.ts'
import { findSession, touchSession } from '../rows/sessions.ts'
import { findWorkItem } from '../rows/work-items.ts'
import { isoText } from '../times.ts'

type Added = LedgerResult<'session_add_work_item'>

export function addWorkItem(
  transaction: Transaction,
  call: Call<LedgerParams<'session_add_work_item'>>,
  suffix?: () => string,
): Changed<Added> {
  const { session_id, description, work_type, metadata, idempotency_key, expect_rev } = call.params
  const fault = nameFault(session_id, 'session_id') ?? prefixFault(work_type, 'work_type')
  if (fault) return refused(fault)
  const row = findSession(transaction, session_id)
  if (!row) return refused(notFound(session_id))
  const scope = `session_add_work_item ${session_id}`
  const known = firstAnswer(transaction, scope, idempotency_key)
  if (known !== undefined) return { value: known as Added, changed: [] }
  const stale = revFault(expect_rev, row.rev)
  if (stale) return refused(stale)
  const work_id = newWorkId(transaction, work_type, call.now, suffix)
  transaction.run(
    `INSERT INTO ledger_work_items (session_key, work_id, type, description, status, started_text, metadata)
     VALUES (?, ?, ?, ?, 'IN_PROGRESS', ?, ?)`,
    row.session_key,
    work_id,
    work_type,
    description,
    isoText(call.now),
    metadataText(metadata),
  )
  // A stub of a link or of requests has a record of its own from now on.
  transaction.run('UPDATE ledger_sessions SET chained = 1 WHERE session_key = ?', row.session_key)
  const count = transaction.get<{ n: number }>(
    'SELECT count(*) AS n FROM ledger_work_items WHERE session_key = ?',
    row.session_key,
  )
  setDoc(transaction, row.session_key, { source: 'work_item', n: count?.n ?? 1 }, description)
  const value: Added = {
    success: true,
    work_id,
    session_id,
    description,
    status: 'IN_PROGRESS',
    rev: touchSession(transaction, row.session_key, call.now),
  }
  keepAnswer(transaction, scope, idempotency_key, value, call.now)
  return { value, changed: [session_id] }
}

/** As the reference: what is no JSON is an empty object. */
function metadataText(text: string): string {
  try {
    return pythonJsonLine(parseLenient(text))
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    return '{}'
  }
}

export function completeWorkItem(
  transaction: Transaction,
  call: Call<LedgerParams<'session_complete_work_item'>>,
): Changed<LedgerResult<'session_complete_work_item'>> {
  const { session_id, work_id, status, expect_rev } = call.params
  const fault = nameFault(session_id, 'session_id') ?? nameFault(work_id, 'work_id')
  if (fault) return refused(fault)
  if (!(workItemEnds as readonly string[]).includes(status))
    return refused(
      valueError(
        `status must be one of ${workItemEnds.join(', ')}, not ${JSON.stringify(status.slice(0, 60))}`,
      ),
    )
  const row = findSession(transaction, session_id)
  if (!row) return refused(notFound(session_id))
  const item = findWorkItem(transaction, row.session_key, work_id)
  if (!item) return refused(failure(`Work item not found: ${work_id}`))
  const stale = revFault(expect_rev, row.rev)
  if (stale) return refused(stale)
  const ended = (completed_at: string, rev: number) =>
    ({ success: true, work_id, session_id, status, completed_at, rev }) as const
  if (item.status !== 'IN_PROGRESS') {
    if (item.status === status) return { value: ended(item.completed_text ?? '', row.rev), changed: [] }
    return refused(
      failure(
        `CONFLICT: work item ${work_id} ended as ${item.status} already; that result is kept`,
        'CONFLICT',
      ),
    )
  }
  const completed_at = isoText(call.now)
  transaction.run(
    'UPDATE ledger_work_items SET status = ?, completed_text = ? WHERE work_key = ?',
    status,
    completed_at,
    item.work_key,
  )
  const rev = touchSession(transaction, row.session_key, call.now)
  return { value: ended(completed_at, rev), changed: [session_id] }
}
