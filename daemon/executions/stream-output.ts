/**
 * One stream output: the text a terminal would show, kept in pieces of rows so that a change costs what it changes, whatever the
 * length of the whole. In memory is only what can still change and what snapshots show of both ends.
 *
 * Invariants: pieces are contiguous and at most PIECE_UNITS long; no piece begins or ends inside a surrogate pair; up to
 * INLINE_LIMIT bytes the text is in the output's own row, and once it was longer it stays in pieces.
 */
import { encode } from '../../protocol/codec.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import { INLINE_LIMIT, type Output, type TextValue } from '../../protocol/notebook.ts'
import type { Statement, Store } from '../store/store.ts'
import { wholeUnits } from './change.ts'
import { lastPieces, longText, SHOWN_UNITS, type StoredOutput } from './reading.ts'
import { type Splice, type TerminalState, TerminalText } from './terminal.ts'

const PIECE_UNITS = 64 * 1024
/** A last piece shorter than this is written again with what is appended to it. */
const SHORT_PIECE = 4 * 1024

interface Piece {
  readonly offset: number
  text: string
  bytes: number
}

export class StreamOutput {
  readonly name: string
  #terminal = new TerminalText()
  #finished = false
  /** The last pieces; all of them while the text is short. */
  #pieces: Piece[] = []
  /** Beginning of the text as far as it is no longer in `#pieces`; at most SHOWN_UNITS. */
  #head = ''
  #chars = 0
  #bytes = 0
  /** Units cut off at the front, when only the end is kept. */
  #front = 0
  /** Offset and bytes of every piece, kept where the front may be cut off. */
  #sizes: { offset: number; bytes: number }[] | null = null
  #piecewise = false
  /** Offset of the first piece that differs from the rows. */
  #changedFrom = Number.POSITIVE_INFINITY
  #cutBefore: number | null = null
  /** Offset of the last piece in rows; -1: there is none. */
  #lastRow = -1
  #bodyTold = ''

  /** `cuttable`: `cutFront` may be called. */
  constructor(name: string, cuttable: boolean) {
    this.name = name
    if (cuttable) this.#sizes = []
  }

