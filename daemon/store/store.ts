/**
 * The contract of the store: one SQLite database, one writer (a worker thread), readers on the main thread.
 *
 * A `WriteUnit` is all or nothing. All units handed over within a turn of the loop are one transaction with a savepoint per
 * unit (group commit, `synchronous=FULL`); in a turn that has much to write a writer that is idle begins with the first part. `write` resolves after the commit that holds the unit, in hand-over order, and
 * rejects with `storage_full` or `storage_failed` when the unit or its transaction failed; then nothing of it is stored.
 *
 * What must read before it knows what to write is a procedure: a named function (`procedures.ts`) that the writer runs as one
 * unit of the same transaction, so that it sees everything handed over before it and nobody comes in between.
 */
import type { ProcedureInput, ProcedureName, ProcedureResult } from './procedures.ts'

export type SqlValue = string | number | bigint | Uint8Array | null

/** One prepared statement (by its text; cached in the worker) and its positional parameters. */
export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

export type WriteUnit = readonly Statement[]

export interface StoreHealth {
  /** `failing`: what was last handed over could not be written (a full disk, most often); it is tried again with everything new. */
  readonly state: 'ok' | 'failing' | 'read_only' | 'recovered'
  readonly reason?: string
  /** A recovery, of this start or an earlier one, lost rows: what the store does not know may be somebody's all the same. */
  readonly incomplete?: boolean
  /** Bytes of database and write-ahead log. */
  readonly size: number
  /** Units handed over and not yet committed. */
  readonly pending: number
}

export interface Store {
  /** Rows as plain objects; only committed state is seen. Never leaves an iterator open. */
  all<Row>(sql: string, ...values: SqlValue[]): Row[]
  get<Row>(sql: string, ...values: SqlValue[]): Row | undefined
  /**
   * `early`: much is behind it in this turn; a writer that has nothing to do begins with what there is, so that the rest is made while
   * it commits.
   */
  write(unit: WriteUnit, early?: boolean): Promise<void>
  /**
   * The same for a unit of large values: bytes that lie in shared memory reach the writer without a copy, and must not be changed
   * any more. `packed`: further statements, made ready in another thread (packed-rows.ts), which run behind the others. `lasting` false:
   * rows that mean nothing before a later unit of the caller's, whose commit makes them last too. No process that dies takes them
   * away; a machine that loses its power before that later commit may.
   */
  writeShared(unit: WriteUnit, packed?: Uint8Array, lasting?: boolean): Promise<void>
  /** Resolves when everything handed over before is committed (or has failed and its callers know). */
  settled(): Promise<void>
  health(): StoreHealth
  /** Waits for what is pending, checkpoints, ends the worker. */
  close(): Promise<void>
}

/** A store whose writer runs procedures too; what `openStore` gives. */
export interface ProcedureStore extends Store {
  /**
   * Runs a procedure as one unit, in hand-over order with the others. Resolves with what it returned, after the commit. `input`
   * and result are copied between threads. A procedure that throws stores nothing; it may be run twice before one commit, of
   * which the second counts.
   */
  transact<Name extends ProcedureName>(
    name: Name,
    input: ProcedureInput<Name>,
  ): Promise<ProcedureResult<Name>>
}
