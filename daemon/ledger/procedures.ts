/**
 * The ledger's procedures, run by the store's writer: one call of one tool is one unit. The result of a call with a mutation id is
 * stored in the same unit, so that the call, sent again by whatever process, is answered and not done again.
 */
import { encode } from '../../protocol/codec.ts'
import type { LedgerMethod } from '../../protocol/ledger.ts'
import type { Transaction } from '../store/transaction.ts'
import type { Call, CallMutation, Outcome } from './call.ts'
import { accumulate } from './procedures/accumulate.ts'
import { archive, unarchive } from './procedures/archive.ts'
import { create } from './procedures/create.ts'
import { finalize } from './procedures/finalize.ts'
import { hook } from './procedures/hook.ts'
import { importEntries } from './procedures/import.ts'
import { link } from './procedures/link.ts'
import { record } from './procedures/record.ts'
import { forgetOld } from './procedures/retention.ts'
import { save } from './procedures/save.ts'
import { tag, untag } from './procedures/tag.ts'
import { addWorkItem, completeWorkItem } from './procedures/work.ts'

export const changingTools = {
  session_create: create,
  session_accumulate: accumulate,
  session_finalize: finalize,
  session_save: save,
  session_archive: archive,
  session_unarchive: unarchive,
  session_link: link,
  session_tag: tag,
  session_untag: untag,
  session_add_work_item: addWorkItem,
  session_complete_work_item: completeWorkItem,
  session_record: record,
  session_hook: hook,
} as const satisfies Partial<Record<LedgerMethod, unknown>>

export type ChangingTool = keyof typeof changingTools

export interface LedgerCall {
  readonly tool: ChangingTool
  readonly call: Call<unknown>
  readonly mutation: CallMutation | null
}

function ledgerCall(transaction: Transaction, { tool, call, mutation }: LedgerCall): Outcome {
  const run = changingTools[tool] as (transaction: Transaction, call: Call<never>) => Outcome
  const outcome = run(transaction, call as Call<never>)
  if (mutation !== null) {
    transaction.run(
      `INSERT INTO mutations (client_instance, mutation_id, method, notebook_id, result, at) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (client_instance, mutation_id) DO UPDATE SET result = excluded.result`,
      mutation.clientInstance,
      mutation.id,
      mutation.method,
      mutation.notebookId,
      encode({ ok: true, value: outcome.value }),
      Math.floor(call.now / 1000),
    )
    for (const { sql, values } of mutation.forget) transaction.run(sql, ...values)
  }
  return outcome
}

export const ledgerProcedures = {
  ledger_call: ledgerCall,
  ledger_import: importEntries,
  ledger_forget: forgetOld,
}
