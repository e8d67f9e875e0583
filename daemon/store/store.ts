/**
 * The contract of the store: one SQLite database, one writer (a worker thread), readers on the main thread.
 *
 * A `WriteUnit` is all or nothing. All units handed over within a turn of the loop are one transaction with a savepoint per
 * unit (group commit, `synchronous=FULL`). `write` resolves after the commit that holds the unit, in hand-over order, and
 * rejects with `storage_full` or `storage_failed` when the unit or its transaction failed; then nothing of it is stored.
 */
export type SqlValue = string | number | bigint | Uint8Array | null

/** One prepared statement (by its text; cached in the worker) and its positional parameters. */
export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

export type WriteUnit = readonly Statement[]

export interface StoreHealth {
  readonly state: 'ok' | 'read_only' | 'recovered'
  readonly reason?: string
  /** Bytes of database and write-ahead log. */
  readonly size: number
  /** Units handed over and not yet committed. */
  readonly pending: number
}

export interface Store {
  /** Rows as plain objects; only committed state is seen. Never leaves an iterator open. */
  all<Row>(sql: string, ...values: SqlValue[]): Row[]
  get<Row>(sql: string, ...values: SqlValue[]): Row | undefined
  write(unit: WriteUnit): Promise<void>
  /** Resolves when everything handed over before is committed (or has failed and its callers know). */
  settled(): Promise<void>
  health(): StoreHealth
  /** Waits for what is pending, checkpoints, ends the worker. */
  close(): Promise<void>
}
