/**
 * Keeps ids unique. Two editors that move one cell at the same time each put a copy in, with the same id. One of equal copies
 * goes; one that differs gets an id of its own: nobody's text is dropped.
 */
import { randomUUID } from 'node:crypto'
import type * as Y from 'yjs'
import type { CellId } from '../../protocol/ids.ts'
import type { CellList } from './cell-list.ts'
import { type CellMap, idOf, plain, sourceOf } from './layout.ts'

/** `before`: the cells before the transaction. Call it within the transaction, after a peer's update. Linear in the cells. */
export function separateDuplicates(list: Y.Array<CellMap>, before: CellList): void {
  const cells = list.toArray()
  const keepers = new Map<CellId, CellMap>()
  for (const cell of cells) {
    const id = idOf(cell)
    // A cell that had the id before keeps it; else the first in order.
    if (!keepers.has(id) || before.find(id) === cell) keepers.set(id, cell)
  }
  if (keepers.size === cells.length) return
  for (let index = cells.length - 1; index >= 0; index--) {
    const cell = cells[index]
    const keeper = cell && keepers.get(idOf(cell))
    if (cell === undefined || keeper === undefined || keeper === cell) continue
    if (isEqual(cell, keeper)) list.delete(index, 1)
    else cell.set('id', randomUUID())
  }
}

function isEqual(a: CellMap, b: CellMap): boolean {
  return (
    a.get('cell_type') === b.get('cell_type') &&
    sourceOf(a).toString() === sourceOf(b).toString() &&
    JSON.stringify(plain(a.get('metadata'))) === JSON.stringify(plain(b.get('metadata')))
  )
}
