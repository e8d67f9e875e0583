/** Idempotency keys: the first answer of a call that named one is the answer of every later call with it. */
import type { Transaction } from '../../store/transaction.ts'

export function firstAnswer(transaction: Transaction, scope: string, key: string | undefined): unknown {
  if (key === undefined) return undefined
  const row = transaction.get<{ result: string }>(
    'SELECT result FROM ledger_keys WHERE scope = ? AND key = ?',
    scope,
    key,
  )
  return row === undefined ? undefined : JSON.parse(row.result)
}

export function keepAnswer(
  transaction: Transaction,
  scope: string,
  key: string | undefined,
  result: unknown,
  now: number,
): void {
  if (key === undefined) return
  transaction.run(
    'INSERT INTO ledger_keys (scope, key, result, at_us) VALUES (?, ?, ?, ?)',
    scope,
    key,
    JSON.stringify(result),
    now,
  )
}
