/**
 * Reads executions and outputs from the store: what is committed, whoever asks, with or without a room in memory. Positions that
 * outsiders use are dense (0, 1, 2, …); `output_index` in rows may have holes where output was left out.
 */
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import {
  type Execution,
  type ExecutionSummary,
  INLINE_LIMIT,
  isTerminal,
  type LongText,
  type Output,
} from '../../protocol/notebook.ts'
import type { Store } from '../store/store.ts'
import type { Blobs } from './blobs.ts'
import { type ExecutionRow, executionColumns, summaryOf } from './rows.ts'
import type { TerminalState } from './terminal.ts'
import { blobRefOf, readValue } from './values.ts'

/** Units of a long text that snapshots show of its beginning and of its end. */
export const SHOWN_UNITS = 4096

/** An output as its row has it. `pieces`: the stream's text is in output_pieces. `terminal`: see TerminalText.state. */
export type StoredOutput = Output & { pieces?: true; terminal?: TerminalState }

export interface ReadOutput {
  /** `output_index` of the row. */
  readonly index: number
  readonly output: Output
}

/** Outputs as snapshots carry them, in order. */
export function readStoredOutputs(store: Store, executionId: ExecutionId): ReadOutput[] {
  return readRows(store, executionId).map(({ index, stored }) => ({
    index,
    output: shown(store, executionId, index, stored),
  }))
}

export function readRows(store: Store, executionId: ExecutionId): { index: number; stored: StoredOutput }[] {
  return store
    .all<{ output_index: number; body: Uint8Array }>(
      'SELECT output_index, body FROM outputs WHERE execution_id = ? ORDER BY output_index',
      executionId,
    )
    .map((row) => ({ index: row.output_index, stored: decode(row.body) as StoredOutput }))
}

/** The execution with its outputs, as committed; undefined: there is none of this id (any more). */
export function readExecution(store: Store, executionId: ExecutionId): Execution | undefined {
  const row = store.get<ExecutionRow>(
    `SELECT ${executionColumns} FROM executions e WHERE execution_id = ?`,
    executionId,
  )
  if (!row) return undefined
  return { ...summaryOf(row), outputs: readStoredOutputs(store, executionId).map((read) => read.output) }
}

/** What a cell shows, as committed, as a picture has it. */
export function readShown(
  store: Store,
  notebookId: NotebookId,
  cellId: CellId,
): { execution?: ExecutionSummary; outputs: Output[] } {
  const row = store.get<ExecutionRow>(
    `SELECT ${executionColumns} FROM cell_executions c JOIN executions e USING (execution_id)
     WHERE c.notebook_id = ? AND c.cell_id = ?`,
    notebookId,
    cellId,
  )
  if (!row) return { outputs: [] }
  const execution = summaryOf(row)
  if (!isTerminal(execution.status)) return { execution, outputs: [] }
  return { execution, outputs: readStoredOutputs(store, row.execution_id).map(({ output }) => output) }
}

/** A cell, and the execution that it shows. */
export interface ShownExecution {
  readonly cell_id: CellId
  readonly execution: ExecutionSummary
}

/** Rows that are read and told at once. */
const SHOWN_AT_ONCE = 200

/** What all cells of a room show, as committed, some at a time. */
export function* readAllShown(
  store: Pick<Store, 'all'>,
  notebookId: NotebookId,
): Generator<readonly ShownExecution[]> {
  for (let after = ''; ; ) {
    const rows = store.all<ExecutionRow & { shown_by: CellId }>(
      `SELECT c.cell_id AS shown_by, ${executionColumns} FROM cell_executions c JOIN executions e USING (execution_id)
       WHERE c.notebook_id = ? AND c.cell_id > ? ORDER BY c.cell_id LIMIT ?`,
      notebookId,
      after,
      SHOWN_AT_ONCE,
    )
    const last = rows.at(-1)
    if (!last) return
    after = last.shown_by
    yield rows.map((row) => ({ cell_id: row.shown_by, execution: summaryOf(row) }))
  }
}

