/**
 * Edits by operation. `planOperations` checks all of them against the document as it will be at their turn and changes nothing,
 * because a Yjs transaction cannot be taken back; `perform` then cannot fail.
 *
 * A move is a deletion and a copy with the same id in the new place: Y.Array has no move. What others type into the old copy at
 * the same moment is lost with it, and editors see a removed and a new cell; the text itself, metadata and id are kept. A
 * changed type keeps the cell and its text, so that no typing is lost; an editor that built its view by type must build it anew.
 */
import { randomUUID } from 'node:crypto'
import type * as Y from 'yjs'
import { RoomdError } from '../../protocol/errors.ts'
import type { TextDelta } from '../../protocol/events.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { Operation } from '../../protocol/methods.ts'
import type { CellList } from './cell-list.ts'
import {
  addCodeKeys,
  attachmentsOf,
  type CellMap,
  type CellSeed,
  makeCell,
  plain,
  removeCodeKeys,
  setMapValues,
  sourceOf,
  wellFormed,
} from './layout.ts'
import { sourceHash } from './source-hash.ts'
import { diffText } from './text-diff.ts'

/** What files bring beside what peers may ask for: cell types that this version does not know, and attachments. */
export type DocumentOperation =
  | Operation
  | { readonly op: 'insert_cell'; readonly cell: CellSeed; readonly after_cell_id: CellId | null }
  | { readonly op: 'set_any_type'; readonly cell_id: CellId; readonly cell_type: string }
  | {
      readonly op: 'set_attachments'
      readonly cell_id: CellId
      /** null: none. */
      readonly attachments: Readonly<Record<string, unknown>> | null
    }

/** Throws `not_found` or `conflict` for the first operation that cannot be done. Returns the cell of each. */
export function planOperations(operations: readonly DocumentOperation[], cells: CellList): CellId[] {
  /** Sources that earlier operations leave; null: deleted by one. */
  const sources = new Map<CellId, string | null>()
  const present = (id: CellId): string => {
    const planned = sources.get(id)
    const cell = cells.find(id)
    if (planned === null || (planned === undefined && cell === undefined)) throw unknownCell(id)
    return planned ?? (cell === undefined ? '' : cells.source(cell))
  }
  return operations.map((operation) => {
    switch (operation.op) {
      case 'create_cell': {
        if (operation.after_cell_id) present(operation.after_cell_id)
        const id = operation.cell_id ?? (randomUUID() as string as CellId)
        if (sources.get(id) !== null && (sources.has(id) || cells.find(id) !== undefined))
          throw new RoomdError(
            'conflict',
            `there is a cell ${id} already: leave cell_id out to get a new one`,
          )
        sources.set(id, operation.source)
        return id
      }
      case 'insert_cell': {
        const { cell_id, source } = operation.cell
        if (operation.after_cell_id) present(operation.after_cell_id)
        if (sources.get(cell_id) !== null && (sources.has(cell_id) || cells.find(cell_id) !== undefined))
          throw new RoomdError('conflict', `there is a cell ${cell_id} already`)
        sources.set(cell_id, source)
        return cell_id
      }
      case 'set_source': {
        const source = present(operation.cell_id)
        const expected = operation.expect_source_hash
        if (expected !== undefined && sourceHash(source) !== expected)
          throw new RoomdError(
            'conflict',
            `cell ${operation.cell_id} has another source than expected: read the present text in the cause, and send the edit again with its hash`,
            { cause: { cell_id: operation.cell_id, source, source_hash: sourceHash(source) } },
          )
        sources.set(operation.cell_id, wellFormed(operation.source))
        return operation.cell_id
      }
      case 'delete_cell':
        present(operation.cell_id)
        sources.set(operation.cell_id, null)
        return operation.cell_id
      case 'move_cell':
        present(operation.cell_id)
        if (operation.after_cell_id === operation.cell_id)
          throw new RoomdError('invalid_argument', `cell ${operation.cell_id} cannot be moved behind itself`)
        if (operation.after_cell_id) present(operation.after_cell_id)
        return operation.cell_id
      case 'set_cell_type':
      case 'set_any_type':
      case 'set_attachments':
      case 'set_cell_metadata':
        present(operation.cell_id)
        return operation.cell_id
      default:
        return unreachable(operation)
    }
  })
}

