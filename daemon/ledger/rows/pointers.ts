/**
 * Which session is under way: for a client instance (its newest, and its newest in each project), and for a working folder, which
 * is how hooks and MCP children that share nothing else find to each other.
 */
import type { Reader, Transaction } from '../../store/transaction.ts'

export const clientScope = (instance: string, project?: string): string =>
  project === undefined ? `client ${instance}` : `client ${instance} ${project}`
export const folderScope = (cwd: string): string => `folder ${cwd.replace(/[\\/]+$/, '') || '/'}`
/** The session of a folder that ended with /clear and has no successor yet. */
export const clearedScope = (cwd: string): string => `cleared ${cwd.replace(/[\\/]+$/, '') || '/'}`

export function point(transaction: Transaction, scope: string, sessionKey: number, now: number): void {
  transaction.run(
    `INSERT INTO ledger_pointers (scope, session_key, generation, set_us) VALUES (?, ?, 1, ?)
     ON CONFLICT (scope) DO UPDATE SET session_key = excluded.session_key, generation = generation + 1, set_us = excluded.set_us`,
    scope,
    sessionKey,
    now,
  )
}

export function pointed(reader: Reader, scope: string): { session_key: number; set_us: number } | undefined {
  return reader.get('SELECT session_key, set_us FROM ledger_pointers WHERE scope = ?', scope)
}

export function unpoint(transaction: Transaction, scope: string): void {
  transaction.run('DELETE FROM ledger_pointers WHERE scope = ?', scope)
}
