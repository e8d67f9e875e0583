/**
 * Opening a large notebook in two steps: its first page is shown as soon as the file worker has found where its first cells are;
 * meanwhile, and until all of it is stored, the room is not there for anybody else (loading.ts keeps those who see the page).
 *
 * Nothing large is copied, taken apart or made on the main thread: document, outputs and the file's text pass through it as references
 * to shared memory, from the file worker to the store's writer. What it does itself is apply the document's update, slice after slice.
 *
 * Invariants: what is shown of the first page has the ids under which it is being stored. The row names no path, and no snapshot, until
 * everything else of the room is committed, so that a making that does not come to its end is removed by who made it or by the next
 * daemon. A file that turns out to be invalid behind its first page is refused with the same error as ever; by the order in which the
 * worker judges, nothing of it was stored but the row and the outputs of that page, which go again.
 */
import { basename, dirname } from 'node:path'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { Cell, ExecutionSummary } from '../../protocol/notebook.ts'
import { loadDocumentInSlices } from '../documents/document.ts'
import type { NotebookHead } from '../documents/ipynb/head.ts'
import type { NotebookFile } from '../documents/ipynb/read.ts'
import { slicedStatement, sliceStatements } from '../documents/journal.ts'
import { type DocumentHead, encodeHead, type FilePart, viewOfSeed } from '../documents/large-documents.ts'
import { SliceQueue } from '../documents/slice-queue.ts'
import { prepareFileOutputs, takeRows } from '../executions/file-outputs.ts'
import { readShown, type ShownExecution } from '../executions/reading.ts'
import { faultPoint } from '../fault-points.ts'
import type { Statement } from '../store/store.ts'
import { baseRows } from './base-text.ts'
import { newRecord, partsAround, sourceOf, withoutDocument } from './opening.ts'
import type { RoomParts } from './room.ts'
import { insertRecord, type RoomRecord, updateBinding } from './room-record.ts'
import type { RoomsContext } from './rooms-context.ts'

/** The beginning of a room that is not there yet. */
export interface FirstPage {
  readonly record: Readonly<RoomRecord>
  readonly metadata: Record<string, unknown>
  readonly total: number
  readonly cells: readonly Cell[]
  /** Of the document as the page has it. */
  readonly doc_seq: number
}

/** A large room that is in the store, and what its cells show. */
export interface LargeRoom {
  readonly parts: RoomParts
  readonly shown: readonly ShownExecution[]
}

/** Called once at most. */
export type ShowPage = (page: FirstPage) => void

/** Of the room that a file at this path (canonical) becomes. */
export function recordOfFile(rooms: RoomsContext, path: string): RoomRecord {
  return newRecord(rooms, {
    path,
    kind: 'in-place',
    title: basename(path),
    working_dir: dirname(path),
    source: { state: 'loading' },
  })
}

/** Reads a large file into a new room, which is durable when this resolves. Rejects with what is wrong with the file, and where. */
export async function openLargeFile(
  rooms: RoomsContext,
  record: RoomRecord,
  path: string,
  show: ShowPage,
): Promise<LargeRoom> {
  const making = new Making(rooms, record, show)
  try {
    await rooms.worker.openFile({ path, notebook_id: record.notebook_id, now: record.created_at }, (part) =>
      making.take(part),
    )
    return await making.finish()
  } catch (error) {
    await making.takeBack(error)
    throw error
  }
}

class Making {
  readonly #rooms: RoomsContext
  readonly #record: RoomRecord
  readonly #show: ShowPage
  readonly #slices = new SliceQueue()
  readonly #document = loadDocumentInSlices(this.#slices)
  /** Writes and preparations under way. */
  readonly #under: Promise<unknown>[] = []
  readonly #shown: ShownExecution[] = []
  #slice = 0
  #head: NotebookHead | null = null
  #hash = ''
  #file: Omit<NotebookFile, 'cells'> | null = null
  #failed = false

  constructor(rooms: RoomsContext, record: RoomRecord, show: ShowPage) {
    this.#rooms = rooms
    this.#record = record
    this.#show = show
    this.#wait(this.#document)
    this.#wait(rooms.store.write([insertRecord({ ...record, path: null })]))
  }

