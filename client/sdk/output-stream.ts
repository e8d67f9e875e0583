/**
 * The outputs of one run as a stream for showing: showing each item in turn shows everything exactly once, whenever it is read and
 * through whatever reconnects.
 *
 * - A `stream` output comes in pieces, each with the text that is new. Where the kernel rewrote text that was already given (a
 *   progress bar), the piece begins with the terminal's own words for it: `ESC [ n A` (n lines up, if any), `\r`, `ESC [ J`
 *   (erase from here), and then the text from the start of the first line that changed.
 * - Any other output comes when it is there, and again when it is replaced (a display update keeps its `display_id`).
 * - After `clear_output` what follows is given; what was given is not taken back.
 *
 * A reader that is slow misses nothing and holds nothing up: it gets larger pieces.
 */
import { RoomdError } from '../../protocol/errors.ts'
import type { Output } from '../../protocol/notebook.ts'
import type { ExecutionRecord, RecordChange } from './execution-record.ts'
import { charsOf, textFrom } from './long-text.ts'

/** Reads text of stream output `index` from `offset` (UTF-16 units) on, as much as comes at once. */
export type ReadText = (index: number, offset: number) => Promise<string>

interface Given {
  /** Units of its text that the reader has. */
  chars: number
  /** The text was cut below what the reader has: to here. */
  cut: number | null
  /** Ends of lines the reader was given, as offsets behind each line feed; for telling how far up a cut reaches. */
  lines: number[]
}

/** Line ends remembered of a stream; a cut further up erases from there. */
const KEPT_LINES = 1_000

export async function* streamOutputs(
  record: ExecutionRecord,
  readText: ReadText,
  signal?: AbortSignal,
): AsyncGenerator<Output, void> {
  const cursor = new Cursor(record)
  const wake = (): void => cursor.wake()
  signal?.addEventListener('abort', wake)
  try {
    for (;;) {
      if (signal?.aborted) throw new RoomdError('client_aborted', 'reading the outputs was aborted')
      const index = cursor.next()
      if (index !== undefined) {
        const output = record.output(index)
        if (!output) continue
        if (output.output_type !== 'stream') yield output
        else {
          const text = await cursor.take(index, readText)
          if (text !== '') yield { ...output, text }
        }
      } else if (record.error) throw record.error
      else if (record.terminal) return
      else await cursor.changed()
    }
  } finally {
    signal?.removeEventListener('abort', wake)
    cursor.dispose()
  }
}

/** What one reader has been given. */
class Cursor {
  readonly #record: ExecutionRecord
  readonly #unsubscribe: () => void
  /** Outputs with something new, in the order in which it arrived. */
  readonly #due = new Set<number>()
  #given: Given[] = []
  #wake: (() => void) | null = null

  constructor(record: ExecutionRecord) {
    this.#record = record
    for (let index = 0; index < record.outputCount; index++) this.#due.add(index)
    this.#unsubscribe = record.subscribe((change) => this.#on(change))
  }

  next(): number | undefined {
    const [index] = this.#due
    if (index !== undefined) this.#due.delete(index)
    return index
  }

  changed(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  /** The piece of stream output `index` that the reader does not have; '' when it has all. */
  async take(index: number, readText: ReadText): Promise<string> {
    const output = this.#record.output(index)
    if (output?.output_type !== 'stream') return ''
    this.#given[index] ??= { chars: 0, cut: null, lines: [] }
    const given = this.#given[index]
    let from = given.chars
    let prefix = ''
    if (given.cut !== null) {
      const cut = given.cut
      given.cut = null
      const up = given.lines.filter((end) => end > cut).length
      given.lines = given.lines.filter((end) => end <= cut)
      from = given.lines.at(-1) ?? 0
      prefix = `${up > 0 ? `\u001b[${up}A` : ''}\r\u001b[J`
    }
    given.chars = from
    if (from >= charsOf(output.text)) return prefix
    const here = textFrom(output.text, from)
    const text = here ?? this.#known(index, from, await readText(index, from))
    // Cut or cleared while it was read: what was read is not what is there now.
    if (here === null && (this.#given[index] !== given || given.cut !== null)) {
      if (given.cut !== null) given.cut = Math.min(given.cut, from)
      this.#due.add(index)
      return prefix
    }
    given.chars = from + text.length
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1))
      given.lines.push(from + at + 1)
    if (given.lines.length > KEPT_LINES) given.lines.splice(0, given.lines.length - KEPT_LINES)
    const now = this.#record.output(index)
    if (now?.output_type === 'stream' && given.chars < charsOf(now.text)) this.#due.add(index)
    return prefix + text
  }

  /**
   * What was read may be ahead of the events that tell of it. Giving that too would make those events look like rewriting: their
   * text begins before the end of what the reader has.
   */
  #known(index: number, from: number, read: string): string {
    const output = this.#record.output(index)
    return output?.output_type === 'stream' ? read.slice(0, Math.max(0, charsOf(output.text) - from)) : read
  }

  dispose(): void {
    this.#unsubscribe()
  }

  #on(change: RecordChange): void {
    switch (change.kind) {
      case 'output':
        delete this.#given[change.index]
        this.#due.add(change.index)
        break
      case 'spliced': {
        const given = this.#given[change.index]
        if (given && change.from < given.chars) given.cut = Math.min(given.cut ?? given.chars, change.from)
        this.#due.add(change.index)
        break
      }
      case 'cleared':
        this.#given = []
        this.#due.clear()
        break
      case 'summary':
      case 'failed':
        break
    }
    this.wake()
  }

  wake(): void {
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }
}
