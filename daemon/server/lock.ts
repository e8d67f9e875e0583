/**
 * The one lock that makes a daemon the only one of its home: an exclusive SQLite transaction on `<state>/daemon.lock`, held for
 * life. The kernel drops it when the process dies, however it dies.
 *
 * Closing *any* descriptor of a file drops all POSIX locks that the process has on it. So nothing else in this process may open,
 * read or remove that file while the lock is held, and the file stays where it is for ever.
 */
import Database from 'better-sqlite3'
import { RoomdError } from '../../protocol/errors.ts'

export interface Lock {
  /** Gives the lock up; idempotent. */
  release(): void
}

/** Takes the lock at once, or answers null when another process holds it. Throws when the file cannot be used at all. */
export function takeLock(file: string): Lock | null {
  let database: Database.Database
  try {
    database = new Database(file, { timeout: 0 })
  } catch (error) {
    throw unusable(file, error)
  }
  try {
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (isBusy(error)) return null
    throw unusable(file, error)
  }
  return {
    release() {
      if (database.open) database.close()
    },
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')
}

function unusable(file: string, error: unknown): RoomdError {
  const why = error instanceof Error ? error.message : String(error)
  return new RoomdError(
    'storage_failed',
    `cannot lock ${file}: ${why}; check that the folder is writable, and if the file is damaged remove it while no daemon runs`,
  )
}
