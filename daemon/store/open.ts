/**
 * Opens the store. Owns what happens before the first read: finishing an interrupted recovery, checking, setting a damaged file
 * aside and recovering from it, refusing a newer schema, migrating. All of it on the calling thread, before the writer exists.
 *
 * How deep it checks: header and every table always (milliseconds). Every page at once only when the file is small; a large
 * file is read through by a thread in the background, which writes a note beside the file if it finds damage. The note, or an
 * error met in use, makes the store read-only, and the next opening recovers. So a start is fast whatever the size.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import type { Logger } from 'pino'
import { RoomdError } from '../../protocol/errors.ts'
import { programFile } from '../../protocol/programs.ts'
import { setUpConnection } from './connection.ts'
import { quickLook } from './inspect.ts'
import { migrate } from './migrate.ts'
import { finishRecovery, recover } from './recover.ts'
import { migrations } from './schema.ts'
import { SqliteStore } from './sqlite-store.ts'
import type { ProcedureStore } from './store.ts'
import type { CheckResult, WorkerData } from './writer-messages.ts'

export interface OpenOptions {
  /** Absolute path of the database; its folder is made. */
  readonly file: string
  readonly log: Logger
  /** Files up to this many bytes are read through before opening returns; reading takes about 1 ms per MB. */
  readonly checkInlineUpTo?: number
  /** For names of files that are set aside. */
  readonly now?: () => number
}

/**
 * Opens or makes the store. The caller holds the daemon's lock: two stores on one file are not guarded against here.
 * Rejects `unsupported` for a store of a newer version, which stays as it is; `storage_full` or `storage_failed` when the file
 * cannot be made, read or recovered.
 */
export async function openStore(options: OpenOptions): Promise<ProcedureStore> {
  const { file, log } = options
  // Found before anything is touched: a missing build must not leave a half-opened store.
  const program = programFile('store-writer')
  const note = `${file}.check-failed`
  const holes = holesNote(file)
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    finishRecovery(file)
    const recovered = examine(options, note)
    const store = new SqliteStore({
      file,
      db: prepare(file),
      log,
      recovered,
      incomplete: existsSync(holes),
      damaged: (reason) => leaveNote(note, reason, log),
    })
    const size = statSync(file).size
    if (size > inlineLimit(options)) checkInBackground(program, file, store, log)
    return store
  } catch (thrown) {
    throw toStorageError(file, thrown)
  }
}

const inlineLimit = (options: OpenOptions): number => options.checkInlineUpTo ?? 16 * 1024 * 1024

/** Returns what was recovered, in a sentence, or null when nothing had to be. */
function examine(options: OpenOptions, note: string): string | null {
  const { file, log } = options
  const noted = readNote(note)
  const look = quickLook(file, noted === null ? inlineLimit(options) : 0)
  let damage: { reason: string; detail: string } | null = null
  switch (look.state) {
    case 'absent':
      // A log without its database belongs to nothing that could be opened.
      for (const rest of ['-wal', '-shm']) rmSync(`${file}${rest}`, { force: true })
      break
    case 'newer':
      throw new RoomdError(
        'unsupported',
        `${file} was written by a newer roomd (schema ${look.version}; this one knows ${migrations.length}): update roomd, or set ROOMD_HOME to another folder; nothing was changed`,
        { cause: { file, schema: look.version, known: migrations.length } },
      )
    case 'damaged':
      damage = look
      break
    case 'sound':
      if (noted !== null) damage = { reason: 'check', detail: noted }
      break
  }
  if (damage === null) return null
  log.error({ file, ...damage }, 'the store is damaged; recovering what can be read')
  const result = recover(file, damage.reason, options.now?.() ?? Date.now(), (tables) =>
    leaveNote(holesNote(file), tables.join(', '), log),
  )
  rmSync(note, { force: true })
  const sentence = `the store was damaged (${damage.detail}); set aside as ${result.setAside}; recovered ${result.rows} rows${result.holes.length === 0 ? '' : `, not all of ${result.holes.join(', ')}`}`
  log.error({ ...result }, sentence)
  return sentence
}

/** Lies beside a store that a recovery left with holes, from then on: what it does not know is not thereby nobody's. */
function holesNote(file: string): string {
  return `${file}.recovered-with-holes`
}

/** The connection that the store reads with: a file that is closed in between makes SQLite take its log apart and begin anew. */
function prepare(file: string): Database.Database {
  const db = new Database(file)
  try {
    setUpConnection(db)
    migrate(db)
  } catch (thrown) {
    db.close()
    throw thrown
  }
  return db
}

function checkInBackground(program: string, file: string, store: SqliteStore, log: Logger): void {
  const data: WorkerData = { role: 'check', file }
  const worker = new Worker(program, { workerData: data })
  // A daemon that stops does not wait for the check; the next start begins it again.
  worker.unref()
  worker.once('message', (result: CheckResult) => {
    if (!result.ok) store.condemn(result.reason)
  })
  worker.once('error', (error) => log.warn({ error: error.message }, 'the store could not be checked'))
}

function leaveNote(note: string, reason: string, log: Logger): void {
  try {
    writeFileSync(note, reason, { mode: 0o600 })
  } catch (thrown) {
    log.error(
      { note, error: String(thrown) },
      'the damage could not be noted; the next start may not recover by itself',
    )
  }
}

function readNote(note: string): string | null {
  try {
    return readFileSync(note, 'utf8')
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw thrown
  }
}

function toStorageError(file: string, thrown: unknown): unknown {
  if (thrown instanceof RoomdError) return thrown
  if (!(thrown instanceof Error) || !('code' in thrown)) return thrown
  const code = String(thrown.code)
  const full = code === 'ENOSPC' || code.startsWith('SQLITE_FULL')
  return new RoomdError(
    full ? 'storage_full' : 'storage_failed',
    full
      ? `${file} cannot be opened: the disk is full; free some space and start again`
      : `${file} cannot be opened: ${thrown.message} (${code}); check owner and permissions of the folder`,
    { cause: { file, code } },
  )
}
