/** A reader that knows a document only from what is told about its changes, as thin clients do. */

import type { DocumentChange, RoomDocument } from '../../daemon/rooms/parts.ts'
import type { DocumentCell } from '../../protocol/events.ts'
import type { CellId } from '../../protocol/ids.ts'

type MirrorCell = DocumentCell
type Seen = Pick<RoomDocument, 'cells' | 'cellCount' | 'metadata'>

export class Mirror {
  cells: MirrorCell[]
  metadata: Record<string, unknown>

  constructor(document: Seen) {
    this.cells = seen(document)
    this.metadata = document.metadata
  }

  take(change: Omit<DocumentChange, 'update'>): void {
    let at = 0
    for (const step of change.delta) {
      if ('retain' in step) at += step.retain
      else if ('delete' in step) this.cells.splice(at, step.delete)
      else {
        this.cells.splice(at, 0, ...structuredClone(step.insert))
        at += step.insert.length
      }
    }
    for (const told of change.changes) {
      const cell = this.cells.find(({ cell_id }) => cell_id === told.cell_id)
      if (cell === undefined) throw new Error(`a change of a cell that is not there: ${told.cell_id}`)
      if (told.source) cell.source = spliced(cell.source, told.source)
      if (told.cell_type !== undefined) cell.cell_type = told.cell_type
      if (told.metadata) cell.metadata = told.metadata
      if (told.attachments === null) delete cell.attachments
      else if (told.attachments) cell.attachments = told.attachments
    }
    if (change.metadata) this.metadata = change.metadata
  }
}

export function seen(document: Pick<Seen, 'cells' | 'cellCount'>): MirrorCell[] {
  return document.cells(0, document.cellCount).map(({ source_hash: _, ...cell }) => cell)
}

function spliced(before: string, delta: NonNullable<DocumentChange['changes'][number]['source']>): string {
  let at = 0
  let after = ''
  for (const step of delta) {
    if ('retain' in step) {
      after += before.slice(at, at + step.retain)
      at += step.retain
    } else if ('delete' in step) at += step.delete
    else after += step.insert
  }
  return after + before.slice(at)
}

export const id = (name: string): CellId => name as CellId
