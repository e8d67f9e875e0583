/**
 * A large notebook read some cells at a time, so that what is made of the first ones is on its way while the last ones are not yet
 * parsed, and so that no more of it is in memory as objects than is being looked at.
 *
 * Ordinary notebooks only: format 4, every cell with an id of its own, nothing that reading would warn of. Whatever else it meets
 * (text that is no JSON, an id twice, an output that cannot be shown, numbers that JSON does not keep) is an `OutOfOrdinary`,
 * at whichever cell it comes; who reads then starts anew and reads the whole, which knows all of that and names it. What it gives
 * until then, and all of it if it comes to the end, is what `readNotebook` of the same bytes gives.
 */
import type { NotebookParts, Range } from './head.ts'
import type { ParsedFile } from './parse.ts'
import { type FileCell, type NotebookFile, notebookOf, readCells } from './read.ts'
import { ValidationInPieces } from './validate.ts'

/** Bytes of text that are parsed at once: a few milliseconds. */
const PIECE_BYTES = 256 * 1024

/** It must be read as a whole. */
export class OutOfOrdinary extends Error {}

export class NotebookPieces {
  readonly #bytes: Uint8Array
  readonly #path: string
  readonly #parts: NotebookParts
  readonly #text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  readonly #members: Readonly<Record<string, unknown>>
  readonly #validation: ValidationInPieces
  readonly #ids = new Set<string>()

  /** `parts` are of these bytes, of which a head could be read. Throws `OutOfOrdinary`. */
  constructor(bytes: Uint8Array, path: string, parts: NotebookParts) {
    if (parts.longNumbers) throw new OutOfOrdinary()
    this.#bytes = bytes
    this.#path = path
    this.#parts = parts
    const members: Record<string, unknown> = {}
    for (const [name, range] of parts.members) if (name !== 'cells') members[name] = this.#parse(range)
    this.#members = members
    this.#validation = new ValidationInPieces(this.#minor)
  }

  get #minor(): number {
    return Number(this.#members.nbformat_minor ?? 0)
  }

  /** All but the cells and the warnings. */
  get notebook(): Omit<NotebookFile, 'cells' | 'warnings'> {
    return notebookOf(this.#file([]))
  }

  /** In their order. Throws `OutOfOrdinary`. */
  *cells(): Generator<FileCell> {
    const { cells } = this.#parts
    for (let next = 0; next < cells.length; ) {
      const first = next
      const from = cells[first]?.from ?? 0
      let to = from
      while (next < cells.length && to - from < PIECE_BYTES) to = cells[next++]?.to ?? to
      yield* this.#piece(first, next - first, { from, to })
    }
  }

  /** Behind the last cell: what breaks the format's rules. */
  warnings(): NotebookFile['warnings'] {
    return this.#validation.end(this.#members)
  }

  #piece(first: number, count: number, { from, to }: Range): FileCell[] {
    const values = this.#parse({ from, to }, '[', ']')
    if (!Array.isArray(values) || values.length !== count) throw new OutOfOrdinary()
    const file = this.#file(values)
    const read = ordinary(() => readCells(file, null))
    if (file.warnings.length > 0) throw new OutOfOrdinary()
    for (const { own_id } of read) {
      // An id that is made depends on all cells.
      if (own_id === null || this.#ids.has(own_id)) throw new OutOfOrdinary()
      this.#ids.add(own_id)
    }
    this.#validation.cells(values, first)
    return read
  }

  #file(cells: readonly unknown[]): ParsedFile {
    return {
      path: this.#path,
      text: '',
      start: 0,
      lenient: false,
      value: { ...this.#members, cells },
      nbformat: Number(this.#members.nbformat),
      nbformat_minor: this.#minor,
      warnings: [],
    }
  }

  #parse({ from, to }: Range, before = '', behind = ''): unknown {
    return ordinary(() => {
      const text = `${before}${this.#text.decode(this.#bytes.subarray(from, to))}${behind}`
      return JSON.parse(text) as unknown
    })
  }
}

/** Whatever is thrown, reading the whole says it better. */
function ordinary<Result>(read: () => Result): Result {
  try {
    return read()
  } catch {
    throw new OutOfOrdinary()
  }
}
