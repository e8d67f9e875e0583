/** The thread for heavy work on documents: parsing and writing large files, folding journals. One task at a time, in order. */
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import * as Y from 'yjs'
import { toWireError } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import { asSeed, foundingUpdate } from './founding-update.ts'
import { readNotebook } from './ipynb/read.ts'
import { type WriteCell, writeNotebook } from './ipynb/write.ts'
import { readJournal } from './journal.ts'
import type { CellSeed } from './layout.ts'
import { mergeFile } from './merge/merge-file.ts'
import { sizeOf } from './size.ts'
import { UpdateSlicer } from './update-slices.ts'
import { type Folded, type FromWorker, pieces, type ToWorker, type WorkerData } from './worker-messages.ts'

/** Reads one consistent state and lets go of the store again. */
function readStored(storeFile: string, notebookId: NotebookId): ReturnType<typeof readJournal> {
  const db = new Database(storeFile, { readonly: true, fileMustExist: true })
  try {
    const read = db.transaction(() =>
      readJournal(
        {
          all: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).all(...values) as Row[],
          get: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).get(...values) as Row | undefined,
        },
        notebookId,
      ),
    )
    return read()
  } finally {
    db.close()
  }
}

function fold(storeFile: string, notebookId: NotebookId): Folded | null {
  const stored = readStored(storeFile, notebookId)
  if (stored === null || stored.updates.length === 0) return null
  return {
    body: merge(stored.snapshot, stored.updates),
    doc_seq: stored.doc_seq,
    updates: stored.updates.length,
    bytes: stored.updates.reduce((sum, update) => sum + update.length, 0),
  }
}

/** What the store has of a document, in slices for the main thread. */
function load(storeFile: string, notebookId: NotebookId): Uint8Array[] | null {
  const stored = readStored(storeFile, notebookId)
  if (stored === null) return null
  const slicer = new UpdateSlicer()
  const slices = stored.snapshot === null ? [] : [...slicer.slices(stored.snapshot)]
  if (stored.updates.length > 0) slices.push(...slicer.slices(Y.mergeUpdates([...stored.updates])))
  return slices
}

/**
 * One update that has the effect of all; contents of what was deleted are gone from it. What waits for predecessors that are
 * lost is in it too, waiting.
 */
function merge(snapshot: Uint8Array | null, updates: readonly Uint8Array[]): Uint8Array {
  const doc = new Y.Doc()
  doc.transact(() => {
    if (snapshot) Y.applyUpdate(doc, snapshot)
    for (const update of updates) Y.applyUpdate(doc, update)
  })
  const body = Y.encodeStateAsUpdate(doc)
  doc.destroy()
  return body
}

if (!isMainThread && parentPort) {
  const port = parentPort
  const { storeFile } = workerData as WorkerData
  const cells = new Map<number, CellSeed[]>()
  const tell = (message: FromWorker, transfer: ArrayBufferLike[] = []): void =>
    port.postMessage(message, transfer as ArrayBuffer[])

  const work = (message: ToWorker): void => {
    const { id } = message
    switch (message.kind) {
      case 'read': {
        const { cells: read, ...file } = readNotebook(message.bytes, message.path, message.ids)
        for (const piece of pieces(read, sizeOf)) tell({ id, kind: 'cells', cells: piece })
        const founding = message.founding ? foundingUpdate(asSeed({ ...file, cells: read })) : null
        const buffers = founding ? [founding.whole, ...founding.slices].map((part) => part.buffer) : []
        tell({ id, kind: 'read', file, founding }, buffers)
        break
      }
      case 'load': {
        const slices = load(storeFile, message.notebookId)
        tell(
          { id, kind: 'loaded', slices },
          slices?.map((slice) => slice.buffer),
        )
        break
      }
      case 'cells':
        cells.set(id, [...(cells.get(id) ?? []), ...message.cells])
        break
      case 'write': {
        // What came before a write are its cells.
        const written = writeNotebook({ ...message.request, cells: (cells.get(id) ?? []) as WriteCell[] })
        cells.delete(id)
        tell({ id, kind: 'written', written }, [written.bytes.buffer])
        break
      }
      case 'merge': {
        const merged = mergeFile({ ...message.request, cells: cells.get(id) ?? [] })
        cells.delete(id)
        tell({ id, kind: 'merged', merged })
        break
      }
      case 'fold': {
        const folded = fold(storeFile, message.notebookId)
        tell({ id, kind: 'folded', folded }, folded ? [folded.body.buffer] : [])
        break
      }
    }
  }
  port.on('message', (message: ToWorker) => {
    try {
      work(message)
    } catch (thrown) {
      cells.delete(message.id)
      tell({ id: message.id, kind: 'failed', error: toWireError(thrown) })
    }
  })
}
