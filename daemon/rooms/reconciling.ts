/**
 * Ending a conflict between file and room. What merges has been merged; here the cells in conflict are settled. `room`: the room's
 * stay, and the next save writes them over the file's. `disk`: the file's replace them. `both`: the room's stay, and each version
 * of the file follows its own as a new cell, marked `{"roomd": {"conflict": "disk"}}`.
 *
 * A file that is no notebook any more has nothing to merge: `room` says that the next save may write over it.
 */
import { RoomdError } from '../../protocol/errors.ts'
import { CellId } from '../../protocol/ids.ts'
import type { MethodResult } from '../../protocol/methods.ts'
import type { FileCell } from '../documents/ipynb/read.ts'
import type { DocumentOperation } from '../documents/operations.ts'
import { readSource } from '../documents/save.ts'
import { readBase } from './base-text.ts'
import { lookAtFile, tell } from './disk-changes.ts'
import type { Room } from './room.ts'
import { type SourceRecord, updateBinding } from './room-record.ts'
import { settled } from './source-after.ts'

type Keep = 'room' | 'disk' | 'both'

/** The caller holds the room's source line. */
export async function reconcile(
  room: Room,
  keep: Keep,
  by: string,
): Promise<MethodResult<'reconcile_source'>> {
  await lookAtFile(room, false)
  const { state, conflicts } = room.record.source
  if (state === 'modified_outside') return giveUpFile(room, keep)
  if (state === 'missing') throw nothingThere(room)
  if (state !== 'conflict' || !conflicts) return { source_state: state, changed: [] }
  const disk = await cellsOnDisk(room)

  // From here on nothing waits: the document is edited and told as one change.
  const operations = conflicts.flatMap((conflict) => settle(room, conflict, keep, disk))
  const { change, cellIds } =
    operations.length > 0 ? room.document.apply(operations) : { change: null, cellIds: [] }
  room.record.source = settled(room.record.source)
  // The file may have none of this: the next save finds out.
  room.source.mustSave()
  await room.commit({
    statements: [updateBinding(room.record)],
    events: [{ type: 'source', path: room.record.path, state: 'ready' }],
    ...(change ? { document: { change, by } } : {}),
  })
  return { source_state: 'ready', changed: [...new Set(cellIds)] }
}

/** The cells of the file under the names that the room has for them, in the file's order. */
async function cellsOnDisk(room: Room): Promise<readonly FileCell[]> {
  const { worker, store } = room.surroundings.context
  const base = readBase(store, room.id)
  if (base === null) return []
  const { cells } = await worker.read(base.text, room.record.path ?? '', base.cell_ids)
  return cells
}

function settle(
  room: Room,
  { cell_id, disk: theirs }: NonNullable<SourceRecord['conflicts']>[number],
  keep: Keep,
  disk: readonly FileCell[],
): DocumentOperation[] {
  const ours = room.document.cell(cell_id)
  if (keep === 'room') return []
  if (theirs === null) return keep === 'disk' && ours ? [{ op: 'delete_cell', cell_id }] : []
  if (keep === 'disk' && ours) return [{ op: 'set_source', cell_id, source: theirs }]
  const index = disk.findIndex((cell) => cell.cell_id === cell_id)
  const cell = disk[index]
  const after = ours ? cell_id : lastPresent(room, disk.slice(0, index))
  const marked = { ...cell?.metadata, roomd: { conflict: 'disk' } }
  return [
    {
      op: 'insert_cell',
      after_cell_id: after,
      cell: {
        cell_id: keep === 'disk' ? cell_id : CellId.parse(crypto.randomUUID()),
        cell_type: cell?.cell_type ?? 'raw',
        source: theirs,
        metadata: keep === 'disk' ? (cell?.metadata ?? {}) : marked,
        ...(cell?.attachments ? { attachments: cell.attachments } : {}),
      },
    },
  ]
}

function lastPresent(room: Room, before: readonly FileCell[]): CellId | null {
  return before.findLast((cell) => room.document.cell(cell.cell_id))?.cell_id ?? null
}

async function giveUpFile(room: Room, keep: Keep): Promise<MethodResult<'reconcile_source'>> {
  const { path, source } = room.record
  if (keep !== 'room' || path === null)
    throw new RoomdError(
      'source_conflict',
      `there is nothing of the file that could be kept: ${source.reason ?? 'it is no notebook'}; repair it, or keep room`,
      { next: { tool: 'reconcile_source', arguments: { keep: 'room' } } },
    )
  const { hash } = await readSource(path)
  await tell(room, { ...settled(source), hash })
  room.source.mustSave()
  return { source_state: 'ready', changed: [] }
}

/** The file went away since it was found to differ: the next save writes it anew. */
function nothingThere(room: Room): RoomdError {
  return new RoomdError(
    'not_found',
    `${room.record.path} is gone meanwhile: there is nothing to reconcile with; save to write it anew from the room`,
    { next: { tool: 'save_notebook', arguments: {} } },
  )
}
