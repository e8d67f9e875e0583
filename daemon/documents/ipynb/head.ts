/**
 * The beginning of a large notebook without reading all of it: its version, its metadata, how many cells it has, and the first of
 * them. One pass over the bytes finds where each cell begins and ends; only what is asked for is parsed, so 20 MB take a tenth of
 * the time that reading them whole takes. The same pass lets the cells be read some at a time (pieces.ts).
 *
 * It judges nothing. What it tells is what `readNotebook` of the same bytes tells, or nothing: whatever is out of the ordinary
 * (another format, ids that would have to be made, a key twice, text that is no JSON where it looks) is null, and reading the whole
 * says what is wrong and where. Bytes behind the first cells are not checked for being JSON.
 */

import { isRecord } from './outputs.ts'
import type { ParsedFile } from './parse.ts'
import { type FileCell, metadataOf, readCells } from './read.ts'

export interface NotebookHead {
  readonly metadata: Record<string, unknown>
  /** The first cells, at least one if there is any. */
  readonly cells: readonly FileCell[]
  /** Cells of the whole notebook. */
  readonly total: number
}

/** What is read: this many cells, or until they are this many bytes. */
export interface HeadSize {
  readonly cells: number
  readonly bytes: number
}

/** null: it cannot be told without reading the whole. */
export function readHead(bytes: Uint8Array, path: string, size: HeadSize): NotebookHead | null {
  return readScanned(bytes, path, size)?.head ?? null
}

/** The same, with where everything lies. */
export function readScanned(
  bytes: Uint8Array,
  path: string,
  size: HeadSize,
): { readonly head: NotebookHead; readonly parts: NotebookParts } | null {
  try {
    const parts = new Scan(bytes).notebook()
    const head = parts && headOf(bytes, path, parts, size)
    return head && { head, parts }
  } catch {
    // Whatever it is, reading the whole names it.
    return null
  }
}

/** Where a value lies: from its first byte to behind its last. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** Where the parts of a notebook lie. Commas and blanks are all there is between its cells. */
export interface NotebookParts {
  readonly members: ReadonlyMap<string, Range>
  readonly cells: readonly Range[]
  /** Some number in it is whole and has so many digits that a double may not hold it. */
  readonly longNumbers: boolean
}

const VERSION_4 = 4

function headOf(
  bytes: Uint8Array,
  path: string,
  { members, cells: ranges }: NotebookParts,
  size: HeadSize,
): NotebookHead | null {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const value = ({ from, to }: Range): unknown => JSON.parse(text.decode(bytes.subarray(from, to)))
  const member = (name: string): unknown => {
    const range = members.get(name)
    return range && value(range)
  }
  const nbformat_minor = member('nbformat_minor') ?? 0
  if (member('nbformat') !== VERSION_4 || !Number.isInteger(nbformat_minor) || Number(nbformat_minor) < 0)
    return null
  const metadata = member('metadata')
  if (!isRecord(metadata)) return null
  const file: ParsedFile = {
    path,
    text: '',
    start: 0,
    lenient: false,
    value: { metadata, cells: ranges.slice(0, countOf(ranges, size)).map(value) },
    nbformat: VERSION_4,
    nbformat_minor: Number(nbformat_minor),
    warnings: [],
  }
  const cells = readCells(file, null)
  // An id that is made depends on all cells.
  if (cells.some((cell) => cell.own_id === null)) return null
  return { metadata: metadataOf(file), cells, total: ranges.length }
}

