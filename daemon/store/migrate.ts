/** Brings a store's schema up to this version. `PRAGMA user_version` counts the migrations that were applied. */
import type Database from 'better-sqlite3'
import { migrations } from './schema.ts'

/** Each migration is one transaction with its number, so that a crash leaves a known version. */
export function migrate(db: Database.Database): void {
  const version = Number(db.pragma('user_version', { simple: true }))
  migrations.slice(version).forEach((sql, index) => {
    db.transaction(() => {
      db.exec(sql)
      db.pragma(`user_version = ${version + index + 1}`)
    }).immediate()
  })
}
