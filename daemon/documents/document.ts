/**
 * The shared document of one room. Owns the Yjs document and what is derived from it: the order of cells, the index by id, the
 * view of each cell.
 *
 * Invariants: the layout of layout.ts always holds, and cell ids are unique. A peer's update is applied, judged by what it
 * touched, and taken back when it breaks the layout. Yjs cannot take back, so the document is then built anew from the bytes
 * it keeps: what it was loaded from and every update since. Honest peers never pay for that.
 *
 * A document at rest is only those bytes, as one update; whatever is asked of it next builds it again. Its ids, its state vector and its
 * content are the same before and after.
 */
import * as Y from 'yjs'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellChange, CellsDelta } from '../../protocol/events.ts'
import type { CellId } from '../../protocol/ids.ts'
import { Breathing } from '../breathing.ts'
import { keepPausesShort } from '../heap.ts'
import type {
  DocumentCellView,
  DocumentChange,
  DocumentEdit,
  EditOutcome,
  RoomDocument,
} from '../rooms/parts.ts'
import { CellList } from './cell-list.ts'
import { cellAround, cellChanges, cellsDelta, type Event, stepDelta, textChanges } from './changes.ts'
import { separateDuplicates } from './duplicates.ts'
import { checkHistory } from './foreign-history.ts'
import {
  type CellMap,
  type CellSeed,
  cellsOf,
  checkCell,
  checkMeta,
  defineRoots,
  makeCell,
  makeMap,
  metaOf,
  plain,
  setMapValues,
  viewOf,
} from './layout.ts'
import {
  type DocumentOperation,
  nothingPerformed,
  type Performed,
  perform,
  planOperations,
} from './operations.ts'
import {
  type ChangedType,
  checkClosed,
  checkReach,
  checkTouched,
  isPending,
  outOfReach,
} from './remote-update.ts'
import { UpdateLog } from './update-log.ts'

const NONE: ReadonlySet<CellId> = new Set()

/** Bytes of updates behind the base after which the whole is encoded anew: more than twice the base, and never below this. */
const REBASE_BYTES = 4 * 1024 * 1024

/** A document of more bytes does not rest: to build it again would keep other rooms waiting. */
const MOST_AT_REST = 64 * 1024

/** Yjs items, and bytes with all updates, of a document that is encoded at once: in 4 ms at most, once in hundreds of updates. */
const MOST_AT_ONCE_ITEMS = 20_000
const MOST_AT_ONCE_BYTES = 2 * 1024 * 1024

/** A notebook as it enters a new document. */
export interface DocumentSeed {
  readonly nbformat: number
  readonly nbformat_minor: number
  readonly metadata: Readonly<Record<string, unknown>>
  readonly cells: readonly CellSeed[]
}

/** What the store has of a document: `snapshot` covers all updates before those of `updates`, which are in order. */
export interface StoredDocument {
  readonly snapshot: Uint8Array | null
  /** The snapshot of a large document, each slice builds on those before it. */
  readonly slices?: readonly Uint8Array[]
  readonly updates: readonly Uint8Array[]
}

/** A new document. Its content so far is `updateSince()`, which is to be journaled as the first update or snapshot. */
export function createDocument(seed: DocumentSeed): NotebookDocument {
  const doc = newDoc()
  doc.transact(() => {
    const meta = metaOf(doc)
    meta.set('nbformat', seed.nbformat)
    meta.set('nbformat_minor', seed.nbformat_minor)
    meta.set('metadata', makeMap(seed.metadata))
    cellsOf(doc).insert(0, seed.cells.map(makeCell))
  })
  return new NotebookDocument(doc, [Y.encodeStateAsUpdate(doc)])
}

/**
 * The document that the store has. Throws `storage_failed` when it holds no notebook. Updates that need others which are lost
 * are left out; `incomplete` is then true.
 */
export function loadDocument(stored: StoredDocument): NotebookDocument {
  const kept = keptOf(stored)
  try {
    const doc = replay(kept)
    checkMeta(metaOf(doc))
    cellsOf(doc).forEach((cell, index) => {
      checkCell(cell, `cells[${index}]`)
    })
    return new NotebookDocument(doc, kept)
  } catch (thrown) {
    throw new RoomdError('storage_failed', `the stored document cannot be read: ${String(thrown)}`)
  }
}

