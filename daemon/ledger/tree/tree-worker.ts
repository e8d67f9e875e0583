/** The thread that reads and writes trees for the ledger: files and JSON of any size, away from the daemon's loop. */
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { RoomdError, toWireError } from '../../../protocol/errors.ts'
import { connectionTransaction, type Reader } from '../../store/transaction.ts'
import { findSession } from '../rows/sessions.ts'
import { ClaimTimeout } from './claim.ts'
import type { ImportEntry } from './entry.ts'
import { readTree } from './read-tree.ts'
import { TreeFiles } from './tree-files.ts'
import type { FromLedgerWorker, LedgerWorkerData, ToLedgerWorker } from './worker-messages.ts'
import { TreeWriter, type Written } from './write-tree.ts'

/** One batch is one transaction of the store, which others wait for. */
const BATCH_ENTRIES = 50
const BATCH_CHARS = 512 * 1024

interface Reading {
  readonly entries: Generator<ImportEntry>
  readonly files: TreeFiles
}

const { storeFile } = workerData as LedgerWorkerData
const reading = new Map<number, Reading>()
/** What the index of the mirrored tree says of each session; a daemon has one mirror. */
const mirrored = new Map<string, string>()

function answer(message: FromLedgerWorker): void {
  parentPort?.postMessage(message)
}

function handle(message: ToLedgerWorker): void {
  const { id } = message
  switch (message.kind) {
    case 'import': {
      const files = new TreeFiles(message.quarantine)
      reading.set(id, { entries: entriesOf(message.roots, files), files })
      nextBatch(id)
      return
    }
    case 'go':
      nextBatch(id)
      return
    case 'export':
      answer({
        id,
        kind: 'written',
        written: withReader((reader) => new TreeWriter(reader, message.dir, message.options).all()),
      })
      return
    case 'mirror':
      answer({ id, kind: 'written', written: withReader((reader) => mirror(reader, message)) })
      return
  }
}

function* entriesOf(roots: readonly string[], files: TreeFiles): Generator<ImportEntry> {
  for (const root of roots) yield* readTree(root, files)
}

function nextBatch(id: number): void {
  const under = reading.get(id)
  if (!under) return
  const entries: ImportEntry[] = []
  for (let chars = 0; entries.length < BATCH_ENTRIES && chars < BATCH_CHARS; ) {
    const { value, done } = under.entries.next()
    if (done) break
    entries.push(value)
    chars += sizeOf(value)
  }
  if (entries.length > 0) {
    answer({ id, kind: 'batch', entries })
    return
  }
  reading.delete(id)
  answer({ id, kind: 'imported', report: under.files.report })
}

function sizeOf(entry: ImportEntry): number {
  if (entry.kind !== 'session') return entry.kind === 'state' ? entry.body.length : 0
  const { summaryJson, summaryMarkdown, record, flowTrace, tracker, saved, archived, contexts } = entry
  return [
    summaryJson?.text,
    summaryMarkdown?.text,
    record,
    flowTrace,
    tracker,
    ...[...saved, ...archived, ...contexts].map((file) => file.body),
  ].reduce((sum: number, text) => sum + (text?.length ?? 0), 0)
}

function mirror(reader: Reader, message: Extract<ToLedgerWorker, { kind: 'mirror' }>): Written {
  const { dir, options, changes } = message
  const writer = new TreeWriter(reader, dir, options, mirrored)
  const gone: string[] = []
  let sessions = 0
  for (const name of changes.names) {
    if (name.startsWith('state ')) {
      writer.state(name.slice('state '.length))
      continue
    }
    const row = findSession(reader, name)
    if (row && !changes.all) writer.session(row)
    if (row) continue
    writer.remove(name)
    gone.push(name)
    sessions++
  }
  if (changes.all) return writer.all(gone)
  writer.pointer()
  writer.index(gone, changes.names)
  return { sessions: sessions + changes.names.length - gone.length, files: writer.files }
}

/** One consistent state of the store. */
function withReader<T>(use: (reader: Reader) => T): T {
  const db = new Database(storeFile, { readonly: true, fileMustExist: true })
  try {
    return db.transaction(() => use(connectionTransaction(db)))()
  } finally {
    db.close()
  }
}

function failureOf(error: unknown): unknown {
  if (error instanceof ClaimTimeout) return new RoomdError('conflict', error.message, { retryable: true })
  const { code, path } = error as NodeJS.ErrnoException
  if (typeof code === 'string' && !(error instanceof RoomdError))
    return new RoomdError(
      code === 'ENOSPC' ? 'storage_full' : 'invalid_argument',
      `${path ?? 'a file'} could not be written or read: ${code}`,
      { cause: { path, code } },
    )
  return error
}

if (!isMainThread) {
  parentPort?.on('message', (message: ToLedgerWorker) => {
    try {
      handle(message)
    } catch (error) {
      reading.delete(message.id)
      answer({ id: message.id, kind: 'failed', error: toWireError(failureOf(error)) })
    }
  })
}
