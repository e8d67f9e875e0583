/** Turns Yjs events of one transaction into the terms of the projection: a delta over cells, and changes inside cells. */
import type * as Y from 'yjs'
import type { CellChange, CellsDelta, TextDelta } from '../../protocol/events.ts'
import type { DocumentCellView } from '../rooms/parts.ts'
import { attachmentsOf, type CellMap, idOf, plain } from './layout.ts'
import type { ListStep, Performed } from './operations.ts'

export type Event = Y.YEvent<Y.AbstractType<unknown>>

/** The delta of the cell list; inserted cells as they are after the transaction. */
export function cellsDelta(event: Event, view: (cell: CellMap) => DocumentCellView): CellsDelta {
  const delta: CellsDelta = []
  for (const step of event.changes.delta) {
    if (step.retain !== undefined) delta.push({ retain: step.retain })
    else if (step.delete !== undefined) delta.push({ delete: step.delete })
    else if (Array.isArray(step.insert)) {
      delta.push({ insert: (step.insert as CellMap[]).map((cell) => withoutHash(view(cell))) })
    }
  }
  return delta
}

/** The same delta for one step whose place is known; walking a long list for it would cost milliseconds. */
export function stepDelta(step: ListStep, view: (cell: CellMap) => DocumentCellView): CellsDelta {
  const { removed, inserted } = step
  const retain = (count: number): CellsDelta => (count > 0 ? [{ retain: count }] : [])
  const insert: CellsDelta = inserted ? [{ insert: [withoutHash(view(inserted.cell))] }] : []
  if (removed === null) return inserted ? [...retain(inserted.index), ...insert] : []
  if (!inserted) return [...retain(removed), { delete: 1 }]
  return inserted.index <= removed
    ? [...retain(inserted.index), ...insert, ...retain(removed - inserted.index), { delete: 1 }]
    : [...retain(removed), { delete: 1 }, ...retain(inserted.index - removed), ...insert]
}

/**
 * Changes inside cells that were there before and still are, one entry a cell. `texts`: those of texts that are known; Yjs has to
 * walk a text to tell.
 */
export function cellChanges(
  events: readonly Event[],
  cells: Y.Array<CellMap>,
  texts: Performed['texts'],
): CellChange[] {
  const changes = new Map<CellMap, { -readonly [K in keyof CellChange]: CellChange[K] }>()
  const of = (cell: CellMap): { -readonly [K in keyof CellChange]: CellChange[K] } => {
    let change = changes.get(cell)
    if (change === undefined) {
      change = { cell_id: idOf(cell) }
      changes.set(cell, change)
    }
    return change
  }
  for (const event of events) {
    const cell = cellAround(event.target, cells)
    if (cell === null) continue
    const key = keyWithin(event.target, cell)
    if (key === null) {
      const keys = (event as Y.YMapEvent<unknown>).keysChanged
      if (keys.has('cell_type')) of(cell).cell_type = cell.get('cell_type') as string
      if (keys.has('metadata')) of(cell).metadata = plain(cell.get('metadata'))
      if (keys.has('attachments')) of(cell).attachments = attachmentsOf(cell)
    } else if (key === 'source') of(cell).source = texts.get(cell) ?? textDelta(event)
    else if (key === 'metadata') of(cell).metadata = plain(cell.get('metadata'))
    else if (key === 'attachments') of(cell).attachments = attachmentsOf(cell)
  }
  return [...changes.values()]
}

/** The changes of operations that set texts, each once, and did nothing else; null: they did more. */
export function textChanges({ texts, more }: Performed): CellChange[] | null {
  if (more) return null
  const changes: CellChange[] = []
  for (const [cell, source] of texts) {
    if (source === null) return null
    changes.push({ cell_id: idOf(cell), source })
  }
  return changes
}

function textDelta(event: Event): TextDelta {
  const delta: TextDelta = []
  for (const step of event.changes.delta) {
    if (step.retain !== undefined) delta.push({ retain: step.retain })
    else if (step.delete !== undefined) delta.push({ delete: step.delete })
    else if (typeof step.insert === 'string') delta.push({ insert: step.insert })
  }
  return delta
}

/** The cell that a changed type lies in, or null for the list itself and what is outside of it. */
export function cellAround(type: Y.AbstractType<unknown>, cells: Y.Array<CellMap>): CellMap | null {
  for (let inner: Y.AbstractType<unknown> | null = type; inner !== null; ) {
    const outer: Y.AbstractType<unknown> | null =
      (inner._item?.parent as Y.AbstractType<unknown> | null) ?? null
    if ((outer as unknown) === cells) return inner as unknown as CellMap
    inner = outer
  }
  return null
}

/** Which key of the cell a changed type lies under; null for the cell itself. */
function keyWithin(type: Y.AbstractType<unknown>, cell: CellMap): string | null {
  let key: string | null = null
  for (let inner: Y.AbstractType<unknown> = type; (inner as unknown) !== cell; ) {
    key = inner._item?.parentSub ?? null
    inner = inner._item?.parent as Y.AbstractType<unknown>
  }
  return key
}

/** Without looking at the hash, which is made when somebody looks. */
export function withoutHash(view: DocumentCellView): Omit<DocumentCellView, 'source_hash'> {
  const { cell_id, cell_type, source, metadata, attachments } = view
  return { cell_id, cell_type, source, metadata, ...(attachments === undefined ? {} : { attachments }) }
}
