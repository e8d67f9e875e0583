/**
 * What the file worker does to open a large notebook: from its file, or from the store. It tells what it has as soon as it has it, in
 * an order that lets others begin: how the notebook begins, for the first page; the file's text, to be stored; then, while cell after
 * cell is parsed, pieces of the document's update and rows of outputs side by side, for the threads that take them in; last what
 * only completes the record.
 *
 * Everything large is in shared memory, so that handing it on costs the main thread nothing, however often it is handed on.
 *
 * Judging: a file that is told in pieces is an ordinary one as far as it was read (ipynb/pieces.ts). One that turns out not to be is
 * read as a whole, and if it can be opened all the same, what was told of its document and outputs is called back and told anew;
 * if it cannot, the reader's error is the answer. Rules of the format, which only warn, are told last.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { encode } from '../../protocol/codec.ts'
import { PROJECTION_PAGE } from '../../protocol/frames.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import { prepareSmallOutputs, rowsOfCell } from '../executions/file-outputs.ts'
import { readAllShown } from '../executions/reading.ts'
import type { DocumentCellView } from '../rooms/parts.ts'
import { RowPacker, shared } from '../store/packed-rows.ts'
import type { Statement } from '../store/store.ts'
import type { Reader } from '../store/transaction.ts'
import { asSeed, foundingSlices } from './founding-update.ts'
import { type NotebookHead, readScanned } from './ipynb/head.ts'
import { NotebookPieces, OutOfOrdinary } from './ipynb/pieces.ts'
import { type FileCell, type NotebookFile, readNotebookFirst } from './ipynb/read.ts'
import { readTail } from './journal.ts'
import { fileError, hashBytes } from './save.ts'
import { sourceHash } from './source-hash.ts'
import { UpdateSlicer } from './update-slices.ts'

/** How a document begins: enough for its first page. */
export interface DocumentHead {
  readonly metadata: Record<string, unknown>
  readonly total: number
  readonly cells: readonly DocumentCellView[]
}

/** The first page ends at this many bytes of the file's text, or at 200 cells. */
export const HEAD_SIZE = { cells: PROJECTION_PAGE, bytes: 128 * 1024 }

/** What opening a file tells, in this order; `slices`, `rows` and `cells` many times and mixed. */
export type FilePart =
  | { readonly kind: 'head'; readonly head: NotebookHead }
  /** The file's bytes. */
  | { readonly kind: 'text'; readonly text: Uint8Array }
  | { readonly kind: 'slices'; readonly slices: readonly Uint8Array[] }
  /** Packed statements of outputs, and what their cells then show; none of those of the head's cells. */
  | { readonly kind: 'rows'; readonly packed: Uint8Array; readonly shown: readonly ShownOutputs[] }
  /** Cells with values that must become blobs, and their places in the notebook. */
  | { readonly kind: 'cells'; readonly cells: readonly { readonly cell: FileCell; readonly index: number }[] }
  /** Slices, rows and cells told so far are void, and are told again from the first on. */
  | { readonly kind: 'anew' }
  | { readonly kind: 'file'; readonly file: Omit<NotebookFile, 'cells'>; readonly hash: string }

/** An execution that came with the file, in what `summaryOfCell` needs: thousands of them cross to the main thread. */
export type ShownOutputs = readonly [
  execution_id: ExecutionId,
  cell_id: CellId,
  status: 'done' | 'error',
  execution_count: number | null,
  source_hash: string,
]

/** What loading from the store tells. `head`: as of the snapshot; what came behind it may have changed those cells. */
export type StoredPart =
  | { readonly kind: 'stored_head'; readonly head: Uint8Array; readonly doc_seq: number }
  | { readonly kind: 'slices'; readonly slices: readonly Uint8Array[] }
  /** JSON of a list of ShownExecution, which is taken apart several times faster than anything else. */
  | { readonly kind: 'shown'; readonly shown: Uint8Array }

export interface FileRequest {
  readonly path: string
  readonly notebook_id: NotebookId
  /** Epoch ms, for the rows. */
  readonly now: number
}

