/**
 * The write connection: prepared statements by id, group commits, and what an error means. Runs in the writer thread.
 *
 * A group is first tried without savepoints, which is the fast and usual way. When a unit fails, everything is rolled back and
 * the group is run again with a savepoint per unit, so that the bad one fails alone. A failure of the transaction itself (disk
 * full, input/output error) fails every unit of the group.
 */
import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { setUpConnection } from './connection.ts'
import { procedures } from './procedures.ts'
import type { SqlValue } from './store.ts'
import { connectionTransaction, type Transaction } from './transaction.ts'
import type { HandOver, ProcedureCall, UnitFailure, UnitResult, Work } from './writer-messages.ts'

/** Free bytes below which an input/output error is told as a full disk. */
const FULL_BELOW = 256 * 1024

interface Bound {
  readonly statement: Database.Statement
  readonly values: readonly SqlValue[]
}

/** How a group went: units that are not in `failures` are durable. */
export interface Committed {
  readonly failures: readonly UnitFailure[]
  readonly results: readonly UnitResult[]
}

/** The error that fails all units of a group. */
class GroupFailure extends Error {
  readonly reason: unknown
  constructor(reason: unknown) {
    super('the transaction failed')
    this.reason = reason
  }
}

export class WriteConnection {
  readonly #file: string
  readonly #db: Database.Database
  readonly #statements: Database.Statement[] = []
  /** Texts of statements that could not be prepared when they came; prepared again at use, so that the unit gets the error. */
  readonly #texts: string[] = []
  readonly #begin: Database.Statement
  readonly #commit: Database.Statement
  readonly #rollback: Database.Statement
  readonly #savepoint: Database.Statement
  readonly #release: Database.Statement
  readonly #undo: Database.Statement
  /** What procedures read and write through. */
  readonly #transaction: Transaction
  /** Commits are synced to disk. */
  #syncing = true