/** Cells of the head. */
function countOf(ranges: readonly Range[], size: HeadSize): number {
  let count = 0
  let bytes = 0
  for (const { from, to } of ranges) {
    if (count >= size.cells || bytes >= size.bytes) break
    count++
    bytes += to - from
  }
  return count
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const MINUS = 0x2d
const PLUS = 0x2b
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Bytes of a string that are looked at one by one before the rest is searched for its end. */
const SHORT_STRING = 128

/** Digits of a whole number from which on a double may not hold it. */
const LONG_NUMBER = 16

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

/** A point or an exponent. */
function isFraction(byte: number): boolean {
  return byte === 0x2e || byte === 0x65 || byte === 0x45
}

class Odd extends Error {}

/** From a string's quote to behind the last one. */
function endOfString(bytes: Uint8Array, quote: number): number {
  let at = quote + 1
  for (const near = Math.min(bytes.length, at + SHORT_STRING); at < near; ) {
    const byte = bytes[at]
    if (byte === QUOTE) return at + 1
    at += byte === BACKSLASH ? 2 : 1
  }
  for (let from = at; ; ) {
    const end = bytes.indexOf(QUOTE, from)
    if (end < 0) throw new Odd()
    let before = end
    while (before > at && bytes[before - 1] === BACKSLASH) before--
    if ((end - before) % 2 === 0) return end + 1
    from = end + 1
  }
}

class Scan {
  readonly #bytes: Uint8Array
  #at = 0
  #longNumbers = false

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  notebook(): NotebookParts | null {
    const members = new Map<string, Range>()
    let cells: Range[] | null = null
    this.#expect(OPEN_OBJECT)
    for (let more = this.#peek() !== CLOSE_OBJECT; more; more = this.#more(CLOSE_OBJECT)) {
      const key = this.#key()
      if (members.has(key)) return null
      this.#expect(COLON)
      const from = this.#skipSpace()
      if (key === 'cells') cells = this.#cells()
      else this.#skipValue()
      members.set(key, { from, to: this.#at })
    }
    this.#expect(CLOSE_OBJECT)
    if (this.#skipSpace() < this.#bytes.length) return null
    return cells && { members, cells, longNumbers: this.#longNumbers }
  }

  #cells(): Range[] {
    const ranges: Range[] = []
    this.#expect(OPEN_LIST)
    for (let more = this.#peek() !== CLOSE_LIST; more; more = this.#more(CLOSE_LIST)) {
      const from = this.#skipSpace()
      this.#skipValue()
      ranges.push({ from, to: this.#at })
    }
    this.#expect(CLOSE_LIST)
    return ranges
  }

  /** Behind a value of a list or an object: whether another follows. */
  #more(close: number): boolean {
    const next = this.#peek()
    if (next === close) return false
    this.#expect(COMMA)
    return true
  }

  #key(): string {
    const from = this.#skipSpace()
    if (this.#bytes[from] !== QUOTE) throw new Odd()
    this.#at = endOfString(this.#bytes, this.#at)
    return String(
      JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(this.#bytes.subarray(from, this.#at))),
    )
  }

  #skipValue(): void {
    const bytes = this.#bytes
    const first = bytes[this.#at]
    if (first === QUOTE) {
      this.#at = endOfString(bytes, this.#at)
      return
    }
    if (first !== OPEN_LIST && first !== OPEN_OBJECT) {
      this.#skipWord()
      return
    }
    let at = this.#at
    let depth = 0
    while (at < bytes.length) {
      const byte = bytes[at]
      if (byte === QUOTE) {
        at = endOfString(bytes, at)
        continue
      }
      if (byte !== undefined && isDigit(byte)) {
        at = this.#number(at)
        continue
      }
      at++
      if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++
      else if ((byte === CLOSE_LIST || byte === CLOSE_OBJECT) && --depth === 0) {
        this.#at = at
        return
      }
    }
    throw new Odd()
  }

  /** From digits to behind them. Only those of a whole number are counted: others lose digits in any program. */
  #number(from: number): number {
    const bytes = this.#bytes
    let at = from + 1
    while (isDigit(bytes[at] ?? 0)) at++
    if (at - from >= LONG_NUMBER) {
      const before = bytes[from - 1] ?? 0
      const behind = bytes[at] ?? 0
      const whole = !isFraction(before) && before !== PLUS && !isFraction(behind)
      // Behind an exponent's minus it is none either; a whole number's minus stands behind something else.
      if (whole && !(before === MINUS && isFraction(bytes[from - 2] ?? 0))) this.#longNumbers = true
    }
    return at
  }

  /** A number, true, false or null. */
  #skipWord(): void {
    const from = this.#at
    if (isDigit(this.#bytes[from] ?? 0) || this.#bytes[from] === MINUS)
      this.#number(this.#bytes[from] === MINUS ? from + 1 : from)
    for (;;) {
      const byte = this.#bytes[this.#at]
      if (
        byte === undefined ||
        byte === COMMA ||
        byte === CLOSE_LIST ||
        byte === CLOSE_OBJECT ||
        byte <= 0x20
      )
        break
      this.#at++
    }
    if (this.#at === from) throw new Odd()
  }

  #expect(byte: number): void {
    if (this.#peek() !== byte) throw new Odd()
    this.#at++
  }

  #peek(): number | undefined {
    return this.#bytes[this.#skipSpace()]
  }

  #skipSpace(): number {
    for (;;) {
      const byte = this.#bytes[this.#at]
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return this.#at
      this.#at++
    }
  }
}
