/** Merging a changed file into a room, from bytes: what runs in the worker for large notebooks. */
import type { CellId } from '../../../protocol/ids.ts'
import { type NotebookFile, readNotebook } from '../ipynb/read.ts'
import type { CellSeed } from '../layout.ts'
import { type MergePlan, mergeNotebooks, type SourceConflict } from './merge-notebook.ts'

export interface MergeRequest {
  /** For messages. */
  readonly path: string
  /** The file as last read or written, and what the room calls its cells where that is not what it says. */
  readonly base: Uint8Array
  readonly base_ids: readonly CellId[] | null
  /** The file as it is now. */
  readonly disk: Uint8Array
  /** The room. */
  readonly metadata: Readonly<Record<string, unknown>>
  readonly cells: readonly CellSeed[]
  readonly open: readonly SourceConflict[]
}

export interface MergedFile {
  readonly plan: MergePlan
  /** What the file is now, without its cells. */
  readonly file: Omit<NotebookFile, 'cells'>
  /** As `Written.cell_ids`: null when reading the file gives the cells the ids of `plan.disk_ids` by itself. */
  readonly cell_ids: readonly CellId[] | null
}

/** Throws `invalid_argument` with the place when the file is no notebook now. */
export function mergeFile(request: MergeRequest): MergedFile {
  const base = readNotebook(request.base, request.path, request.base_ids)
  const { cells, ...file } = readNotebook(request.disk, request.path)
  const plan = mergeNotebooks({
    base: { metadata: base.metadata, cells: base.cells },
    room: { metadata: request.metadata, cells: request.cells },
    disk: { metadata: file.metadata, cells },
    open: request.open,
  })
  const asRead = cells.every((cell, index) => cell.cell_id === plan.disk_ids[index])
  return { plan, file, cell_ids: asRead ? null : plan.disk_ids }
}
