/**
 * One connection as code that reads and writes sees it: statements by their text, prepared once. Who hands it out owns begin and
 * commit. Readers of the store (main thread, other threads) have the reading half.
 */
import type Database from 'better-sqlite3'
import type { SqlValue } from './store.ts'

export interface Reader {
  all<Row>(sql: string, ...values: SqlValue[]): Row[]
  get<Row>(sql: string, ...values: SqlValue[]): Row | undefined
}

export interface Transaction extends Reader {
  /** `id`: rowid of the last row that was inserted. */
  run(sql: string, ...values: SqlValue[]): { changes: number; id: number }
}

/** Texts beyond this many are prepared again: lists of `?` of many lengths. */
const MOST_STATEMENTS = 500

export function connectionTransaction(db: Database.Database): Transaction {
  const statements = new Map<string, Database.Statement>()
  const prepared = (sql: string): Database.Statement => {
    let statement = statements.get(sql)
    if (statement === undefined) {
      if (statements.size >= MOST_STATEMENTS) statements.clear()
      statement = db.prepare(sql)
      statements.set(sql, statement)
    }
    return statement
  }
  return {
    all: <Row>(sql: string, ...values: SqlValue[]) => prepared(sql).all(...values) as Row[],
    get: <Row>(sql: string, ...values: SqlValue[]) => prepared(sql).get(...values) as Row | undefined,
    run(sql, ...values) {
      const { changes, lastInsertRowid } = prepared(sql).run(...values)
      return { changes, id: Number(lastInsertRowid) }
    },
  }
}