export interface TextSlice {
  readonly text: string
  readonly offset: number
  /** null: nothing follows. */
  readonly next_offset: number | null
  /** Length of the whole, in UTF-16 units. */
  readonly chars: number
}

/**
 * A slice of an output's text (a stream's text, an error's traceback) or of one of its values (`mime`; base64 for binary ones, JSON
 * text for JSON). Offsets are UTF-16 units and never part a surrogate pair. Rejects `not_found` naming what is missing.
 */
export async function readOutputText(
  store: Store,
  blobs: Blobs,
  wanted: { execution_id: ExecutionId; index: number; mime?: string; offset: number; length: number },
): Promise<TextSlice> {
  const { execution_id, index, offset, length } = wanted
  const row = store.get<{ output_index: number; body: Uint8Array }>(
    'SELECT output_index, body FROM outputs WHERE execution_id = ? ORDER BY output_index LIMIT 1 OFFSET ?',
    execution_id,
    index,
  )
  if (!row) {
    throw new RoomdError(
      'not_found',
      `execution ${execution_id} has no output ${index}; get_results lists the outputs it has`,
      { next: { tool: 'get_results', arguments: { execution_id } } },
    )
  }
  const stored = decode(row.body) as StoredOutput
  switch (stored.output_type) {
    case 'stream':
      return stored.pieces
        ? slicePieces(store, execution_id, row.output_index, offset, length)
        : sliceText(typeof stored.text === 'string' ? stored.text : '', offset, length)
    case 'error':
      return sliceText(stored.traceback.join('\n') || `${stored.ename}: ${stored.evalue}`, offset, length)
    case 'display_data':
    case 'execute_result': {
      const mime =
        wanted.mime ?? (Object.hasOwn(stored.data, 'text/plain') ? 'text/plain' : firstOf(stored.data))
      if (mime === undefined || !Object.hasOwn(stored.data, mime)) {
        const has = Object.keys(stored.data).join(', ') || 'no values'
        throw new RoomdError(
          'not_found',
          `output ${index} of execution ${execution_id} has ${has}, not ${mime}`,
        )
      }
      const value = await readValue(mime, stored.data[mime], blobs)
      return sliceText(typeof value === 'string' ? value : JSON.stringify(value), offset, length)
    }
  }
}

/** The whole text of a stored stream. */
export function readStreamText(
  store: Store,
  executionId: ExecutionId,
  index: number,
  output: Extract<Output, { output_type: 'stream' }>,
): string {
  if (typeof output.text === 'string') return output.text
  return store
    .all<{ text: string }>(
      'SELECT text FROM output_pieces WHERE execution_id = ? AND output_index = ? ORDER BY char_offset',
      executionId,
      index,
    )
    .map((piece) => piece.text)
    .join('')
}

/** Beginning and end of a text that is too long for a snapshot. `size` in bytes. */
export function longText(size: number, chars: number, head: string, tail: string): LongText {
  return { size, chars, head: wholeEnd(head), tail: wholeStart(tail) }
}

/** `text` itself when it is short enough for a snapshot. */
export function textValue(text: string): string | LongText {
  const size = Buffer.byteLength(text)
  if (size <= INLINE_LIMIT) return text
  return longText(size, text.length, text.slice(0, SHOWN_UNITS), text.slice(-SHOWN_UNITS))
}

