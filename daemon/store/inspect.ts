/**
 * Is a file a sound store? Two depths. `quickLook` reads the header and touches every table: a few milliseconds whatever the
 * size. `deepCheck` is SQLite's quick_check, which reads every page: inline only for small files, else in a thread of its own.
 *
 * What neither can see: bytes changed inside a value. SQLite keeps no checksums of the database file.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import Database from 'better-sqlite3'
import { migrations } from './schema.ts'
import type { CheckResult } from './writer-messages.ts'

const MAGIC = 'SQLite format 3\0'

/** `reason` is short enough to become part of a file's name. */
export type Look =
  | { readonly state: 'absent' }
  | { readonly state: 'sound'; readonly version: number; readonly size: number }
  | { readonly state: 'newer'; readonly version: number }
  | { readonly state: 'damaged'; readonly reason: string; readonly detail: string }

/**
 * Changes nothing. Throws only what is no damage: no permission, a folder in the file's place. Files up to `readAllUpTo` bytes are read
 * through as `deepCheck` does.
 */
export function quickLook(file: string, readAllUpTo = 0): Look {
  const header = readHeader(file)
  if (header === null) return { state: 'absent' }
  if (header.bytes.toString('latin1', 0, 16) !== MAGIC)
    return { state: 'damaged', reason: 'header', detail: 'the file does not start as a database does' }
  const pageSize = header.bytes.readUInt16BE(16) === 1 ? 65536 : header.bytes.readUInt16BE(16)
  if (pageSize < 512 || (pageSize & (pageSize - 1)) !== 0)
    return { state: 'damaged', reason: 'header', detail: `page size ${pageSize} is impossible` }
  let db: Database.Database | null = null
  try {
    db = new Database(file, { readonly: true, fileMustExist: true })
    const version = Number(db.pragma('user_version', { simple: true }))
    if (version > migrations.length) return { state: 'newer', version }
    for (const { name } of db
      .prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .all())
      db.prepare(`SELECT 1 FROM "${name.replaceAll('"', '""')}" LIMIT 1`).get()
    if (header.size <= readAllUpTo) {
      const checked = readAll(db)
      if (!checked.ok) return { state: 'damaged', reason: 'check', detail: checked.reason }
    }
    return { state: 'sound', version, size: header.size }
  } catch (thrown) {
    if (isDamage(thrown)) return { state: 'damaged', reason: 'unreadable', detail: String(thrown) }
    throw thrown
  } finally {
    db?.close()
  }
}

/** Reads every page. Runs beside the writer: it sees one consistent state. */
export function deepCheck(file: string): CheckResult {
  let db: Database.Database | null = null
  try {
    db = new Database(file, { readonly: true, fileMustExist: true })
    return readAll(db)
  } catch (thrown) {
    return { ok: false, reason: thrown instanceof Error ? thrown.message : String(thrown) }
  } finally {
    db?.close()
  }
}

function readAll(db: Database.Database): CheckResult {
  try {
    const found = db.pragma('quick_check(1)', { simple: true })
    return found === 'ok' ? { ok: true } : { ok: false, reason: String(found) }
  } catch (thrown) {
    return { ok: false, reason: thrown instanceof Error ? thrown.message : String(thrown) }
  }
}

/** True for errors that say that the file's content is not what SQLite wrote. */
export function isDamage(thrown: unknown): boolean {
  return (
    thrown instanceof Database.SqliteError &&
    (thrown.code.startsWith('SQLITE_CORRUPT') || thrown.code.startsWith('SQLITE_NOTADB'))
  )
}

function readHeader(file: string): { bytes: Buffer; size: number } | null {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw thrown
  }
  try {
    const size = fstatSync(fd).size
    // A daemon that died while it made the file leaves it empty.
    if (size === 0) return null
    const bytes = Buffer.alloc(100)
    readSync(fd, bytes, 0, 100, 0)
    return { bytes, size }
  } finally {
    closeSync(fd)
  }
}
