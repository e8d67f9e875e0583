/**
 * What a terminal would show of a stream, as one growing text: carriage return, backspace, cursor movement and erasing are carried
 * out, colours and links are kept as sequences in the text. Pure: no clock, no store.
 *
 * `feed` takes text in whatever pieces it comes and tells the change as one splice: cut the whole text at `from` (UTF-16 units),
 * append `text`. The result does not depend on how the text was cut into pieces. Only the last REACH lines can still change, as
 * on a screen of that height; what is above is settled, so memory and work are bounded by what can change, not by the whole text.
 * A column is one code point (with its combining marks); a line longer than LONG_LINE settles from its start.
 */
import { type Attributes, afterLink, LONGEST as LONGEST_SEQUENCE, sequenceAt, transition } from './ansi.ts'
import {
  characterStart,
  commonPrefix,
  emptyLine,
  type Line,
  readCharacters,
  widthOf,
  writeCharacters,
} from './terminal-line.ts'
import { REACH, TerminalScreen } from './terminal-screen.ts'

/** UTF-16 units of one line beyond which its beginning is settled. */
const LONG_LINE = 64 * 1024
const LONG_LINE_KEPT = 4 * 1024
/** An end of so many units without an escape character is not inside a sequence where it is cut at LONG_LINE_KEPT. */
const PLAIN_END = LONG_LINE_KEPT + 2 * LONGEST_SEQUENCE

export interface Splice {
  readonly from: number
  readonly text: string
}

/** What the text itself does not tell; kept beside it so that another object can go on. */
export interface TerminalState {
  /** Lines from the last line up to the cursor. */
  readonly up: number
  readonly column: number
  readonly attributes: Attributes
  /** Attributes at the start of the first line that can change. */
  readonly start: Attributes
  /** The beginning of a sequence whose rest has not come. */
  readonly carry: string
}

export class TerminalText {
  /** Units of settled text before the first line. */
  #base = 0
  readonly #screen = new TerminalScreen()
  #carry = ''
  #toldLength = 0