/** The output without what only rows carry, its text shortened. */
function shown(store: Store, executionId: ExecutionId, index: number, stored: StoredOutput): Output {
  if (stored.output_type !== 'stream') return stored
  const { output_type, name } = stored
  if (!stored.pieces || typeof stored.text !== 'string') return { output_type, name, text: stored.text }
  // Still being written: its length is nowhere but in its pieces.
  const total = store.get<{ size: number | null; first: number | null }>(
    'SELECT sum(length(CAST(text AS BLOB))) AS size, min(char_offset) AS first FROM output_pieces WHERE execution_id = ? AND output_index = ?',
    executionId,
    index,
  )
  const ends = lastPieces(store, executionId, index, SHOWN_UNITS)
  const last = ends.at(-1)
  if (!total || total.size === null || total.first === null || !last) return { output_type, name, text: '' }
  const head = slicePieces(store, executionId, index, 0, SHOWN_UNITS).text
  const tail = ends
    .map((piece) => piece.text)
    .join('')
    .slice(-SHOWN_UNITS)
  const chars = last.char_offset + last.text.length - total.first
  return { output_type, name, text: longText(total.size, chars, head, tail) }
}

export interface PieceRow {
  char_offset: number
  text: string
}

/** The last pieces that together have at least `units`, in order. */
export function lastPieces(store: Store, executionId: ExecutionId, index: number, units: number): PieceRow[] {
  const pieces: PieceRow[] = []
  let have = 0
  for (let before = Number.MAX_SAFE_INTEGER; have < units; ) {
    const piece = store.get<PieceRow>(
      `SELECT char_offset, text FROM output_pieces WHERE execution_id = ? AND output_index = ? AND char_offset < ?
       ORDER BY char_offset DESC LIMIT 1`,
      executionId,
      index,
      before,
    )
    if (!piece) break
    pieces.unshift(piece)
    have += piece.text.length
    before = piece.char_offset
  }
  return pieces
}

function slicePieces(
  store: Store,
  executionId: ExecutionId,
  index: number,
  offset: number,
  length: number,
): TextSlice {
  const ends = store.get<{ first: number | null; last: number | null }>(
    'SELECT min(char_offset) AS first, max(char_offset) AS last FROM output_pieces WHERE execution_id = ? AND output_index = ?',
    executionId,
    index,
  )
  if (!ends || ends.first === null || ends.last === null) return sliceText('', offset, length)
  const lastText = store.get<{ text: string }>(
    'SELECT text FROM output_pieces WHERE execution_id = ? AND output_index = ? AND char_offset = ?',
    executionId,
    index,
    ends.last,
  )?.text
  const chars = ends.last + (lastText?.length ?? 0) - ends.first
  const start = ends.first + offset
  const pieces = store.all<PieceRow>(
    `SELECT char_offset, text FROM output_pieces WHERE execution_id = ? AND output_index = ? AND char_offset < ?
       AND char_offset >= (SELECT max(char_offset) FROM output_pieces
                           WHERE execution_id = ? AND output_index = ? AND char_offset <= ?)
     ORDER BY char_offset`,
    executionId,
    index,
    start + length + 1,
    executionId,
    index,
    start,
  )
  const base = (pieces[0]?.char_offset ?? start) - ends.first
  const slice = sliceText(pieces.map((piece) => piece.text).join(''), offset - base, length)
  return place(slice.text, offset, chars)
}

function sliceText(text: string, offset: number, length: number): TextSlice {
  let end = Math.min(text.length, offset + length)
  if (end < text.length && isHigh(text.charCodeAt(end - 1))) end += end - 1 > offset ? -1 : 1
  return place(text.slice(offset, end), offset, text.length)
}

function place(text: string, offset: number, chars: number): TextSlice {
  const next = offset + text.length
  return { text, offset, next_offset: next < chars && text.length > 0 ? next : null, chars }
}

function firstOf(data: Record<string, unknown>): string | undefined {
  return Object.keys(data).find((mime) => !blobRefOf(data[mime])) ?? Object.keys(data)[0]
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

function wholeEnd(text: string): string {
  return isHigh(text.charCodeAt(text.length - 1)) ? text.slice(0, -1) : text
}

function wholeStart(text: string): string {
  const unit = text.charCodeAt(0)
  return unit >= 0xdc00 && unit <= 0xdfff ? text.slice(1) : text
}
