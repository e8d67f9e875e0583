/**
 * Sets a damaged store aside and recovers what can be read into a new one.
 *
 * Crash-safe by order: link the damaged files under their new names → read them into `<file>.recovering` → rename that to
 * `<file>.recovered` once it is complete and synced → remove the damaged log → rename onto `<file>`. A start that finds
 * `.recovered` goes on from there; one that finds `.recovering` begins again.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname } from 'node:path'
import Database from 'better-sqlite3'
import { migrate } from './migrate.ts'
import { salvage } from './salvage.ts'

export interface Recovery {
  /** Path of the damaged file under its new name; its log lies beside it. */
  readonly setAside: string
  /** Rows that are in the new store. */
  readonly rows: number
  /** Tables of which not every row could be read. */
  readonly holes: string[]
}

/** Completes a recovery that a crash interrupted after its result was whole. */
export function finishRecovery(file: string): void {
  for (const rest of ['', '-wal', '-shm', '-journal']) rmSync(`${file}.recovering${rest}`, { force: true })
  const recovered = `${file}.recovered`
  if (!existsSync(recovered)) return
  for (const rest of ['-wal', '-shm']) rmSync(`${file}${rest}`, { force: true })
  renameSync(recovered, file)
  syncFolder(dirname(file))
}

/** `reason`: one word for the name. `holes` hears of tables that are not whole before the new store is in place. Throws when the new store cannot be written; the damaged one is then still in place. */
export function recover(
  file: string,
  reason: string,
  now: number,
  holes: (tables: readonly string[]) => void = () => {},
): Recovery {
  const when = new Date(now).toISOString().replaceAll(':', '-')
  const setAside = `${file}.damaged-${when}-${reason.replace(/[^a-z0-9]+/gi, '-')}`
  for (const rest of ['', '-wal'])
    if (existsSync(`${file}${rest}`)) keep(`${file}${rest}`, `${setAside}${rest}`)
  syncFolder(dirname(file))

  const fresh = `${file}.recovering`
  const db = new Database(fresh)
  let found: { rows: number; holes: string[] }
  try {
    db.pragma('journal_mode = OFF')
    db.pragma('synchronous = OFF')
    migrate(db)
    found = salvage(setAside, db)
  } finally {
    db.close()
  }
  // What reading it left beside it.
  rmSync(`${setAside}-shm`, { force: true })
  if (statSync(`${setAside}-wal`, { throwIfNoEntry: false })?.size === 0) rmSync(`${setAside}-wal`)
  syncFile(fresh)
  if (found.holes.length > 0) holes(found.holes)
  renameSync(fresh, `${file}.recovered`)
  finishRecovery(file)
  return { setAside: basename(setAside), ...found }
}

/** A second name for the same file; where links do not exist, a copy. */
function keep(file: string, as: string): void {
  try {
    linkSync(file, as)
  } catch {
    copyFileSync(file, as)
  }
}

function syncFile(file: string): void {
  const fd = openSync(file, 'r+')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

function syncFolder(folder: string): void {
  // Windows cannot open a folder; its renames are journaled by the file system.
  if (process.platform === 'win32') return
  const fd = openSync(folder, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
