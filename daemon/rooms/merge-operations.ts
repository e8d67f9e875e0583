/** A merge plan as operations on the room's document. */
import type { CellId } from '../../protocol/ids.ts'
import type { MergePlan } from '../documents/merge/merge-notebook.ts'
import type { DocumentOperation } from '../documents/operations.ts'

/** `present`: cells of the room now, in order. Cells that keep their place among each other are not moved. */
export function operationsOf(plan: MergePlan, present: readonly CellId[]): DocumentOperation[] {
  const operations: DocumentOperation[] = []
  for (const cell_id of plan.deleted) operations.push({ op: 'delete_cell', cell_id })
  for (const { cell_id, source, cell_type, metadata, attachments } of plan.changed) {
    if (source !== undefined) operations.push({ op: 'set_source', cell_id, source })
    if (cell_type !== undefined) operations.push({ op: 'set_any_type', cell_id, cell_type })
    if (metadata) operations.push({ op: 'set_cell_metadata', cell_id, metadata })
    if (attachments !== undefined) operations.push({ op: 'set_attachments', cell_id, attachments })
  }
  const created = new Map(plan.created.map((cell) => [cell.cell_id, cell]))
  const gone = new Set(plan.deleted)
  const old = present.filter((id) => !gone.has(id))
  const staying = longestRun(
    old,
    plan.order.filter((id) => !created.has(id)),
  )
  let after: CellId | null = null
  for (const cell_id of plan.order) {
    const cell = created.get(cell_id)
    if (cell) operations.push({ op: 'insert_cell', cell, after_cell_id: after })
    else if (!staying.has(cell_id)) operations.push({ op: 'move_cell', cell_id, after_cell_id: after })
    after = cell_id
  }
  return operations
}

/** A largest set of ids that stand in the same order in both lists: the longest rising run of their places. */
function longestRun<Id>(before: readonly Id[], after: readonly Id[]): Set<Id> {
  const place = new Map(before.map((id, index) => [id, index]))
  /** For each length of run the index in `after` of the lowest place it can end with. */
  const ends: number[] = []
  const previous = new Array<number>(after.length).fill(-1)
  const placeAt = (index: number | undefined): number => place.get(after[index ?? -1] as Id) ?? -1
  after.forEach((_, index) => {
    let low = 0
    let high = ends.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (placeAt(ends[middle]) < placeAt(index)) low = middle + 1
      else high = middle
    }
    previous[index] = ends[low - 1] ?? -1
    ends[low] = index
  })
  const staying = new Set<Id>()
  for (let at = ends.at(-1) ?? -1; at !== -1; at = previous[at] ?? -1) staying.add(after[at] as Id)
  return staying
}
