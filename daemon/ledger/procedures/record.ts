/**
 * `session_record`: what an MCP child did, for the session that is under way with its client instance, else in its folder. Counts as
 * tool calls and rooms of the session; it is no change that a caller asked for, so `rev` stays.
 */
import type { Transaction } from '../../store/transaction.ts'
import type { Call, Changed, LedgerParams, LedgerResult } from '../call.ts'
import { clientScope, folderScope, pointed } from '../rows/pointers.ts'
import { noteExecution, useRoom } from '../rows/rooms-used.ts'
import { sessionByKey } from '../rows/sessions.ts'
import { addToolEvent } from '../rows/tool-events.ts'
import { isoText } from '../times.ts'

export function record(
  transaction: Transaction,
  call: Call<LedgerParams<'session_record'>>,
): Changed<LedgerResult<'session_record'>> {
  const { params, now } = call
  const pointer = underWay(transaction, call.clientInstance, params.cwd)
  const row = pointer === null ? undefined : sessionByKey(transaction, pointer)
  if (!row) return { value: { session_id: null }, changed: [] }
  const key = row.session_key
  const counted = params.tool === undefined ? 0 : 1
  if (params.tool !== undefined) {
    addToolEvent(transaction, key, {
      at_text: isoText(now),
      tool: params.tool,
      failed: params.failed,
      file: params.notebooks[0]?.path ?? null,
      source: 'mcp',
      notebook_id: params.notebooks[0]?.notebook_id ?? null,
    })
  }
  for (const room of params.notebooks) useRoom(transaction, key, room, now, counted)
  for (const execution of params.executions) noteExecution(transaction, key, execution)
  transaction.run(
    'UPDATE ledger_sessions SET updated_us = max(updated_us, ?) WHERE session_key = ?',
    now,
    key,
  )
  return { value: { session_id: row.session_id }, changed: [row.session_id] }
}

/** The newer of the two: an agent that makes a session of its own means that one. */
function underWay(transaction: Transaction, instance: string, cwd: string): number | null {
  const own = pointed(transaction, clientScope(instance))
  const folder = cwd === '' ? undefined : pointed(transaction, folderScope(cwd))
  if (own && folder) return own.set_us >= folder.set_us ? own.session_key : folder.session_key
  return (own ?? folder)?.session_key ?? null
}
