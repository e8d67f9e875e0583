/** The thread for heavy work on documents: parsing and writing large files, opening large notebooks, folding journals. One task at a time, in order. */
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import * as Y from 'yjs'
import { toWireError } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { DocumentCellView } from '../rooms/parts.ts'
import { shared } from '../store/packed-rows.ts'
import type { Reader } from '../store/transaction.ts'
import { keptOf } from './document.ts'
import { readNotebook } from './ipynb/read.ts'
import { type WriteCell, writeNotebook } from './ipynb/write.ts'
import { readJournal } from './journal.ts'
import {
  type DocumentHead,
  encodeHead,
  HEAD_SIZE,
  loadStored,
  openFile,
  readWhole,
} from './large-documents.ts'
import { type CellSeed, cellsOf, defineRoots, metaOf, plain, sourceOf, viewOf } from './layout.ts'
import { mergeFile } from './merge/merge-file.ts'
import { hashBytes } from './save.ts'
import { sizeOf } from './size.ts'
import { UpdateSlicer } from './update-slices.ts'
import { type Folded, type FromWorker, pieces, type ToWorker, type WorkerData } from './worker-messages.ts'

/** Reads one consistent state and lets go of the store again. */
function reading<Result>(storeFile: string, read: (store: Pick<Reader, 'all' | 'get'>) => Result): Result {
  const db = new Database(storeFile, { readonly: true, fileMustExist: true })
  try {
    const store = {
      all: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).all(...values) as Row[],
      get: <Row>(sql: string, ...values: unknown[]) => db.prepare(sql).get(...values) as Row | undefined,
    }
    return db.transaction(() => read(store))()
  } finally {
    db.close()
  }
}

/** Bytes of a document from which on its snapshot is kept in slices. */
const SLICED_FROM = 64 * 1024

function fold(storeFile: string, notebookId: NotebookId): Folded | null {
  const stored = reading(storeFile, (store) => readJournal(store, notebookId))
  if (stored === null || stored.updates.length === 0) return null
  const doc = new Y.Doc()
  defineRoots(doc)
  doc.transact(() => {
    for (const update of keptOf(stored)) Y.applyUpdate(doc, update)
  })
  const body = Y.encodeStateAsUpdate(doc)
  const sliced =
    body.length < SLICED_FROM
      ? null
      : { slices: [...new UpdateSlicer().slices(body)].map(shared), head: encodeHead(headOfDocument(doc)) }
  doc.destroy()
  return {
    body: sliced ?? shared(body),
    doc_seq: stored.doc_seq,
    updates: stored.updates.length,
    bytes: stored.updates.reduce((sum, update) => sum + update.length, 0),
  }
}

function headOfDocument(doc: Y.Doc): DocumentHead {
  const cells: DocumentCellView[] = []
  let bytes = 0
  for (const cell of cellsOf(doc)) {
    if (cells.length >= HEAD_SIZE.cells || bytes >= HEAD_SIZE.bytes) break
    const view = viewOf(cell, sourceOf(cell).toString())
    cells.push(view)
    bytes += view.source.length
  }
  return { metadata: plain(metaOf(doc).get('metadata')), total: cellsOf(doc).length, cells }
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
        tell({ id, kind: 'read', file })
        break
      }
      case 'open_file': {
        openFile(message.request, (part) => tell({ id, kind: 'part', part }))
        tell({ id, kind: 'done', found: true })
        break
      }
      case 'load': {
        const { notebookId } = message
        const found = reading(storeFile, (store) =>
          loadStored(store, notebookId, (part) => tell({ id, kind: 'part', part })),
        )
        tell({ id, kind: 'done', found })
        break
      }
      case 'hash':
        tell({ id, kind: 'hashed', hash: hashBytes(readWhole(message.path)) })
        break
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
        tell({ id, kind: 'folded', folded })
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
