/**
 * The file's own text as last read or written: what saving splices into, and what merging takes as the common base. Beside it what
 * the room calls its cells, where that is not what the file says (files without ids, or with twice the same).
 */
import { decode, encode } from '../../protocol/codec.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'

export interface BaseText {
  /** SHA-256 of `text`. */
  readonly hash: string
  readonly text: Uint8Array
  /** In the file's order; null: what reading the text gives. */
  readonly cell_ids: readonly CellId[] | null
}

export function readBase(store: Pick<Store, 'get'>, notebookId: NotebookId): BaseText | null {
  const row = store.get<{ hash: string; text: Uint8Array; cell_ids: Uint8Array | null }>(
    'SELECT hash, text, cell_ids FROM sources WHERE notebook_id = ?',
    notebookId,
  )
  if (row === undefined) return null
  return { ...row, cell_ids: row.cell_ids && (decode(row.cell_ids) as CellId[]) }
}

export function baseRows(notebookId: NotebookId, base: BaseText): Statement[] {
  return [
    {
      sql: `INSERT INTO sources (notebook_id, hash, text, cell_ids) VALUES (?, ?, ?, ?)
            ON CONFLICT (notebook_id) DO UPDATE SET
              hash = excluded.hash, text = excluded.text, cell_ids = excluded.cell_ids`,
      values: [notebookId, base.hash, base.text, base.cell_ids && encode(base.cell_ids)],
    },
  ]
}