/** Bytes of slices, and of rows, that are told at once. Rows of one message are one transaction: a few milliseconds of the writer. */
const BATCH_BYTES = 256 * 1024

/** Throws what is wrong with the file, as reading a small one does. */
export function openFile(request: FileRequest, tell: (part: FilePart) => void): void {
  const { path } = request
  const bytes = readWhole(path)
  const scanned = readScanned(bytes, path, HEAD_SIZE)
  if (scanned) {
    tell({ kind: 'head', head: scanned.head })
    tell({ kind: 'text', text: bytes })
    try {
      const pieces = new NotebookPieces(bytes, path, scanned.parts)
      tellContent(request, pieces.notebook, pieces.cells(), scanned.head, tell)
      const file = { ...pieces.notebook, warnings: pieces.warnings() }
      tell({ kind: 'file', file, hash: hashBytes(bytes) })
      return
    } catch (thrown) {
      if (!(thrown instanceof OutOfOrdinary)) throw thrown
    }
  }
  const { file, rest } = readNotebookFirst(bytes, path)
  const { cells, ...plain } = file
  const head = scanned?.head ?? headOf(file)
  if (scanned) tell({ kind: 'anew' })
  else {
    tell({ kind: 'head', head })
    tell({ kind: 'text', text: bytes })
  }
  tellContent(request, plain, cells, head, tell)
  tell({ kind: 'file', file: { ...plain, warnings: rest() }, hash: hashBytes(bytes) })
}

/** Document and outputs, as far as the cells come. */
function tellContent(
  { notebook_id, now }: FileRequest,
  notebook: Pick<NotebookFile, 'nbformat' | 'nbformat_minor' | 'metadata'>,
  cells: Iterable<FileCell>,
  head: NotebookHead,
  tell: (part: FilePart) => void,
): void {
  const rows = new OutputRows(notebook_id, now, tell)
  const withRows = function* (): Generator<FileCell> {
    let index = 0
    for (const cell of cells) {
      yield cell
      // Those of the head are stored as it is shown.
      if (index >= head.cells.length) rows.add(cell, index)
      index++
    }
  }
  let batch: Uint8Array[] = []
  let size = 0
  const flush = (): void => {
    if (batch.length > 0) tell({ kind: 'slices', slices: together(batch) })
    batch = []
    size = 0
  }
  for (const { update } of foundingSlices({ ...asSeed(notebook), cells: withRows() })) {
    batch.push(update)
    size += update.length
    if (size >= BATCH_BYTES) flush()
  }
  flush()
  rows.flush()
}

/** What the store has of a document. false: nothing. */
export function loadStored(
  store: Pick<Reader, 'all' | 'get'>,
  notebookId: NotebookId,
  tell: (part: StoredPart) => void,
): boolean {
  const snapshot = store.get<{ doc_seq: number; body: Uint8Array; head: Uint8Array | null }>(
    'SELECT doc_seq, body, head FROM doc_snapshots WHERE notebook_id = ?',
    notebookId,
  )
  if (snapshot?.head) tell({ kind: 'stored_head', head: snapshot.head, doc_seq: snapshot.doc_seq })
  let any = snapshot !== undefined
  for (const slices of storedSlices(store, notebookId)) tell({ kind: 'slices', slices })
  const slicer = new UpdateSlicer()
  if (snapshot && snapshot.body.length > 0) {
    const slices = [...slicer.slices(snapshot.body)]
    tell({ kind: 'slices', slices: together(slices) })
  }
  const tail = readTail(store, notebookId, snapshot?.doc_seq ?? 0)
  if (tail.length > 0) {
    any = true
    const updates = tail.map(({ body }) => body)
    tell({ kind: 'slices', slices: together(updates) })
  }
  for (const shown of readAllShown(store, notebookId))
    tell({ kind: 'shown', shown: shared(Buffer.from(JSON.stringify(shown))) })
  return any
}