  /** Goes on from `tail`, the end of a text that has `base` units before it. `tail` starts at a line's start or anywhere in one. */
  static resume(base: number, tail: string, state: TerminalState | null): TerminalText {
    const terminal = new TerminalText()
    const texts = tail.split('\n')
    const cut = Math.max(0, texts.length - REACH)
    terminal.#base = base + texts.slice(0, cut).reduce((sum, text) => sum + text.length + 1, 0)
    let attributes = state?.start ?? ''
    terminal.#screen.lines = texts.slice(cut).map((text) => {
      const line: Line = { text, start: attributes, end: '', width: 0, characters: null, told: text }
      const read = readCharacters(text, attributes)
      line.width = read.characters.length
      line.end = read.end
      attributes = read.end
      return line
    })
    terminal.#screen.row = Math.max(0, terminal.#screen.lines.length - 1 - (state?.up ?? 0))
    terminal.#screen.column = state?.column ?? terminal.#screen.line.width
    terminal.#screen.attributes = state?.attributes ?? attributes
    terminal.#carry = state?.carry ?? ''
    terminal.#toldLength = base + tail.length
    return terminal
  }

  /** Where the part that can still change begins. */
  get base(): number {
    return this.#base
  }

  /** null: the cursor is at the end of the text and nothing else is to be known. */
  get state(): TerminalState | null {
    const last = this.#screen.lines.at(-1) ?? emptyLine('')
    const start = this.#screen.lines[0]?.start ?? ''
    const plain =
      this.#screen.row === this.#screen.lines.length - 1 &&
      this.#screen.column === last.width &&
      this.#screen.attributes === last.end &&
      this.#carry === '' &&
      start === ''
    if (plain) return null
    return {
      up: this.#screen.lines.length - 1 - this.#screen.row,
      column: this.#screen.column,
      attributes: this.#screen.attributes,
      start,
      carry: this.#carry,
    }
  }

  /** Takes the next text. null: nothing that is shown has changed. */
  feed(text: string): Splice | null {
    let input = this.#carry + text
    this.#carry = ''
    if (input.includes('\r')) input = input.replace(/\r+\n/g, '\n')
    if (!this.#screen.atEnd || /[\r\b\x1b]/.test(input)) this.#carryOut(input)
    else {
      const cut = startOfReach(input) || startOfLongLine(input)
      if (cut > 0) return this.#pour(input, cut)
      this.#screen.append(input)
    }
    return this.#splice()
  }

  /** Nothing follows: an unfinished sequence is shown as it is, and what is switched off is told. */
  finish(): Splice | null {
    if (this.#carry !== '') {
      const carry = this.#carry
      this.#carry = ''
      this.#screen.print(carry)
    }
    const last = this.#screen.lines.at(-1)
    if (last && last.end !== this.#screen.attributes) {
      this.#screen.touch(this.#screen.lines.length - 1)
      this.#screen.endLine(last)
    }
    return this.#splice()
  }

  /** `#append` for text with more lines than can be reached, or a line too long: all before `cut` is settled without being looked at. */
  #pour(input: string, cut: number): Splice {
    const attributes = this.#screen.attributes
    const switching = transition(this.#screen.lines.at(-1)?.end ?? '', attributes)
    const splice = { from: this.#toldLength, text: switching + input }
    this.#base = this.#toldLength + switching.length + cut
    this.#toldLength = splice.from + splice.text.length
    this.#screen.lines = input
      .slice(cut)
      .split('\n')
      .map((text) => ({
        text,
        start: attributes,
        end: attributes,
        width: widthOf(text, 0),
        characters: null,
        told: text,
      }))
    this.#screen.row = this.#screen.lines.length - 1
    this.#screen.column = this.#screen.line.width
    this.#settle()
    return splice
  }

  #carryOut(input: string): void {
    let from = 0
    const flush = (to: number) => {
      if (to > from) this.#screen.print(input.slice(from, to))
    }
    const control = /[\n\r\b\x1b]/g
    for (let found = control.exec(input); found; found = control.exec(input)) {
      const at = found.index
      if (found[0] === '\x1b') {
        const sequence = sequenceAt(input, at)
        if (sequence.kind === 'none') continue
        flush(at)
        if (sequence.kind === 'unfinished') {
          this.#carry = input.slice(at)
          return
        }
        const raw = input.slice(at, sequence.end)
        if (sequence.kind === 'csi') this.#screen.csi(raw, sequence.parameters, sequence.final)
        else if (sequence.kind === 'link')
          this.#screen.attributes = afterLink(this.#screen.attributes, raw, sequence.open)
        from = sequence.end
        control.lastIndex = from
        continue
      }
      flush(at)
      from = at + 1
      if (found[0] === '\n') this.#screen.newLine()
      else if (found[0] === '\r') this.#screen.column = 0
      else this.#screen.column = Math.max(0, this.#screen.column - 1)
    }
    flush(input.length)
  }

  /** What changed since the last splice; settles lines out of reach. */
  #splice(): Splice | null {
    const lines = this.#screen.lines
    let row = Math.min(this.#screen.touched, lines.length)
    this.#screen.touched = Number.POSITIVE_INFINITY
    for (let i = row; i < lines.length; i++) {
      const line = lines[i]
      if (line?.characters) line.text = writeCharacters(line)
    }
    // Lines that came out as they were told need no telling; the last one may have lost lines behind it.
    while (row < lines.length - 1 && lines[row]?.told === lines[row]?.text) row++
    let splice: Splice | null = null
    const line = lines[row]
    if (line) {
      let from = this.#base
      for (let i = 0; i < row; i++) from += (lines[i]?.text.length ?? 0) + 1
      // A line that was only appended to begins as it was told; comparing would make one string of its pieces.
      const appended = line.characters === null ? line.told?.length : undefined
      const common = line.told === null ? -1 : (appended ?? commonPrefix(line.told, line.text))
      // -1: the line itself is new, and so is the newline before it.
      from += row === 0 ? Math.max(0, common) : common
      const texts = [line.text.slice(Math.max(0, common))]
      for (let i = row + 1; i < lines.length; i++) texts.push(lines[i]?.text ?? '')
      const text = (common < 0 && row > 0 ? '\n' : '') + texts.join('\n')
      if (from !== this.#toldLength || text !== '') splice = { from, text }
      this.#toldLength = from + text.length
      for (let i = row; i < lines.length; i++) {
        const told = lines[i]
        if (told) told.told = told.text
      }
    }
    this.#settle()
    return splice
  }

  #settle(): void {
    const out = this.#screen.lines.length - REACH
    if (out > 0) {
      for (const line of this.#screen.lines.splice(0, out)) this.#base += line.text.length + 1
      this.#screen.row -= out
    }
    const last = this.#screen.line
    if (
      last.text.length > LONG_LINE &&
      this.#screen.atEnd &&
      this.#screen.lines.length === this.#screen.row + 1
    ) {
      const line = endOfLine(last)
      if (!line) return
      this.#base +=
        this.#screen.lines.slice(0, -1).reduce((sum, before) => sum + before.text.length + 1, 0) +
        (last.text.length - line.text.length)
      this.#screen.lines = [line]
      this.#screen.row = 0
      this.#screen.column = line.width
    }
  }
}

/** The end of a long line as a line of its own, or null when no end of its text can stand alone. */
function endOfLine(last: Line): Line | null {
  // Where nothing is switched near the end, the text is cut as it is: making characters of all of it would cost a hundred times as much.
  const plain = last.characters === null && !last.text.includes('\x1b', last.text.length - PLAIN_END)
  if (plain) {
    const text = last.text.slice(characterStart(last.text, last.text.length - LONG_LINE_KEPT))
    return { text, start: last.end, end: last.end, width: widthOf(text, 0), characters: null, told: text }
  }
  const { characters, end } = readCharacters(last.text, last.start)
  const kept = characters.slice(-LONG_LINE_KEPT)
  const start = kept[0]?.attributes ?? end
  const line: Line = { text: '', start, end, width: kept.length, characters: kept, told: null }
  const text = writeCharacters(line)
  // Only a text that really is the end of the told one may stand for it.
  return last.text.endsWith(text) ? { ...line, text, characters: null, told: text } : null
}

/** Where what is kept of the last line of `text` begins when that line is a long one; 0: it is not. */
function startOfLongLine(text: string): number {
  if (text.length <= LONG_LINE || text.lastIndexOf('\n') >= text.length - LONG_LINE) return 0
  return characterStart(text, text.length - LONG_LINE_KEPT)
}

/** Where the last REACH lines of `text` begin; 0: it has no more. */
function startOfReach(text: string): number {
  let at = text.length
  for (let lines = 0; lines < REACH; lines++) {
    at = text.lastIndexOf('\n', at - 1)
    if (at <= 0) return 0
  }
  return at + 1
}
