/**
 * Converting a file of format 3 or older to format 4.5, as Jupyter's own nbformat upgrades it. Reading has done most of it
 * (old-formats.ts); what is left is a new file, whose cells have ids.
 */
import { RoomdError } from '../../../protocol/errors.ts'
import type { NotebookFile } from './read.ts'
import type { WriteRequest } from './write.ts'

/** What is to be written in place of an old file. Throws `unsupported` when its format is newer than 4. */
export function upgradeRequest(file: NotebookFile, path: string): WriteRequest {
  if (file.nbformat > 4)
    throw new RoomdError(
      'unsupported',
      `${path} has format ${file.nbformat}, which is newer than this version of roomd: update roomd; the file was left as it is`,
      { cause: { path, nbformat: file.nbformat } },
    )
  return {
    base: null,
    path,
    metadata: file.metadata,
    cells: file.cells.map(({ outputs, execution_count, own_id: _, ...cell }) => ({
      ...cell,
      outputs: { outputs, execution_count },
    })),
  }
}
