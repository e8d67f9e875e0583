/** Rows of sessions: finding, making, touching. A row's `rev` rises with every change that a caller asked for. */
import type { Reader, Transaction } from '../../store/transaction.ts'
import { isoText } from '../times.ts'

export type Origin = 'tool' | 'hook' | 'import'

export interface SessionRow {
  readonly session_key: number
  readonly session_id: string
  readonly project: string
  readonly parent: string | null
  readonly chained: number
  readonly synthetic: number
  readonly origin: Origin
  readonly skill: string
  readonly task_type: string
  readonly last_prompt: string
  readonly cwd: string
  readonly user_summary: string
  readonly auto_summary: string
  readonly status: string
  readonly created_us: number
  readonly created_text: string
  readonly updated_us: number
  readonly finalized_us: number | null
  readonly archived_us: number | null
  readonly rev: number
  readonly imported_rev: number | null
  readonly extra: string | null
  /** What forgotten tool events came to (JSON). */
  readonly forgotten_events: string | null
}

export function findSession(reader: Reader, sessionId: string): SessionRow | undefined {
  return reader.get<SessionRow>('SELECT * FROM ledger_sessions WHERE session_id = ?', sessionId)
}

export function sessionByKey(reader: Reader, key: number): SessionRow | undefined {
  return reader.get<SessionRow>('SELECT * FROM ledger_sessions WHERE session_key = ?', key)
}

export type NewSession = Pick<SessionRow, 'session_id' | 'origin'> &
  Partial<
    Pick<SessionRow, 'project' | 'skill' | 'task_type' | 'last_prompt' | 'cwd' | 'parent' | 'created_text'>
  > & { readonly chained: boolean; readonly synthetic: boolean; readonly now: number }

/** `created_text`: absent, the text of now. Throws when the id is taken: callers look first. */
export function insertSession(transaction: Transaction, made: NewSession): SessionRow {
  const { now } = made
  const { id } = transaction.run(
    `INSERT INTO ledger_sessions (session_id, project, parent, chained, synthetic, origin, skill, task_type, last_prompt, cwd,
       created_us, created_text, updated_us)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    made.session_id,
    made.project ?? 'default',
    made.parent ?? null,
    made.chained ? 1 : 0,
    made.synthetic ? 1 : 0,
    made.origin,
    made.skill ?? '',
    made.task_type ?? '',
    made.last_prompt ?? '',
    made.cwd ?? '',
    now,
    made.created_text ?? isoText(now),
    now,
  )
  return must(sessionByKey(transaction, id))
}

/** Counts a change. `revives`: an archived session that is worked on again is archived no more. Returns the new rev. */
export function touchSession(
  transaction: Transaction,
  key: number,
  now: number,
  options: { revives?: boolean } = {},
): number {
  const row = transaction.get<{ rev: number }>(
    `UPDATE ledger_sessions SET rev = rev + 1, updated_us = max(updated_us, ?),
       archived_us = CASE WHEN ? THEN NULL ELSE archived_us END
     WHERE session_key = ? RETURNING rev`,
    now,
    options.revives ? 1 : 0,
    key,
  )
  return must(row).rev
}

/** What people wrote about it, else what finalizing found. */
export function summaryOf(row: Pick<SessionRow, 'user_summary' | 'auto_summary'>): string {
  return row.user_summary !== '' ? row.user_summary : row.auto_summary
}

export function must<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('a row that was just written is not there')
  return row
}
