/**
 * What each state of a room's source closes, in one place:
 *
 *   none              untitled: nothing is closed, there is no file to save to
 *   loading           everything waits for the room (loading.ts), and is done when it is there
 *   ready             nothing
 *   modified_outside  saving in place: the file was changed and cannot be merged (it is no notebook now); edits go on
 *   conflict          the cells in conflict, and saving in place; all else goes on
 *   missing           autosave: the file is gone; a save that is asked for writes it anew
 *   degraded          edits and saving in place: the file cannot be read, or its path now leads to another room's file
 *   read_only         edits and saving in place: an old format, no permission, another daemon has the file, or the room is archived
 */
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { DocumentOperation } from '../documents/operations.ts'
import { cellInConflict } from '../documents/remote-update.ts'
import type { SourceRecord } from './room-record.ts'

/** Throws when the room takes no edits at all. */
export function mustTakeEdits({ state, reason, read_only }: SourceRecord): void {
  switch (state) {
    case 'degraded':
    case 'read_only':
    case 'loading':
      break
    case 'none':
    case 'ready':
    case 'modified_outside':
    case 'conflict':
    case 'missing':
      // Its file may be away meanwhile: it stays of that format.
      if (read_only !== 'format') return
  }
  throw new RoomdError(
    'source_degraded',
    `this notebook is read-only here: ${reason ?? state}; save it under another path to go on with it there`,
    { cause: { source_state: state } },
  )
}

/** Cells that take no edit until the source is reconciled. */
export function closedCells({ conflicts }: SourceRecord): ReadonlySet<CellId> {
  return new Set(conflicts?.map((conflict) => conflict.cell_id) ?? [])
}

/** Throws `source_conflict` for the first operation on a cell in conflict. */
export function mustBeOpen(source: SourceRecord, operations: readonly DocumentOperation[]): void {
  if (!source.conflicts) return
  const closed = closedCells(source)
  for (const operation of operations) {
    const id = 'cell_id' in operation ? operation.cell_id : undefined
    if (id !== undefined && closed.has(id)) throw cellInConflict(id)
  }
}

/** Throws when the room may not write its own file now. */
export function mustBeWritable({ state, reason }: SourceRecord): void {
  switch (state) {
    case 'none':
    case 'ready':
    case 'missing':
      return
    case 'modified_outside':
    case 'conflict':
      throw new RoomdError(
        'source_conflict',
        `not saved: ${reason ?? 'the file was changed by another program'}`,
        {
          cause: { source_state: state },
          next: { tool: 'reconcile_source', arguments: { keep: 'both' } },
        },
      )
    case 'read_only':
    case 'degraded':
    case 'loading':
      throw new RoomdError(
        'source_degraded',
        `not saved: the file is ${state} (${reason ?? 'no reason is known'}); save under another path`,
        { cause: { source_state: state } },
      )
  }
}

/** Whether autosave may write. */
export function mayAutosave({ state }: SourceRecord): boolean {
  return state === 'ready'
}
