/** What the requests of a session add up to, the requests themselves, and the values that were seen in them. */
import type { Reader } from '../../store/transaction.ts'

export interface TotalsRow {
  readonly session_key: number
  readonly created_us: number | null
  readonly created_text: string
  readonly updated_us: number | null
  readonly updated_text: string
  readonly requests: number
  readonly total_complexity: number
  readonly max_complexity: number
  readonly peak_context: number
  readonly plan_mode: number
  readonly derived: string | null
  readonly stale: number
  readonly extra: string | null
}

/** What finalizing found; kept as JSON in `derived`. */
export interface Derived {
  /** Empty: not computable. */
  readonly duration: string
  readonly seconds: number
  readonly average: number
  readonly filesModified: readonly string[]
  readonly filesRead: readonly string[]
  readonly toolCalls: number
  readonly errors: number
  readonly successRate: number
  readonly warnings: readonly string[]
  readonly policies: number
  readonly policyMs: number
  readonly decisions: ReadonlyArray<{ policy: string; decision: string }>
  readonly notebooks: readonly string[]
  readonly cellsRun: number
  readonly cellsFailed: number
}

export interface RequestRow {
  readonly n: number
  readonly at_us: number | null
  readonly at_text: string
  readonly prompt: string
  readonly prompt_chars: number
  readonly task_type: string
  readonly skill: string
  readonly complexity: number
  readonly model: string
  readonly cwd: string
  readonly plan_mode: number
  readonly context_pct: number
  readonly standards: number
  readonly rules: number
  readonly supplementary: string
  readonly extra: string | null
}

export type SeenKind = 'skill' | 'task_type' | 'model' | 'supplementary'

export function totalsOf(reader: Reader, key: number): TotalsRow | undefined {
  return reader.get<TotalsRow>('SELECT * FROM ledger_totals WHERE session_key = ?', key)
}

export function derivedOf(row: TotalsRow | undefined): Derived | null {
  return row?.derived ? (JSON.parse(row.derived) as Derived) : null
}

export function requestsOf(reader: Reader, key: number): RequestRow[] {
  return reader.all<RequestRow>('SELECT * FROM ledger_requests WHERE session_key = ? ORDER BY n', key)
}

/** In the order in which they first came. */
export function seenValues(reader: Reader, key: number, kind: SeenKind): string[] {
  return reader
    .all<{ value: string }>(
      'SELECT value FROM ledger_seen WHERE session_key = ? AND kind = ? ORDER BY position',
      key,
      kind,
    )
    .map((row) => row.value)
}
