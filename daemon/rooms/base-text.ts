/**
 * The file's own text as last read or written: what saving splices into, and what merging takes as the common base. Beside it what
 * the room calls its cells, where that is not what the file says (files without ids, or with twice the same).
 *
 * A large text is kept in pieces, so that it can be written in many small transactions.
 */
import { decode, encode } from '../../protocol/codec.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import { Breathing } from '../breathing.ts'
import type { Statement, Store } from '../store/store.ts'

export interface BaseText {
  /** SHA-256 of `text`. */
  readonly hash: string
  readonly text: Uint8Array
  /** In the file's order; null: what reading the text gives. */
  readonly cell_ids: readonly CellId[] | null
}

/** Bytes of a piece; a text up to so long is one row. */
const PIECE_BYTES = 256 * 1024

interface Row {
  readonly hash: string
  readonly text: Uint8Array
  readonly cell_ids: Uint8Array | null
  readonly pieces_size: number | null
}

/** null: there is none, or a damage of the store took some of it. */
export function readBase(store: Pick<Store, 'all'>, notebookId: NotebookId): BaseText | null {
  // One statement, which sees one state of the store.
  const rows = store.all<Row & { piece: Uint8Array | null }>(
    `SELECT hash, s.text, iif(coalesce(p.piece, 0) = 0, cell_ids, NULL) AS cell_ids, pieces_size, p.text AS piece
     FROM sources s LEFT JOIN source_pieces p USING (notebook_id) WHERE s.notebook_id = ? ORDER BY p.piece`,
    notebookId,
  )
  const [first] = rows
  if (first === undefined) return null
  const { hash, pieces_size } = first
  const cell_ids = idsOf(first)
  if (pieces_size === null) return { hash, text: first.text, cell_ids }
  const pieces = rows.flatMap(({ piece }) => piece ?? [])
  if (pieces.reduce((sum, piece) => sum + piece.length, 0) !== pieces_size) return null
  return { hash, text: joined(pieces, pieces_size), cell_ids }
}

/**
 * The same, a piece at a time, so that other rooms get their turns. Of one state of the store; whoever uses it together with anything
 * else asks `isBase` in that same turn.
 */
export async function readBaseInTurns(
  store: Pick<Store, 'all' | 'get'>,
  notebookId: NotebookId,
): Promise<BaseText | null> {
  for (;;) {
    const head = store.get<Row>(
      'SELECT hash, text, cell_ids, pieces_size FROM sources WHERE notebook_id = ?',
      notebookId,
    )
    const size = head?.pieces_size ?? null
    if (!head || size === null) return readBase(store, notebookId)
    const text = new Uint8Array(size)
    let at = 0
    const breathing = new Breathing()
    for (let piece = 0; at < size; piece++) {
      const bytes = store.get<{ text: Uint8Array }>(
        'SELECT text FROM source_pieces WHERE notebook_id = ? AND piece = ?',
        notebookId,
        piece,
      )?.text
      if (bytes === undefined || at + bytes.length > size) break
      text.set(bytes, at)
      at += bytes.length
      if (breathing.due) await breathing.pause()
    }
    if (!isBase(store, notebookId, head.hash)) continue
    if (at !== size) return null
    return { hash: head.hash, text, cell_ids: idsOf(head) }
  }
}

/** Whether the base is still the one with this hash. */
export function isBase(store: Pick<Store, 'get'>, notebookId: NotebookId, hash: string): boolean {
  return (
    store.get<{ hash: string }>('SELECT hash FROM sources WHERE notebook_id = ?', notebookId)?.hash === hash
  )
}

export function hasBase(store: Pick<Store, 'get'>, notebookId: NotebookId): boolean {
  return store.get('SELECT 1 FROM sources WHERE notebook_id = ?', notebookId) !== undefined
}

export function baseRows(notebookId: NotebookId, base: BaseText): Statement[] {
  const forget = { sql: 'DELETE FROM source_pieces WHERE notebook_id = ?', values: [notebookId] }
  const pieces = [...basePieces(notebookId, base.text)]
  return [forget, ...pieces, baseRow(notebookId, base)]
}

/** The pieces of a large text, each a statement; none of a small one. */
export function* basePieces(notebookId: NotebookId, text: Uint8Array): Generator<Statement> {
  if (!isInPieces(text)) return
  for (let piece = 0; piece * PIECE_BYTES < text.length; piece++) {
    const bytes = text.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES)
    yield {
      sql: 'INSERT INTO source_pieces (notebook_id, piece, text) VALUES (?, ?, ?)',
      values: [notebookId, piece, bytes],
    }
  }
}

/** The row that says what the base is; of a large text, behind its pieces. */
export function baseRow(notebookId: NotebookId, { hash, text, cell_ids }: BaseText): Statement {
  const inPieces = isInPieces(text)
  return {
    sql: `INSERT INTO sources (notebook_id, hash, text, cell_ids, pieces_size) VALUES (?, ?, ?, ?, ?)
          ON CONFLICT (notebook_id) DO UPDATE SET hash = excluded.hash, text = excluded.text,
            cell_ids = excluded.cell_ids, pieces_size = excluded.pieces_size`,
    values: [
      notebookId,
      hash,
      inPieces ? new Uint8Array() : text,
      cell_ids && encode(cell_ids),
      inPieces ? text.length : null,
    ],
  }
}

function idsOf({ cell_ids }: Row): CellId[] | null {
  return cell_ids && (decode(cell_ids) as CellId[])
}

function isInPieces(text: Uint8Array): boolean {
  return text.length > PIECE_BYTES
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const text = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    text.set(piece, at)
    at += piece.length
  }
  return text
}