  take(part: FilePart): void {
    if (this.#failed) return
    const { store } = this.#rooms
    const { notebook_id } = this.#record
    switch (part.kind) {
      case 'head':
        this.#head = part.head
        this.#wait(this.#takeHead(part.head))
        break
      case 'text': {
        const { text, hash } = part
        this.#hash = hash
        this.#wait(store.writeShared(baseRows(notebook_id, { hash, text, cell_ids: null })))
        break
      }
      case 'slices':
        this.#slices.push(part.slices)
        this.#wait(store.writeShared(sliceStatements(notebook_id, this.#slice, part.slices)))
        this.#slice += part.slices.length
        break
      case 'rows':
        this.#wait(store.writeShared([], part.packed))
        for (const execution of part.shown) this.#noteShown(execution)
        break
      case 'cells':
        for (const { cell, index } of part.cells) this.#wait(this.#takeCell(cell, index))
        break
      case 'file':
        this.#file = part.file
        break
    }
  }

  /** All parts are there. */
  async finish(): Promise<LargeRoom> {
    this.#slices.end()
    await Promise.all(this.#under)
    const { store } = this.#rooms
    const record = this.#record
    if (!this.#head || !this.#file) throw new RoomdError('internal', 'a file was opened and not told')
    record.source = sourceOf(this.#file, this.#hash)
    const { metadata, total, cells } = this.#head
    const head = encodeHead({ metadata, total, cells: cells.map(viewOfSeed) })
    faultPoint('load:parts')
    await store.write([slicedStatement(record.notebook_id, record.doc_seq, head), updateBinding(record)])
    const parts = { record, document: await this.#document, ...partsAround(this.#rooms, record) }
    return { parts, shown: this.#shown }
  }

  /** After a failure: nothing of the room stays. What cannot be removed now, the next daemon removes. */
  async takeBack(error: unknown): Promise<void> {
    this.#failed = true
    this.#slices.fail(error)
    await Promise.allSettled(this.#under)
    this.#document.then((document) => document.dispose()).catch(() => {}) // told by what failed first
    const { notebook_id } = this.#record
    await this.#rooms.store
      .write([{ sql: 'DELETE FROM rooms WHERE notebook_id = ?', values: [notebook_id] }])
      .catch(() => {})
  }

  /** Stores the outputs of the first cells, and shows them. */
  async #takeHead({ metadata, total, cells }: NotebookHead): Promise<void> {
    const { blobs, store } = this.#rooms
    const record = this.#record
    const places = new Map(cells.map(({ cell_id }, index) => [cell_id, index + 1]))
    const prepared = await prepareFileOutputs(blobs, cells)
    const shown = new Map<string, Pick<Cell, 'execution' | 'outputs'>>()
    const statements: Statement[] = []
    for (const one of prepared) {
      const taken = takeRows(record.notebook_id, [one], record.created_at, () => places.get(one.cell_id) ?? 0)
      statements.push(...taken.statements)
      for (const { summary, outputs } of taken.entries.values()) {
        shown.set(one.cell_id, { execution: summary, outputs })
        this.#noteShown(summary)
      }
    }
    if (this.#failed) return
    this.#show({
      record,
      metadata,
      total,
      cells: cells.map((cell) => ({ ...viewOfSeed(cell), outputs: [], ...shown.get(cell.cell_id) })),
      doc_seq: record.doc_seq,
    })
    await store.write(statements)
  }

  async #takeCell(cell: NotebookHead['cells'][number], index: number): Promise<void> {
    const { blobs, store } = this.#rooms
    const { notebook_id, created_at } = this.#record
    const prepared = await prepareFileOutputs(blobs, [cell])
    const { statements, entries } = takeRows(notebook_id, prepared, created_at, () => index + 1)
    for (const { summary } of entries.values()) this.#noteShown(summary)
    await store.write(statements)
  }

  #noteShown(execution: ExecutionSummary): void {
    if (execution.cell_id !== null) this.#shown.push({ cell_id: execution.cell_id, execution })
  }

  #wait(work: Promise<unknown>): void {
    // Awaited at the end; until then it is nobody's, and must not count as unhandled.
    work.catch(() => {})
    this.#under.push(work)
  }
}

/** The parts of a room whose large document is in the store. */
export async function loadLargeRoom(
  rooms: RoomsContext,
  record: RoomRecord,
  show: ShowPage,
): Promise<LargeRoom> {
  const shown: ShownExecution[] = []
  const slices = new SliceQueue()
  const document = loadDocumentInSlices(slices)
  document.catch(() => {}) // awaited below
  try {
    const found = await rooms.worker.load(record.notebook_id, (part) => {
      if (part.kind === 'slices') slices.push(part.slices)
      else if (part.kind === 'shown') shown.push(...part.shown)
      else show(storedPage(rooms, record, decode(part.head) as DocumentHead, part.doc_seq))
    })
    if (!found) throw withoutDocument(record)
    slices.end()
  } catch (error) {
    slices.fail(error)
    throw error
  }
  return { parts: { record, document: await document, ...partsAround(rooms, record) }, shown }
}

/** The document as of its snapshot, with what its cells show now. */
function storedPage(
  { store }: RoomsContext,
  record: RoomRecord,
  { metadata, total, cells }: DocumentHead,
  doc_seq: number,
): FirstPage {
  return {
    record,
    metadata,
    total,
    cells: cells.map((view) => ({ ...view, ...readShown(store, record.notebook_id, view.cell_id) })),
    doc_seq,
  }
}