  constructor(file: string) {
    this.#file = file
    this.#db = new Database(file, { fileMustExist: true })
    setUpConnection(this.#db)
    this.#begin = this.#db.prepare('BEGIN IMMEDIATE')
    this.#commit = this.#db.prepare('COMMIT')
    this.#rollback = this.#db.prepare('ROLLBACK')
    this.#savepoint = this.#db.prepare('SAVEPOINT unit')
    this.#release = this.#db.prepare('RELEASE unit')
    this.#undo = this.#db.prepare('ROLLBACK TO unit')
    this.#transaction = connectionTransaction(this.#db)
  }

  /** Commits work as one transaction. Tells the units that failed; all others are durable, with the results of procedures. */
  commit(group: readonly Work[]): Committed {
    for (const work of group) if (work.kind === 'units') this.#texts.push(...work.statements)
    this.#sync(group.some((work) => work.kind === 'units' || work.lasting))
    let total = 0
    for (const work of group) total += work.count
    try {
      return { failures: [], results: this.#run(group) }
    } catch (thrown) {
      this.#abandon()
      if (thrown instanceof GroupFailure) return this.#none(group, thrown.reason)
      if (total === 1) return this.#none(group, thrown)
    }
    try {
      return this.#runApart(group)
    } catch (thrown) {
      this.#abandon()
      return this.#none(group, thrown instanceof GroupFailure ? thrown.reason : thrown)
    }
  }

  /**
   * Whether the next commit is synced. The log is one file, so a commit that is synced takes with it what was committed before it and
   * was not; and the log is synced whenever it is moved into the database.
   */
  #sync(syncing: boolean): void {
    if (syncing === this.#syncing) return
    this.#db.pragma(`synchronous = ${syncing ? 'FULL' : 'NORMAL'}`)
    this.#syncing = syncing
  }

  /** Moves the log into the database as far as readers allow. Failing is no harm: the log stays. */
  checkpoint(): void {
    try {
      this.#db.pragma('wal_checkpoint(PASSIVE)')
    } catch {
      // A full disk or an input/output error shows at the next commit, where someone waits for the answer.
    }
  }

  /** Moves the log into the database and closes. Returns what went wrong, or null; all commits stay durable either way. */
  close(): string | null {
    let error: string | null = null
    try {
      this.#db.pragma('wal_checkpoint(TRUNCATE)')
    } catch (thrown) {
      error = thrown instanceof Error ? thrown.message : String(thrown)
    }
    this.#db.close()
    return error
  }

  #run(group: readonly Work[]): UnitResult[] {
    const results: UnitResult[] = []
    this.#atGroupLevel(() => this.#begin.run())
    for (const work of group) {
      if (work.kind === 'procedure') results.push({ unit: work.first, value: this.#perform(work) })
      else
        for (const unit of this.#units(work)) for (const { statement, values } of unit) statement.run(values)
    }
    this.#atGroupLevel(() => this.#commit.run())
    return results
  }

  #runApart(group: readonly Work[]): Committed {
    const failures: UnitFailure[] = []
    const results: UnitResult[] = []
    const apart = (unit: number, run: () => void): void => {
      this.#savepoint.run()
      try {
        run()
        this.#release.run()
      } catch (thrown) {
        // SQLite has rolled the whole transaction back by itself: full disk and the like.
        if (!this.#db.inTransaction) throw new GroupFailure(thrown)
        this.#undo.run()
        this.#release.run()
        failures.push(this.#failure(unit, thrown))
      }
    }
    this.#atGroupLevel(() => this.#begin.run())
    for (const work of group) {
      let number = work.first
      if (work.kind === 'procedure') {
        apart(number, () => results.push({ unit: number, value: this.#perform(work) }))
        continue
      }
      for (const unit of this.#units(work)) {
        apart(number, () => {
          for (const { statement, values } of unit) statement.run(values)
        })
        number++
      }
    }
    this.#atGroupLevel(() => this.#commit.run())
    return { failures, results }
  }

  #perform({ name, input }: ProcedureCall): unknown {
    const procedure = Object.hasOwn(procedures, name)
      ? (procedures as Record<string, (transaction: Transaction, input: never) => unknown>)[name]
      : undefined
    if (!procedure) throw new Error(`there is no procedure ${name}`)
    return procedure(this.#transaction, input as never)
  }

  /** Units of a hand-over as bound statements. Lazily, so that what cannot be prepared fails in its own unit. */
  *#units(handOver: HandOver): Generator<Iterable<Bound>> {
    const { body, blobs } = handOver
    let at = 0
    let blobAt = 0
    const next = (): SqlValue | true => {
      const value = body[at++]
      if (value === undefined) throw new Error('a hand-over ended early')
      return value
    }
    for (let unit = 0; unit < handOver.count; unit++) {
      const raw: { sql: SqlValue | true; values: SqlValue[] }[] = []
      const statements = Number(next())
      for (let s = 0; s < statements; s++) {
        const sql = next()
        const count = Number(next())
        const values: SqlValue[] = []
        for (let v = 0; v < count; v++) {
          const value = next()
          if (value === true) {
            const length = Number(next())
            values.push(blobs.subarray(blobAt, blobAt + length))
            blobAt += length
          } else values.push(value)
        }
        raw.push({ sql, values })
      }
      yield this.#bind(raw)
    }
  }

  *#bind(raw: readonly { sql: SqlValue | true; values: SqlValue[] }[]): Generator<Bound> {
    for (const { sql, values } of raw) yield { statement: this.#statement(sql), values }
  }

  #statement(sql: SqlValue | true): Database.Statement {
    if (typeof sql === 'string') return this.#db.prepare(sql)
    const id = Number(sql)
    let statement = this.#statements[id]
    if (statement === undefined) {
      const text = this.#texts[id]
      if (text === undefined) throw new Error(`statement ${id} was never handed over`)
      statement = this.#db.prepare(text)
      this.#statements[id] = statement
    }
    return statement
  }

  #atGroupLevel(step: () => void): void {
    try {
      step()
    } catch (thrown) {
      throw new GroupFailure(thrown)
    }
  }

  #abandon(): void {
    if (this.#db.inTransaction) this.#rollback.run()
  }

  #none(group: readonly Work[], reason: unknown): Committed {
    return { failures: this.#all(group, reason), results: [] }
  }

  #all(group: readonly Work[], reason: unknown): UnitFailure[] {
    const failures: UnitFailure[] = []
    for (const handOver of group) {
      for (let i = 0; i < handOver.count; i++) failures.push(this.#failure(handOver.first + i, reason))
    }
    return failures
  }

  #failure(unit: number, thrown: unknown): UnitFailure {
    const sqlite = thrown instanceof Database.SqliteError ? thrown.code : 'none'
    const said = thrown instanceof Error ? thrown.message : String(thrown)
    const full = sqlite.startsWith('SQLITE_FULL') || (sqlite.startsWith('SQLITE_IOERR') && this.#diskIsFull())
    return {
      unit,
      code: full ? 'storage_full' : 'storage_failed',
      message: full
        ? `the disk that holds ${this.#file} is full: free some space; writing is tried again by itself`
        : `${this.#file} could not be written: ${said} (${sqlite})`,
      sqlite,
      damaged: sqlite.startsWith('SQLITE_CORRUPT') || sqlite.startsWith('SQLITE_NOTADB'),
    }
  }

  #diskIsFull(): boolean {
    try {
      const disk = statfsSync(dirname(this.#file))
      return disk.bavail * disk.bsize < FULL_BELOW
    } catch {
      // Cannot tell: the folder itself is gone or unreadable, which is no full disk.
      return false
    }
  }
}
