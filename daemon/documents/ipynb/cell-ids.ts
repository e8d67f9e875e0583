/**
 * Ids for cells of files that have none, or the same one twice. Derived from type and source, so that opening the same file
 * again gives the same ids, and an edit of one cell outside leaves the ids of the others.
 */
import { createHash } from 'node:crypto'
import { type CellId, isCellId } from '../../../protocol/ids.ts'

export interface Identified {
  readonly cell_id: CellId
  /** What the file says. `own`: the id is the file's. */
  readonly from: 'own' | 'missing' | 'invalid' | 'duplicate'
}

export interface Named {
  /** What the file has as id. */
  readonly id: unknown
  /** What names the cell's content. */
  readonly content: string
}

export function identify<Cell extends Named>(cells: readonly Cell[]): (Identified & { readonly of: Cell })[] {
  const taken = new Set<string>()
  for (const { id } of cells) if (isCellId(id)) taken.add(id)
  const seen = new Set<string>()
  return cells.map((of) => {
    const { id, content } = of
    const own = isCellId(id)
    if (own && !seen.has(id)) {
      seen.add(id)
      return { cell_id: id, from: 'own', of }
    }
    const from = id === undefined ? 'missing' : own ? 'duplicate' : 'invalid'
    const cell_id = derivedId(content, taken)
    taken.add(cell_id)
    return { cell_id, from, of }
  })
}

/** An id made of a cell's content (type and source), other than those taken. */
export function derivedId(content: string, taken: ReadonlySet<string>): CellId {
  for (let copy = 0; ; copy++) {
    // A letter first and short, as nbformat's grammar for ids wants it.
    const derived = `c${createHash('sha256').update(`${copy}\n${content}`).digest('hex').slice(0, 15)}`
    if (isCellId(derived) && !taken.has(derived)) return derived
  }
}
