/** `session_get_work_items`: what is to be done and what was, in the order in which it was added. */
import { workItemStatuses } from '../../../protocol/ledger.ts'
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { type Failure, notFound, valueError } from '../outcome.ts'
import { findSession } from '../rows/sessions.ts'
import { workItemResult, workItemsOf } from '../rows/work-items.ts'

export function getWorkItems(
  reader: Reader,
  params: LedgerParams<'session_get_work_items'>,
): LedgerResult<'session_get_work_items'> | Failure {
  const { session_id, status } = params
  const fault = nameFault(session_id, 'session_id')
  if (fault) return fault
  if (status !== undefined && !(workItemStatuses as readonly string[]).includes(status))
    return valueError(
      `status must be one of ${workItemStatuses.join(', ')}, not ${JSON.stringify(status.slice(0, 60))}`,
    )
  const row = findSession(reader, session_id)
  if (!row) return notFound(session_id)
  const work_items = workItemsOf(reader, row.session_key)
    .filter((item) => status === undefined || item.status === status)
    .map(workItemResult)
  return { success: true, session_id, work_items, count: work_items.length }
}
