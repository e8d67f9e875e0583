/**
 * Ending a difference between file and room. `room`: the file's present bytes become the base, and the next save writes the room
 * over them. `disk`: the room takes the file's cells as one edit. `both`: the room's cells stay, and each cell that the file has
 * otherwise follows its own as a new one, marked `{"roomd": {"conflict": "disk"}}`.
 */
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { MethodResult, Operation } from '../../protocol/methods.ts'
import { CellType } from '../../protocol/notebook.ts'
import type { FileCell } from '../documents/ipynb/read.ts'
import { readSource } from '../documents/save.ts'
import { prepareFileOutputs } from '../executions/file-outputs.ts'
import type { RoomDocument } from './parts.ts'
import type { Room } from './room.ts'
import { updateBinding } from './room-record.ts'
import { sourceRows } from './saving.ts'

export async function reconcile(
  room: Room,
  keep: 'room' | 'disk' | 'both',
  by: string,
): Promise<MethodResult<'reconcile_source'>> {
  const { path, source } = room.record
  if (path === null || (source.state !== 'modified_outside' && source.state !== 'conflict')) {
    return { source_state: source.state, changed: [] }
  }
  const { worker, blobs } = room.surroundings.context
  const { bytes, hash } = await readSource(path).catch((error: unknown) => missing(room, path, error))
  const file = await worker.read(bytes, path)
  if (file.read_only !== null) {
    throw new RoomdError('unsupported', `${path} is now ${file.read_only}; save the room under another path`)
  }
  const outputs = keep === 'disk' ? await prepareFileOutputs(blobs, file.cells) : []

  // From here on nothing waits: the document is edited and told as one change.
  const operations = operationsFor(room.document, file.cells, keep)
  const { change, cellIds } =
    operations.length > 0 ? room.document.apply(operations) : { change: null, cellIds: [] }
  const taken = room.executions.takeFileOutputs(outputs)
  room.record.source = { state: 'ready', hash }
  room.saver.rebased()
  await room.commit({
    statements: [updateBinding(room.record), ...sourceRows(room.id, hash, bytes), ...taken.statements],
    events: [{ type: 'source', path, state: 'ready' }, ...taken.events],
    ...(change ? { document: { change, by } } : {}),
  })
  return { source_state: 'ready', changed: [...new Set(cellIds)] }
}

/** The file went away since it was found to differ: nothing is left to reconcile with, and the next save writes it anew. */
async function missing(room: Room, path: string, error: unknown): Promise<never> {
  if (!(error instanceof RoomdError) || error.code !== 'not_found') throw error
  const { reason: _, ...kept } = room.record.source
  room.record.source = { ...kept, state: 'missing', reason: error.message }
  await room.commit({
    statements: [updateBinding(room.record)],
    events: [{ type: 'source', path, state: 'missing', reason: error.message }],
  })
  throw new RoomdError(
    'not_found',
    `${path} is gone meanwhile: there is nothing to reconcile with; save to write it anew from the room`,
    { next: { tool: 'save_notebook', arguments: {} } },
  )
}

function operationsFor(
  document: RoomDocument,
  disk: readonly FileCell[],
  keep: 'room' | 'disk' | 'both',
): Operation[] {
  switch (keep) {
    case 'room':
      return []
    case 'disk':
      return becomeDisk(document, disk)
    case 'both':
      return addDisk(document, disk)
  }
}

function becomeDisk(document: RoomDocument, disk: readonly FileCell[]): Operation[] {
  const wanted = new Set(disk.map((cell) => cell.cell_id))
  const order = document.cellIds()
  const operations: Operation[] = order
    .filter((id) => !wanted.has(id))
    .map((cell_id) => ({ op: 'delete_cell', cell_id }))
  let present = order.filter((id) => wanted.has(id))
  let after: CellId | null = null
  disk.forEach((cell, index) => {
    const { cell_id } = cell
    const room = document.cell(cell_id)
    if (!room) {
      operations.push(creation(cell, cell_id, after, cell.metadata))
      present.splice(index, 0, cell_id)
    } else {
      if (present[index] !== cell_id) {
        operations.push({ op: 'move_cell', cell_id, after_cell_id: after })
        present = present.filter((id) => id !== cell_id)
        present.splice(index, 0, cell_id)
      }
      if (room.source !== cell.source) operations.push({ op: 'set_source', cell_id, source: cell.source })
      const type = CellType.safeParse(cell.cell_type)
      if (type.success && room.cell_type !== type.data) {
        operations.push({ op: 'set_cell_type', cell_id, cell_type: type.data })
      }
      if (JSON.stringify(room.metadata) !== JSON.stringify(cell.metadata)) {
        operations.push({ op: 'set_cell_metadata', cell_id, metadata: { ...cell.metadata } })
      }
    }
    after = cell_id
  })
  return operations
}

function addDisk(document: RoomDocument, disk: readonly FileCell[]): Operation[] {
  const operations: Operation[] = []
  let after: CellId | null = null
  for (const cell of disk) {
    const room = document.cell(cell.cell_id)
    if (room) after = cell.cell_id
    if (room?.source === cell.source) continue
    operations.push(creation(cell, undefined, after, { ...cell.metadata, roomd: { conflict: 'disk' } }))
  }
  return operations
}

function creation(
  cell: FileCell,
  cell_id: CellId | undefined,
  after_cell_id: CellId | null,
  metadata: Readonly<Record<string, unknown>>,
): Operation {
  const type = CellType.safeParse(cell.cell_type)
  return {
    op: 'create_cell',
    source: cell.source,
    // A type that this version does not know can be kept in a file, not made anew: its text is.
    cell_type: type.success ? type.data : 'raw',
    after_cell_id,
    metadata: { ...metadata },
    ...(cell_id === undefined ? {} : { cell_id }),
  }
}
