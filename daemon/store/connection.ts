/** Settings that every connection to the store has. */
import type Database from 'better-sqlite3'

/**
 * WAL, so that readers and the writer do not wait for each other; FULL, so that a commit that was told survives a power cut;
 * the log is moved into the database every 2,000 pages (8 MB), or sooner in a quiet moment, and cut back to 32 MiB at most.
 */
export function setUpConnection(db: Database.Database): void {
  db.pragma('busy_timeout = 5000')
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.pragma('foreign_keys = ON')
  db.pragma('wal_autocheckpoint = 2000')
  db.pragma('journal_size_limit = 33554432')
}