/** Rows and not one large value: none of them keeps anybody waiting. */
function* storedSlices(store: Pick<Reader, 'all'>, notebookId: NotebookId): Generator<readonly Uint8Array[]> {
  const some = Math.ceil(BATCH_BYTES / (32 * 1024))
  for (let after = -1; ; ) {
    const rows = store.all<{ slice: number; body: Uint8Array }>(
      'SELECT slice, body FROM doc_slices WHERE notebook_id = ? AND slice > ? ORDER BY slice LIMIT ?',
      notebookId,
      after,
      some,
    )
    const last = rows.at(-1)
    if (!last) return
    after = last.slice
    const slices = rows.map(({ body }) => body)
    yield together(slices)
  }
}

/** What the store keeps of how a document begins. */
export function encodeHead(head: DocumentHead): Uint8Array {
  return encode(head)
}

export function viewOfSeed({
  cell_id,
  cell_type,
  source,
  metadata,
  attachments,
}: FileCell): DocumentCellView {
  return {
    cell_id,
    cell_type,
    source,
    source_hash: sourceHash(source),
    metadata: { ...metadata },
    ...(attachments ? { attachments: { ...attachments } } : {}),
  }
}

function headOf({ metadata, cells }: Omit<NotebookFile, 'warnings'>): NotebookHead {
  const first: FileCell[] = []
  let bytes = 0
  for (const cell of cells) {
    if (first.length >= HEAD_SIZE.cells || bytes >= HEAD_SIZE.bytes) break
    first.push(cell)
    bytes += cell.source.length + JSON.stringify(cell.outputs).length
  }
  return { metadata, cells: first, total: cells.length }
}

/** Rows of outputs, as `RoomExecutions.takeFileOutputs` makes them; places in the notebook are places in the room's queue. */
class OutputRows {
  readonly #notebookId: NotebookId
  readonly #now: number
  readonly #tell: (part: FilePart) => void
  readonly #packer = new RowPacker()
  #shown: ShownOutputs[] = []

  constructor(notebookId: NotebookId, now: number, tell: (part: FilePart) => void) {
    this.#notebookId = notebookId
    this.#now = now
    this.#tell = tell
  }

  add(cell: FileCell, index: number): void {
    const prepared = prepareSmallOutputs(cell)
    if (prepared === null) return
    if (prepared === 'large') {
      this.#tell({ kind: 'cells', cells: [{ cell, index }] })
      return
    }
    const statements: Statement[] = []
    rowsOfCell(this.#notebookId, prepared, this.#now, index + 1, statements)
    for (const statement of statements) this.#packer.add(statement)
    const { execution_id, cell_id, status, execution_count, source_hash } = prepared
    this.#shown.push([execution_id, cell_id, status, execution_count, source_hash])
    if (this.#packer.size >= BATCH_BYTES) this.flush()
  }

  flush(): void {
    const packed = this.#packer.take()
    if (packed) this.#tell({ kind: 'rows', packed, shown: this.#shown })
    this.#shown = []
  }
}

/** A file's bytes in shared memory. */
export function readWhole(path: string): Uint8Array {
  try {
    const file = openSync(path, 'r')
    try {
      const bytes = new Uint8Array(new SharedArrayBuffer(fstatSync(file).size))
      let at = 0
      // A file that becomes shorter meanwhile ends early; what was added is seen by the watch.
      for (let read = 1; read > 0 && at < bytes.length; at += read)
        read = readSync(file, bytes, at, bytes.length - at, at)
      return at === bytes.length ? bytes : shared(bytes.subarray(0, at))
    } finally {
      closeSync(file)
    }
  } catch (thrown) {
    throw fileError(path, thrown, 'read')
  }
}

/** Copies that lie side by side in one piece of shared memory. */
function together(parts: readonly Uint8Array[]): Uint8Array[] {
  const memory = new SharedArrayBuffer(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  return parts.map((part) => {
    const copy = new Uint8Array(memory, at, part.length)
    copy.set(part)
    at += part.length
    return copy
  })
}