  /** Goes on with a stored stream, from its row and the end of its pieces. */
  static resume(
    store: Store,
    executionId: ExecutionId,
    index: number,
    stored: Extract<StoredOutput, { output_type: 'stream' }>,
    cuttable: boolean,
  ): StreamOutput {
    const stream = new StreamOutput(stored.name, cuttable)
    if (!stored.pieces) {
      const text = typeof stored.text === 'string' ? stored.text : ''
      stream.#append(text)
      stream.#changedFrom = Number.POSITIVE_INFINITY
      stream.#terminal = TerminalText.resume(0, text, stored.terminal ?? null)
      return stream
    }
    const sizes = store.all<{ offset: number; bytes: number }>(
      `SELECT char_offset AS offset, length(CAST(text AS BLOB)) AS bytes FROM output_pieces
       WHERE execution_id = ? AND output_index = ? ORDER BY char_offset`,
      executionId,
      index,
    )
    const pieces = lastPieces(store, executionId, index, PIECE_UNITS)
    const first = pieces[0]?.char_offset ?? 0
    const tail = pieces.map((piece) => piece.text).join('')
    stream.#piecewise = true
    stream.#front = sizes[0]?.offset ?? 0
    stream.#pieces = pieces.map(({ char_offset, text }) => ({
      offset: char_offset,
      text,
      bytes: Buffer.byteLength(text),
    }))
    stream.#chars = first + tail.length
    stream.#bytes = sizes.reduce((sum, { bytes }) => sum + bytes, 0)
    stream.#lastRow = sizes.at(-1)?.offset ?? -1
    if (stream.#sizes) stream.#sizes = sizes
    if (first > stream.#front) {
      const beginning = store.get<{ text: string }>(
        'SELECT text FROM output_pieces WHERE execution_id = ? AND output_index = ? AND char_offset = ?',
        executionId,
        index,
        stream.#front,
      )
      stream.#head = beginning?.text.slice(0, SHOWN_UNITS) ?? ''
    }
    stream.#terminal = TerminalText.resume(first, tail, stored.terminal ?? null)
    return stream
  }

  /** A stream whose text is complete and stays as it is. */
  static finished(name: string, text: string): StreamOutput {
    const stream = new StreamOutput(name, false)
    stream.apply({ from: 0, text })
    stream.#finished = true
    return stream
  }

  /** Bytes of the text as it is now. */
  get bytes(): number {
    return this.#bytes
  }

  get chars(): number {
    return this.#chars
  }

  /** What `text` would change of the whole. Nothing is changed before `apply`. */
  feed(text: string): Splice | null {
    this.#finished = false
    return this.#terminal.feed(text)
  }

  /** Nothing follows for now. */
  finish(): Splice | null {
    this.#finished = true
    return this.#terminal.finish()
  }

  /** Carries out a splice that `feed` or `finish` told. */
  apply(splice: Splice): void {
    if (splice.from < this.#chars) this.#cut(splice.from)
    this.#append(splice.text)
    if (this.#bytes > INLINE_LIMIT) this.#piecewise = true
  }

  /** Cuts at least `bytes` off the front, in whole pieces, never the last one. Returns how many bytes went. */
  cutFront(bytes: number): number {
    const sizes = this.#sizes
    if (!sizes) throw new Error('this stream keeps its beginning')
    let cut = 0
    let count = 0
    while (cut < bytes && count < sizes.length - 1) cut += sizes[count++]?.bytes ?? 0
    if (count === 0) return 0
    this.#piecewise = true
    this.#front = sizes[count]?.offset ?? this.#front
    this.#sizes = sizes.slice(count)
    this.#bytes -= cut
    this.#head = ''
    this.#pieces = this.#pieces.filter((piece) => piece.offset >= this.#front)
    this.#cutBefore = this.#front
    return cut
  }

  /** The output as snapshots show it. */
  snapshot(): Extract<Output, { output_type: 'stream' }> {
    const whole = this.#whole
    if (whole && this.#bytes <= INLINE_LIMIT) return this.#shown(this.#text(0))
    const head = whole ? this.#text(0).slice(0, SHOWN_UNITS) : this.#head
    const end = this.#text(this.#chars - SHOWN_UNITS).slice(-SHOWN_UNITS)
    return this.#shown(longText(this.#bytes, this.#chars - this.#front, head, end))
  }

  /** The output for who follows it from now on: whole while all of it is here, else its beginning and all that a splice may still cut. */
  changeable(): Extract<Output, { output_type: 'stream' }> {
    const text = this.#text(0)
    if (this.#whole) return this.#shown(text)
    return this.#shown(longText(this.#bytes, this.#chars - this.#front, this.#head, text))
  }

  get #whole(): boolean {
    return (this.#pieces[0]?.offset ?? this.#chars) === this.#front
  }

  /** What is here of the text, from the piece on that has unit `from`. */
  #text(from: number): string {
    return this.#pieces
      .filter((piece) => piece.offset + piece.text.length > from)
      .map((piece) => piece.text)
      .join('')
  }

  #shown(text: TextValue): Extract<Output, { output_type: 'stream' }> {
    return { output_type: 'stream', name: this.name, text }
  }

  /** Statements that make the rows what this is now. */
  rows(executionId: ExecutionId, index: number): Statement[] {
    const statements: Statement[] = []
    this.#writeBody(statements, executionId, index)
    if (this.#piecewise) this.#writePieces(statements, executionId, index)
    this.#changedFrom = Number.POSITIVE_INFINITY
    this.#cutBefore = null
    this.#forget()
    return statements
  }

  #writeBody(statements: Statement[], executionId: ExecutionId, index: number): void {
    const state: TerminalState | null = this.#terminal.state
    // While it grows in pieces its row stays as it is.
    const growing = this.#piecewise && !this.#finished
    const stored: StoredOutput = {
      ...(growing ? this.#shown('') : this.snapshot()),
      ...(this.#piecewise ? { pieces: true } : {}),
      ...(state ? { terminal: state } : {}),
    }
    const told = JSON.stringify([stored.text, state])
    if (told === this.#bodyTold) return
    this.#bodyTold = told
    statements.push({
      sql: 'INSERT OR REPLACE INTO outputs (execution_id, output_index, body) VALUES (?, ?, ?)',
      values: [executionId, index, encode(stored)],
    })
  }

  #writePieces(statements: Statement[], executionId: ExecutionId, index: number): void {
    if (this.#cutBefore !== null) {
      statements.push({
        sql: 'DELETE FROM output_pieces WHERE execution_id = ? AND output_index = ? AND char_offset < ?',
        values: [executionId, index, this.#cutBefore],
      })
    }
    // Pieces that were kept in the output's own row until now are all new.
    const from = this.#lastRow < 0 ? this.#front : this.#changedFrom
    const fresh = this.#pieces.filter((piece) => piece.offset >= from)
    if (this.#lastRow >= from && (this.#lastRow > from || fresh.length === 0)) {
      statements.push({
        sql: 'DELETE FROM output_pieces WHERE execution_id = ? AND output_index = ? AND char_offset >= ?',
        values: [executionId, index, from],
      })
    }
    for (const piece of fresh) {
      statements.push({
        sql: 'INSERT OR REPLACE INTO output_pieces (execution_id, output_index, char_offset, text) VALUES (?, ?, ?, ?)',
        values: [executionId, index, piece.offset, piece.text],
      })
    }
    this.#lastRow = this.#pieces.at(-1)?.offset ?? -1
  }

  #cut(from: number): void {
    for (let last = this.#pieces.at(-1); last && last.offset >= from; last = this.#pieces.at(-1)) {
      this.#pieces.pop()
      this.#sizes?.pop()
      this.#bytes -= last.bytes
      this.#changed(last.offset)
    }
    const last = this.#pieces.at(-1)
    if (last && last.offset + last.text.length > from)
      this.#rewrite(last, last.text.slice(0, from - last.offset))
    this.#chars = from
  }

  #append(text: string): void {
    let rest = text
    const last = this.#pieces.at(-1)
    if (last && last.text.length < SHORT_PIECE && rest !== '') {
      const taken = rest.slice(0, wholeUnits(rest, PIECE_UNITS - last.text.length))
      this.#rewrite(last, last.text + taken)
      this.#chars += taken.length
      rest = rest.slice(taken.length)
    }
    while (rest !== '') {
      const piece = rest.slice(0, wholeUnits(rest, PIECE_UNITS))
      const bytes = Buffer.byteLength(piece)
      this.#pieces.push({ offset: this.#chars, text: piece, bytes })
      this.#sizes?.push({ offset: this.#chars, bytes })
      this.#changed(this.#chars)
      this.#bytes += bytes
      this.#chars += piece.length
      rest = rest.slice(piece.length)
    }
  }

  #rewrite(piece: Piece, text: string): void {
    const bytes = Buffer.byteLength(text)
    this.#bytes += bytes - piece.bytes
    piece.text = text
    piece.bytes = bytes
    const size = this.#sizes?.at(-1)
    if (size) size.bytes = bytes
    this.#changed(piece.offset)
  }

  #changed(offset: number): void {
    if (offset < this.#changedFrom) this.#changedFrom = offset
  }

  /** Lets go of pieces that can no longer change and that no snapshot shows. */
  #forget(): void {
    const keep = Math.min(this.#terminal.base, this.#chars - 2 * SHOWN_UNITS)
    let count = 0
    for (const piece of this.#pieces) {
      if (piece.offset + piece.text.length > keep) break
      if (this.#head.length < SHOWN_UNITS && piece.offset === this.#front + this.#head.length)
        this.#head += piece.text.slice(0, SHOWN_UNITS - this.#head.length)
      count++
    }
    if (count > 0) this.#pieces.splice(0, count)
  }
}
