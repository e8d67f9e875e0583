/** Judges a peer's Yjs update: whether the document has what it builds on, and whether what it touched still has the layout. */
import * as Y from 'yjs'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { CellList } from './cell-list.ts'
import { cellAround } from './changes.ts'
import { type CellMap, checkCell, checkMeta, idOf, metaOf } from './layout.ts'

export type ChangedType = Y.AbstractType<Y.YEvent<Y.AbstractType<unknown>>>

/** Yjs holds back parts of an update whose predecessors are missing. */
export function isPending(doc: Y.Doc): boolean {
  return doc.store.pendingStructs !== null || doc.store.pendingDs !== null
}

export function outOfReach(): RoomdError {
  return new RoomdError(
    'sync_failed',
    'the document update builds on updates that the room does not have; exchange state vectors (sync step 1) and send what is missing',
  )
}

/** Throws before anything is applied: `invalid_argument` for bytes that are no update, `sync_failed` for one with a gap before it. */
export function checkReach(doc: Y.Doc, update: Uint8Array): void {
  let from: Map<number, number>
  try {
    from = Y.parseUpdateMeta(update).from
  } catch (thrown) {
    throw new RoomdError('invalid_argument', `the document update cannot be read: ${String(thrown)}`)
  }
  for (const [client, clock] of from) if (clock > Y.getState(doc.store, client)) throw outOfReach()
}

/** Throws `invalid_argument` when something that the transaction touched breaks the layout. Call it before the transaction ends. */
export function checkTouched(transaction: Y.Transaction, cells: Y.Array<CellMap>): void {
  const doc = transaction.doc
  const meta = metaOf(doc)
  const touched = new Set<CellMap>()
  for (const [type, keys] of transaction.changed) {
    if ((type as unknown) === cells) {
      for (const cell of inserted(transaction, cells)) touched.add(cell)
    } else if (isWithin(type, meta)) checkMeta(meta)
    else {
      const cell = cellAround(type as unknown as Y.AbstractType<unknown>, cells)
      if (cell === null || cell._item?.deleted) continue
      touched.add(cell)
      if ((type as unknown) === cell && keys.has('id')) throw renamed(cell)
    }
  }
  for (const cell of touched) checkCell(cell, `cells[${placeOf(cell, cells)}]`)
}

/** Throws `source_conflict` when the transaction changed or removed a cell that is closed. `before`: the cells before it. */
export function checkClosed(
  transaction: Y.Transaction,
  cells: Y.Array<CellMap>,
  closed: ReadonlySet<CellId>,
  before: CellList,
): void {
  const shut = new Map<unknown, CellId>()
  for (const id of closed) {
    const cell = before.find(id)
    if (cell === undefined) continue
    if (cell._item?.deleted) throw cellInConflict(id)
    shut.set(cell, id)
  }
  for (const type of transaction.changed.keys()) {
    const id = shut.get(cellAround(type as unknown as Y.AbstractType<unknown>, cells) ?? type)
    if (id !== undefined) throw cellInConflict(id)
  }
}

/** The error of whoever wants to change a cell on which file and room differ. */
export function cellInConflict(cellId: CellId): RoomdError {
  return new RoomdError(
    'source_conflict',
    `cell ${cellId} was changed both here and in the file, in different ways, and is closed until it is settled which stays: reconcile the source (keep room, disk or both)`,
    { cause: { cell_id: cellId }, next: { tool: 'reconcile_source', arguments: { keep: 'both' } } },
  )
}

/** What the transaction put into the list, good or not. */
function inserted(transaction: Y.Transaction, cells: Y.Array<CellMap>): CellMap[] {
  const found: CellMap[] = []
  for (let item = cells._start; item !== null; item = item.right) {
    if (item.deleted || item.id.clock < (transaction.beforeState.get(item.id.client) ?? 0)) continue
    // Plain values in the list are judged as cells, and fail as such.
    found.push(...(item.content.getContent() as CellMap[]))
  }
  return found
}

function isWithin(type: unknown, outer: Y.Map<unknown>): boolean {
  for (let inner: unknown = type; inner instanceof Y.AbstractType; inner = inner._item?.parent) {
    if (inner === outer) return true
  }
  return false
}

function placeOf(cell: CellMap, cells: Y.Array<CellMap>): number {
  return cells.toArray().indexOf(cell)
}

function renamed(cell: CellMap): RoomdError {
  return new RoomdError(
    'invalid_argument',
    `the document update changes the id of a cell to ${String(idOf(cell))}: a cell keeps its id for ever; it was not applied`,
  )
}
