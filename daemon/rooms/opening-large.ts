/**
 * Opening a large notebook in two steps: its first page is shown as soon as the file worker has found where its first cells are;
 * meanwhile, and until all of it is stored, the room is not there for anybody else (loading.ts keeps those who see the page).
 *
 * Nothing large is copied, taken apart or made on the main thread: document, outputs and the file's text pass through it as references
 * to shared memory, from the file worker to the store's writer. What it does itself is apply the document's update, slice after slice.
 *
 * Invariants: what is shown of the first page has the ids under which it is being stored. The row names no path, and no snapshot, until
 * everything else of the room is committed, so that a making that does not come to its end is removed by who made it or by the next
 * daemon. A file that turns out to be invalid behind its first page is refused with the same error as ever, and what was stored of it goes again.
 */
import { basename, dirname } from 'node:path'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { Cell } from '../../protocol/notebook.ts'
import { Breathing } from '../breathing.ts'
import { loadDocumentInSlices } from '../documents/document.ts'
import type { NotebookHead } from '../documents/ipynb/head.ts'
import type { FileCell, NotebookFile } from '../documents/ipynb/read.ts'
import { slicedStatement, sliceStatements } from '../documents/journal.ts'
import { type DocumentHead, encodeHead, type FilePart, viewOfSeed } from '../documents/large-documents.ts'
import { SliceQueue } from '../documents/slice-queue.ts'
import { prepareFileOutputs, rowsOfCell, summaryOfCell } from '../executions/file-outputs.ts'
import { readShown, type ShownExecution } from '../executions/reading.ts'
import { ShownExecutions } from '../executions/shown-executions.ts'
import { faultPoint } from '../fault-points.ts'
import { BulkWriter } from '../store/bulk-writer.ts'
import type { Statement } from '../store/store.ts'
import { basePieces, baseRow } from './base-text.ts'
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
  readonly shown: ShownExecutions
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
  readonly #bulk: BulkWriter
  #building = new Building()
  /** Writes and preparations under way. */
  readonly #under: Promise<unknown>[] = []
  /** What the head's cells show, and what the others do. */
  readonly #first: ShownExecution[] = []
  #shown = new ShownExecutions()
  #slice = 0
  #head: NotebookHead | null = null
  #text: Uint8Array = new Uint8Array()
  #file: Omit<NotebookFile, 'cells'> | null = null
  #hash = ''
  #failed = false

  constructor(rooms: RoomsContext, record: RoomRecord, show: ShowPage) {
    this.#rooms = rooms
    this.#record = record
    this.#show = show
    this.#bulk = new BulkWriter(rooms.store)
    this.#wait(rooms.store.write([insertRecord({ ...record, path: null })]))
  }

  take(part: FilePart): void {
    if (this.#failed) return
    const { notebook_id, created_at } = this.#record
    switch (part.kind) {
      case 'head':
        this.#head = part.head
        this.#wait(this.#takeHead(part.head))
        break
      case 'text':
        this.#text = part.text
        for (const piece of basePieces(notebook_id, part.text)) this.#bulk.add([piece])
        break
      case 'slices':
        this.#building.slices.push(part.slices)
        this.#bulk.add(sliceStatements(notebook_id, this.#slice, part.slices))
        this.#slice += part.slices.length
        break
      case 'rows':
        this.#bulk.add([], part.packed)
        for (const [execution_id, cell_id, status, execution_count, source_hash] of part.shown) {
          const cell = { execution_id, cell_id, status, execution_count, source_hash }
          this.#shown.add({ cell_id, execution: summaryOfCell(notebook_id, cell, created_at) })
        }
        break
      case 'cells':
        for (const { cell, index } of part.cells) this.#wait(this.#takeCell(cell, index, this.#building))
        break
      case 'anew':
        this.#beginAnew()
        break
      case 'file':
        this.#file = part.file
        this.#hash = part.hash
        break
    }
  }

  /** All parts are there. */
  async finish(): Promise<LargeRoom> {
    this.#building.slices.end()
    await Promise.all(this.#under)
    await this.#bulk.done()
    const { store } = this.#rooms
    const record = this.#record
    if (!this.#head || !this.#file) throw new RoomdError('internal', 'a file was opened and not told')
    record.source = sourceOf(this.#file, this.#hash)
    const { metadata, total, cells } = this.#head
    const head = encodeHead({ metadata, total, cells: cells.map(viewOfSeed) })
    faultPoint('load:parts')
    const base = { hash: this.#hash, text: this.#text, cell_ids: null }
    const stored = store.write([
      baseRow(record.notebook_id, base),
      slicedStatement(record.notebook_id, record.doc_seq, head),
      updateBinding(record),
    ])
    // The last commit does not wait for the document, nor it for the commit.
    const [document] = await Promise.all([this.#building.document, stored])
    const parts = { record, document, ...partsAround(this.#rooms, record) }
    for (const first of this.#first) this.#shown.add(first)
    return { parts, shown: this.#shown }
  }

  /** After a failure: nothing of the room stays. What cannot be removed now, the next daemon removes. */
  async takeBack(error: unknown): Promise<void> {
    this.#failed = true
    this.#building.giveUp(error)
    this.#bulk.stop(error)
    await Promise.allSettled([...this.#under, this.#bulk.done()])
    const { notebook_id } = this.#record
    await this.#rooms.store
      .write([{ sql: 'DELETE FROM rooms WHERE notebook_id = ?', values: [notebook_id] }])
      .catch(() => {})
  }

  /** Without what was told of cells so far. The head stays, with the outputs of its cells. */
  #beginAnew(): void {
    const { notebook_id } = this.#record
    this.#building.giveUp(new RoomdError('internal', 'the file is read anew'))
    this.#building = new Building()
    this.#shown = new ShownExecutions()
    this.#slice = 0
    this.#bulk.add([
      { sql: 'DELETE FROM doc_slices WHERE notebook_id = ?', values: [notebook_id] },
      {
        sql: 'DELETE FROM executions WHERE notebook_id = ? AND queue_seq > ?',
        values: [notebook_id, this.#head?.cells.length ?? 0],
      },
    ])
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
      const place = places.get(one.cell_id) ?? 0
      const taken = rowsOfCell(record.notebook_id, one, record.created_at, place, statements)
      shown.set(one.cell_id, { execution: taken.summary, outputs: taken.outputs })
      this.#first.push({ cell_id: one.cell_id, execution: taken.summary })
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

  async #takeCell(cell: FileCell, index: number, building: Building): Promise<void> {
    const { blobs } = this.#rooms
    const { notebook_id, created_at } = this.#record
    const [prepared] = await prepareFileOutputs(blobs, [cell])
    if (!prepared || building !== this.#building) return
    const statements: Statement[] = []
    const { summary } = rowsOfCell(notebook_id, prepared, created_at, index + 1, statements)
    this.#shown.add({ cell_id: cell.cell_id, execution: summary })
    this.#bulk.add(statements)
  }

  #wait(work: Promise<unknown>): void {
    // Awaited at the end; until then it is nobody's, and must not count as unhandled.
    work.catch(() => {})
    this.#under.push(work)
  }
}

/** A document on its way. */
class Building {
  readonly slices = new SliceQueue()
  readonly document = loadDocumentInSlices(this.slices)

  constructor() {
    // Awaited when all slices are there; until then it is nobody's, and must not count as unhandled.
    this.document.catch(() => {})
  }

  giveUp(error: unknown): void {
    this.slices.fail(error)
    this.document.then((document) => document.dispose()).catch(() => {}) // told by what failed first
  }
}

/** The parts of a room whose large document is in the store. */
export async function loadLargeRoom(
  rooms: RoomsContext,
  record: RoomRecord,
  show: ShowPage,
): Promise<LargeRoom> {
  const packed: Uint8Array[] = []
  const slices = new SliceQueue()
  const document = loadDocumentInSlices(slices)
  document.catch(() => {}) // awaited below
  try {
    const found = await rooms.worker.load(record.notebook_id, (part) => {
      if (part.kind === 'slices') slices.push(part.slices)
      else if (part.kind === 'shown') packed.push(part.shown)
      else show(storedPage(rooms, record, decode(part.head) as DocumentHead, part.doc_seq))
    })
    if (!found) throw withoutDocument(record)
    slices.end()
  } catch (error) {
    slices.fail(error)
    throw error
  }
  const loaded = await document
  const shown = await unpack(packed)
  return { parts: { record, document: loaded, ...partsAround(rooms, record) }, shown }
}

async function unpack(packed: readonly Uint8Array[]): Promise<ShownExecutions> {
  const shown = new ShownExecutions()
  const breathing = new Breathing()
  for (const some of packed) {
    const text = Buffer.from(some).toString()
    for (const one of JSON.parse(text) as readonly ShownExecution[]) shown.add(one)
    if (breathing.due) await breathing.pause()
  }
  return shown
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