/** What an operation did to the list: `removed` first, then `inserted` in what was left. */
export interface ListStep {
  readonly removed: number | null
  readonly inserted: { readonly index: number; readonly cell: CellMap } | null
}

/** What the operations of one transaction did. */
export interface Performed {
  readonly steps: ListStep[]
  /** How texts that were there before differ. null: changed more than once, so that Yjs has to tell. */
  readonly texts: Map<CellMap, TextDelta | null>
  /** They did anything but set texts. */
  more: boolean
}

export function nothingPerformed(): Performed {
  return { steps: [], texts: new Map(), more: false }
}

/**
 * Does one planned operation within a transaction, keeps `cells` in step and notes in `performed` what it did. `id` is what planning
 * gave for it.
 */
export function perform(
  transaction: Y.Transaction,
  operation: DocumentOperation,
  id: CellId,
  list: Y.Array<CellMap>,
  cells: CellList,
  performed: Performed,
): void {
  const { steps, texts } = performed
  if (operation.op !== 'set_source') performed.more = true
  const indexAfter = (after: CellId | null): number => (after === null ? 0 : cells.indexOf(after) + 1)
  if (operation.op === 'create_cell') {
    const { after_cell_id, cell_type, metadata, source } = operation
    const index = after_cell_id === undefined ? cells.count : indexAfter(after_cell_id)
    const made = makeCell({ cell_id: id, cell_type, source, metadata: metadata ?? {} })
    list.insert(index, [made])
    cells.insert(index, made)
    steps.push({ removed: null, inserted: { index, cell: made } })
    return
  }
  if (operation.op === 'insert_cell') {
    const index = indexAfter(operation.after_cell_id)
    const made = makeCell(operation.cell)
    list.insert(index, [made])
    cells.insert(index, made)
    steps.push({ removed: null, inserted: { index, cell: made } })
    return
  }
  const cell = cells.find(id)
  if (cell === undefined) throw unknownCell(id)
  switch (operation.op) {
    case 'set_source': {
      const source = wellFormed(operation.source)
      const delta = diffText(cells.source(cell), source)
      if (delta.length === 0) break
      cells.editSource(transaction, cell, delta, source)
      texts.set(cell, texts.has(cell) ? null : delta)
      break
    }
    case 'set_attachments':
      if (operation.attachments === null) cell.delete('attachments')
      else cell.set('attachments', operation.attachments)
      break
    case 'set_any_type':
    case 'set_cell_type': {
      const before = cell.get('cell_type')
      if (before === operation.cell_type) break
      cell.set('cell_type', operation.cell_type)
      if (operation.cell_type === 'code') addCodeKeys(cell)
      else if (before === 'code') removeCodeKeys(cell)
      // Only markdown and raw cells have attachments in the file format.
      if (operation.cell_type === 'code' && cell.has('attachments')) cell.delete('attachments')
      break
    }
    case 'set_cell_metadata':
      setMapValues(cell, 'metadata', operation.metadata)
      break
    case 'delete_cell': {
      const index = cells.indexOf(id)
      list.delete(index, 1)
      cells.remove(index, id)
      steps.push({ removed: index, inserted: null })
      break
    }
    case 'move_cell': {
      const from = cells.indexOf(id)
      const to = indexAfter(operation.after_cell_id)
      if (to === from || to === from + 1) break
      const attachments = attachmentsOf(cell)
      const copy = makeCell({
        cell_id: id,
        cell_type: cell.get('cell_type') as string,
        source: sourceOf(cell).toString(),
        metadata: plain(cell.get('metadata')),
        ...(attachments === null ? {} : { attachments }),
      })
      const index = to > from ? to - 1 : to
      list.delete(from, 1)
      cells.remove(from, id)
      list.insert(index, [copy])
      cells.insert(index, copy)
      steps.push({ removed: from, inserted: { index, cell: copy } })
      break
    }
    default:
      unreachable(operation)
  }
}

export function unknownCell(id: CellId): RoomdError {
  return new RoomdError(
    'not_found',
    `there is no cell ${id} in this notebook: it was deleted or never existed; list the cells for the present ids`,
    { cause: { cell_id: id }, next: { tool: 'get_all_cells', arguments: {} } },
  )
}

function unreachable(operation: never): never {
  throw new RoomdError('internal', `unknown operation ${JSON.stringify(operation)}`)
}
