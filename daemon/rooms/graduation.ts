/**
 * Graduation: a draft becomes a room. It happens at the first change of the document, the first execution or the first save, whoever
 * does it, in the very transaction of that work; and here alone.
 */

import type { Statement } from '../store/store.ts'
import type { DocumentChange } from './parts.ts'
import type { Room } from './room.ts'
import { step } from './room-state.ts'

/** Longest title in characters. */
const TITLE = 80

export interface FirstWork {
  /** The document changes; already applied in memory. */
  readonly document: DocumentChange | null
  /** Code that is to run and belongs to no cell. */
  readonly code: string | null
}

/** Statements for the front of the unit that holds the first work. Changes the record at once. */
export function graduate(room: Room, work: FirstWork): Statement[] {
  const { record } = room
  const { hooks } = room.surroundings.context
  const statements = [...(hooks?.leavingDraft(record) ?? []), step(record, 'active')]
  if (record.path === null) {
    record.title = titleOf(room, work.code) ?? record.title
    statements.push({
      sql: 'UPDATE rooms SET title = ? WHERE notebook_id = ?',
      values: [record.title, record.notebook_id],
    })
  }
  return statements
}

/** The first heading, else the first line of code. */
function titleOf(room: Room, code: string | null): string | null {
  const cells = room.document.cells(0, Math.min(room.document.cellCount, 50))
  for (const { cell_type, source } of cells) {
    const heading = cell_type === 'markdown' ? /^ {0,3}#{1,6}\s+(.+?)\s*#*$/m.exec(source)?.[1] : undefined
    if (heading) return shortened(heading)
  }
  const sources = [
    ...cells.filter((cell) => cell.cell_type === 'code').map((cell) => cell.source),
    code ?? '',
  ]
  for (const source of sources) {
    const line = source.split('\n').find((each) => each.trim() !== '')
    if (line !== undefined) return shortened(line.trim())
  }
  return null
}

function shortened(text: string): string {
  return text.length <= TITLE ? text : `${text.slice(0, TITLE - 1)}…`
}