/** The updates that are the document, in order. */
export function keptOf({ snapshot, slices = [], updates }: StoredDocument): Uint8Array[] {
  return [...(snapshot === null ? [] : [snapshot]), ...slices, ...updates]
}

/** Slices of a document that is large enough to take the garbage collector's time. */
const MANY_SLICES = 16
/** Cells whose views are made at once. */
const PRIMED = 20

/**
 * The same from slices of its updates (founding-update.ts, update-slices.ts), with turns of the loop in between, so that other
 * rooms are not kept waiting. Its views are made already: whoever attaches next reads all of them at once.
 */
export async function loadDocumentInSlices(
  slices: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<NotebookDocument> {
  const breathing = new Breathing()
  const doc = newDoc()
  const kept: Uint8Array[] = []
  let release = (): void => {}
  try {
    for await (const slice of slices) {
      if (kept.length === MANY_SLICES) release = keepPausesShort()
      Y.applyUpdate(doc, slice)
      kept.push(slice)
      if (breathing.due) await breathing.pause()
    }
    checkMeta(metaOf(doc))
    const cells = cellsOf(doc).toArray()
    const list = new CellList()
    for (const [index, cell] of cells.entries()) {
      checkCell(cell, `cells[${index}]`)
      list.append(cell)
      if (breathing.due) await breathing.pause()
    }
    const document = new NotebookDocument(doc, kept, list)
    for (let at = 0; at < cells.length; at += PRIMED) {
      document.cells(at, PRIMED)
      if (breathing.due) await breathing.pause()
    }
    return document
  } catch (thrown) {
    doc.destroy()
    if (thrown instanceof RoomdError) throw thrown
    throw new RoomdError('storage_failed', `the stored document cannot be read: ${String(thrown)}`)
  } finally {
    release()
  }
}

export class NotebookDocument implements RoomDocument {
  /** null: at rest. */
  #doc: Y.Doc | null
  /** What the document was made of, and the updates since: together they are the document. */
  #base: Uint8Array[]
  readonly #since = new UpdateLog()
  #cells = new CellList()
  /** Views of deleted cells go with their maps. */
  #views: WeakMap<CellMap, DocumentCellView> | null = null
  /** The transaction that runs is a peer's update. */
  #remote = false
  /** What the transaction did is to be taken back, and not to be looked at. */
  #failed = false
  /** What operations did in the transaction that runs. */
  #performed: Performed = nothingPerformed()
  /** What the observers saw of the transaction that runs. */
  #seen: Seen = nothingSeen()
  /** Updates were lost: something in the store builds on them and cannot be shown. */
  readonly incomplete: boolean

  /** `list`: its cells as they are now, where they were gone through before. */
  constructor(doc: Y.Doc, kept: Uint8Array[], list?: CellList) {
    this.#doc = doc
    this.#base = kept
    this.incomplete = isPending(doc)
    this.#observe(doc)
    if (list) this.#cells = list
    else this.#cells.reset(cellsOf(doc).toArray())
  }

  get cellCount(): number {
    this.#awake()
    return this.#cells.count
  }

  get metadata(): Record<string, unknown> {
    return plain(metaOf(this.#awake()).get('metadata'))
  }

  /** Format version that the document says it has. */
  get nbformat(): { major: number; minor: number } {
    const meta = metaOf(this.#awake())
    return { major: Number(meta.get('nbformat')), minor: Number(meta.get('nbformat_minor')) }
  }

  cellIds(): CellId[] {
    this.#awake()
    return this.#cells.ids()
  }

  cell(cellId: CellId): DocumentCellView | undefined {
    this.#awake()
    const cell = this.#cells.find(cellId)
    return cell && this.#view(cell)
  }

  cells(start: number, count: number): DocumentCellView[] {
    this.#awake()
    return this.#cells.slice(start, count).map((cell) => this.#view(cell))
  }

  stateVector(): Uint8Array {
    return Y.encodeStateVector(this.#awake())
  }

  updateSince(stateVector?: Uint8Array): Uint8Array {
    try {
      return Y.encodeStateAsUpdate(this.#awake(), stateVector)
    } catch (thrown) {
      throw new RoomdError('invalid_argument', `the state vector cannot be read: ${String(thrown)}`)
    }
  }

  apply(
    operations: readonly DocumentOperation[],
    metadata?: Readonly<Record<string, unknown>>,
  ): { change: DocumentChange | null; cellIds: CellId[] } {
    this.#awake()
    const cellIds = planOperations(operations, this.#cells)
    const change = this.#transact((transaction) => {
      this.#perform(transaction, operations, cellIds)
      if (metadata) setMapValues(metaOf(transaction.doc), 'metadata', metadata)
    })
    return { change, cellIds }
  }

  applyEach(edits: readonly DocumentEdit[]): { change: DocumentChange | null; outcomes: EditOutcome[] } {
    const outcomes: EditOutcome[] = []
    const change = this.#transact((transaction) => {
      let ahead = 0
      for (const edit of edits) {
        const outcome = this.#attempt(transaction, edit, ahead)
        outcomes.push(outcome)
        if (outcome.ok && outcome.texts.length > 0) ahead++
      }
    })
    return { change, outcomes }
  }

  /** Replaces notebook-level metadata as a whole; only keys that differ change. null: nothing did. */
  setMetadata(metadata: Readonly<Record<string, unknown>>): DocumentChange | null {
    return this.#transact(() => setMapValues(metaOf(this.#awake()), 'metadata', metadata))
  }

  applyUpdate(update: Uint8Array, closed: ReadonlySet<CellId> = NONE): DocumentChange | null {
    const doc = this.#awake()
    checkReach(doc, update)
    checkHistory(doc, update)
    return this.#transact((transaction) => {
      this.#remote = true
      Y.applyUpdate(doc, update)
      // Yjs remembers places in lists and texts between edits, and forgets them behind another's transaction; within ours they
      // would go on pointing beside their place.
      for (const type of transaction.changed.keys()) type._searchMarker?.splice(0)
      if (isPending(doc)) throw outOfReach()
      const list = cellsOf(doc)
      checkTouched(transaction, list)
      if (closed.size > 0) checkClosed(transaction, list, closed, this.#cells)
      if (!transaction.changed.has(list as unknown as ChangedType)) return
      // Yjs takes own changes among a peer's for a stolen client id.
      transaction.local = true
      separateDuplicates(list, this.#cells)
    })
  }

  whole(): Uint8Array | null {
    const doc = this.#doc
    if (doc === null || this.incomplete || this.#size() > MOST_AT_ONCE_BYTES) return null
    let items = 0
    for (const structs of doc.store.clients.values()) items += structs.length
    if (items > MOST_AT_ONCE_ITEMS) return null
    const whole = Y.encodeStateAsUpdate(doc)
    this.#base = [whole]
    this.#since.clear()
    return whole
  }

  rest(): void {
    if (this.#doc === null || this.incomplete || this.#size() > MOST_AT_REST) return
    const whole = Y.encodeStateAsUpdate(this.#doc)
    this.#doc.destroy()
    this.#doc = null
    this.#cells = new CellList()
    this.#views = null
    this.#base = [whole]
    this.#since.clear()
  }

  dispose(): void {
    this.#doc?.destroy()
    this.#cells.reset([])
    this.#views = null
    this.#base = []
    this.#since.clear()
  }

  /** Bytes that it is made of. */
  #size(): number {
    return this.#base.reduce((sum, part) => sum + part.length, this.#since.size)
  }

  /** The Yjs document, built again when it was at rest. */
  #awake(): Y.Doc {
    if (this.#doc !== null) return this.#doc
    return this.#build()
  }

  /** From the bytes that are kept. */
  #build(): Y.Doc {
    const doc = replay([...this.#base, ...this.#since.all()])
    this.#views = null
    this.#doc = doc
    this.#observe(doc)
    this.#cells.reset(cellsOf(doc).toArray())
    return doc
  }

  #view(cell: CellMap): DocumentCellView {
    this.#views ??= new WeakMap()
    let view = this.#views.get(cell)
    if (view === undefined) {
      view = viewOf(cell, this.#cells.source(cell))
      this.#views.set(cell, view)
    }
    return view
  }

  /** Does operations that were planned; `cellIds` is what planning gave. */
  #perform(
    transaction: Y.Transaction,
    operations: readonly DocumentOperation[],
    cellIds: readonly CellId[],
  ): void {
    const list = cellsOf(transaction.doc)
    operations.forEach((operation, index) => {
      const id = cellIds[index]
      if (id !== undefined) perform(transaction, operation, id, list, this.#cells, this.#performed)
    })
  }

  #attempt(transaction: Y.Transaction, { operations, check }: DocumentEdit, ahead: number): EditOutcome {
    let cellIds: CellId[]
    try {
      check(ahead)
      cellIds = planOperations(operations, this.#cells)
    } catch (error) {
      return { ok: false, error }
    }
    const { texts } = this.#performed
    const fresh = new Map<CellId, CellMap>()
    for (const id of cellIds) {
      const cell = this.#cells.find(id)
      if (cell && !texts.has(cell)) fresh.set(id, cell)
    }
    this.#perform(transaction, operations, cellIds)
    const changes: CellChange[] = []
    for (const [id, cell] of fresh) {
      const source = texts.get(cell)
      if (source) changes.push({ cell_id: id, source })
    }
    return { ok: true, cellIds, texts: changes }
  }

  /** Runs one transaction and tells what it changed. Whatever `run` throws leaves the document as it was. */
  #transact(run: (transaction: Y.Transaction) => void): DocumentChange | null {
    const doc = this.#awake()
    this.#seen = nothingSeen()
    this.#remote = false
    this.#performed = nothingPerformed()
    this.#failed = false
    try {
      doc.transact((transaction) => {
        try {
          run(transaction)
        } catch (thrown) {
          this.#failed = true
          throw thrown
        }
      })
    } catch (thrown) {
      this.#rebuild()
      if (thrown instanceof RoomdError) throw thrown
      throw new RoomdError('invalid_argument', `the document update cannot be read: ${String(thrown)}`)
    }
    const { update, delta, changes, metadata } = this.#seen
    this.#seen = nothingSeen()
    if (update === null) return null
    this.#since.push(update)
    this.#rebase()
    return { delta, changes, update, ...(metadata ? { metadata: this.metadata } : {}) }
  }

  /** Events can be read only while they are told, which is after the transaction and before `transact` returns. */
  #observe(doc: Y.Doc): void {
    const cells = cellsOf(doc)
    cells.observeDeep((told) => {
      if (this.#failed) return
      const known = this.#remote ? null : textChanges(this.#performed)
      if (known) {
        // Nothing has to be asked of Yjs, which may have to walk each text to tell.
        for (const cell of this.#performed.texts.keys()) this.#views?.delete(cell)
        this.#seen.changes = known
        return
      }
      const events = told as Event[]
      for (const event of events) {
        const cell = cellAround(event.target, cells)
        if (!cell) continue
        this.#views?.delete(cell)
        // Operations say what they made of it.
        if (this.#remote) this.#cells.sourceChanged(cell)
      }
      const structural = events.find((event) => (event.target as unknown) === cells)
      if (structural) {
        // Operations have kept the list in step; a peer's update has not.
        if (this.#remote) this.#cells.follow(structural.changes.delta)
        const view = (cell: CellMap): DocumentCellView => this.#view(cell)
        const { steps } = this.#performed
        const [step] = steps
        this.#seen.delta = step && steps.length === 1 ? stepDelta(step, view) : cellsDelta(structural, view)
      }
      this.#seen.changes = cellChanges(events, cells, this.#performed.texts)
    })
    metaOf(doc).observeDeep(() => {
      this.#seen.metadata = true
    })
    doc.on('update', (update: Uint8Array) => {
      this.#seen.update = update
    })
  }

  #rebase(): void {
    const { size } = this.#since
    if (size < REBASE_BYTES || size < 2 * (this.#size() - size)) return
    this.#base = [Y.encodeStateAsUpdate(this.#awake())]
    this.#since.clear()
  }

  /** Back to the last good state, without what the failed transaction left. */
  #rebuild(): void {
    this.#doc?.destroy()
    this.#build()
    this.#seen = nothingSeen()
  }
}

interface Seen {
  update: Uint8Array | null
  delta: CellsDelta
  changes: CellChange[]
  metadata: boolean
}

function nothingSeen(): Seen {
  return { update: null, delta: [], changes: [], metadata: false }
}

function newDoc(): Y.Doc {
  const doc = new Y.Doc()
  defineRoots(doc)
  return doc
}

function replay(updates: readonly Uint8Array[]): Y.Doc {
  const doc = newDoc()
  // One transaction: cleaning up behind each update would cost more than the updates themselves.
  doc.transact(() => {
    for (const update of updates) Y.applyUpdate(doc, update)
  })
  return doc
}
