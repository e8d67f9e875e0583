/**
 * What a terminal would show of a stream, as one growing text: carriage return, backspace, cursor movement and erasing are carried
 * out, colours and links are kept as sequences in the text. Pure: no clock, no store.
 *
 * `feed` takes text in whatever pieces it comes and tells the change as one splice: cut the whole text at `from` (UTF-16 units),
 * append `text`. The result does not depend on how the text was cut into pieces. Only the last REACH lines can still change, as
 * on a screen of that height; what is above is settled, so memory and work are bounded by what can change, not by the whole text.
 * A column is one code point (with its combining marks); a line longer than LONG_LINE settles from its start.
 */
import {
  type Attributes,
  afterLink,
  afterSgr,
  LONGEST as LONGEST_SEQUENCE,
  sequenceAt,
  transition,
} from './ansi.ts'
import {
  type Character,
  characterStart,
  commonPrefix,
  emptyLine,
  isCombining,
  type Line,
  readCharacters,
  splitCharacters,
  widthOf,
  writeCharacters,
} from './terminal-line.ts'

/** Lines that the cursor can reach; a terminal's height. */
export const REACH = 100
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
  #lines: Line[] = [emptyLine('')]
  #row = 0
  #column = 0
  #attributes: Attributes = ''
  #carry = ''
  /** First line touched since the last splice. */
  #touched = Number.POSITIVE_INFINITY
  #toldLength = 0

  /** Goes on from `tail`, the end of a text that has `base` units before it. `tail` starts at a line's start or anywhere in one. */
  static resume(base: number, tail: string, state: TerminalState | null): TerminalText {
    const terminal = new TerminalText()
    const texts = tail.split('\n')
    const cut = Math.max(0, texts.length - REACH)
    terminal.#base = base + texts.slice(0, cut).reduce((sum, text) => sum + text.length + 1, 0)
    let attributes = state?.start ?? ''
    terminal.#lines = texts.slice(cut).map((text) => {
      const line: Line = { text, start: attributes, end: '', width: 0, characters: null, told: text }
      const read = readCharacters(text, attributes)
      line.width = read.characters.length
      line.end = read.end
      attributes = read.end
      return line
    })
    terminal.#row = Math.max(0, terminal.#lines.length - 1 - (state?.up ?? 0))
    terminal.#column = state?.column ?? terminal.#line.width
    terminal.#attributes = state?.attributes ?? attributes
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
    const last = this.#lines.at(-1) ?? emptyLine('')
    const start = this.#lines[0]?.start ?? ''
    const plain =
      this.#row === this.#lines.length - 1 &&
      this.#column === last.width &&
      this.#attributes === last.end &&
      this.#carry === '' &&
      start === ''
    if (plain) return null
    return {
      up: this.#lines.length - 1 - this.#row,
      column: this.#column,
      attributes: this.#attributes,
      start,
      carry: this.#carry,
    }
  }

  /** Takes the next text. null: nothing that is shown has changed. */
  feed(text: string): Splice | null {
    let input = this.#carry + text
    this.#carry = ''
    if (input.includes('\r')) input = input.replace(/\r+\n/g, '\n')
    if (!this.#atEnd || /[\r\b\x1b]/.test(input)) this.#carryOut(input)
    else {
      const cut = startOfReach(input) || startOfLongLine(input)
      if (cut > 0) return this.#pour(input, cut)
      this.#append(input)
    }
    return this.#splice()
  }

  /** Nothing follows: an unfinished sequence is shown as it is, and what is switched off is told. */
  finish(): Splice | null {
    if (this.#carry !== '') {
      const carry = this.#carry
      this.#carry = ''
      this.#print(carry)
    }
    const last = this.#lines.at(-1)
    if (last && last.end !== this.#attributes) {
      this.#touch(this.#lines.length - 1)
      this.#endLine(last)
    }
    return this.#splice()
  }

  get #line(): Line {
    const line = this.#lines[this.#row]
    if (!line) throw new Error(`the cursor is outside the text: row ${this.#row} of ${this.#lines.length}`)
    return line
  }

  get #atEnd(): boolean {
    return this.#row === this.#lines.length - 1 && this.#column === this.#line.width
  }

  /** First row of the screen. */
  get #top(): number {
    return Math.max(0, this.#lines.length - REACH)
  }

  #touch(row: number): void {
    if (row < this.#touched) this.#touched = row
  }

  /** Text without control characters other than newline, at the end of everything. */
  #append(input: string): void {
    let from = 0
    for (let at = input.indexOf('\n'); at >= 0; at = input.indexOf('\n', from)) {
      if (at > from) this.#print(input.slice(from, at))
      this.#newLine()
      from = at + 1
    }
    if (from < input.length) this.#print(input.slice(from))
  }

  /** `#append` for text with more lines than can be reached, or a line too long: all before `cut` is settled without being looked at. */
  #pour(input: string, cut: number): Splice {
    const attributes = this.#attributes
    const switching = transition(this.#lines.at(-1)?.end ?? '', attributes)
    const splice = { from: this.#toldLength, text: switching + input }
    this.#base = this.#toldLength + switching.length + cut
    this.#toldLength = splice.from + splice.text.length
    this.#lines = input
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
    this.#row = this.#lines.length - 1
    this.#column = this.#line.width
    this.#settle()
    return splice
  }

  #carryOut(input: string): void {
    let from = 0
    const flush = (to: number) => {
      if (to > from) this.#print(input.slice(from, to))
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
        if (sequence.kind === 'csi') this.#csi(raw, sequence.parameters, sequence.final)
        else if (sequence.kind === 'link') this.#attributes = afterLink(this.#attributes, raw, sequence.open)
        from = sequence.end
        control.lastIndex = from
        continue
      }
      flush(at)
      from = at + 1
      if (found[0] === '\n') this.#newLine()
      else if (found[0] === '\r') this.#column = 0
      else this.#column = Math.max(0, this.#column - 1)
    }
    flush(input.length)
  }

  /** Moves to the start of the next line, which is made if there is none. */
  #newLine(): void {
    if (this.#row === this.#lines.length - 1) {
      const line = this.#line
      if (line.end !== this.#attributes) {
        this.#touch(this.#row)
        this.#endLine(line)
      }
      this.#lines.push(emptyLine(line.end))
      this.#touch(this.#row + 1)
    }
    this.#row++
    this.#column = 0
  }

  /** Gives the last line the present attributes at its end. */
  #endLine(line: Line): void {
    if (line.characters === null) line.text += transition(line.end, this.#attributes)
    line.end = this.#attributes
  }

  #print(text: string): void {
    const line = this.#line
    this.#touch(this.#row)
    const last = this.#row === this.#lines.length - 1
    if (last && this.#column === line.width && line.characters === null) {
      line.text += transition(line.end, this.#attributes) + text
      line.end = this.#attributes
      line.width += widthOf(text, line.width)
      this.#column = line.width
      return
    }
    const characters = this.#edit(line)
    for (const piece of splitCharacters(text)) {
      const previous = this.#column > 0 ? characters[this.#column - 1] : undefined
      if (previous && isCombining(piece)) {
        previous.text += piece
        continue
      }
      while (characters.length < this.#column) characters.push({ text: ' ', attributes: '' })
      characters[this.#column] = { text: piece, attributes: this.#attributes }
      this.#column++
    }
    this.#edited(line, characters)
  }

  #edit(line: Line): Character[] {
    line.characters ??= readCharacters(line.text, line.start).characters
    return line.characters
  }

  #edited(line: Line, characters: Character[]): void {
    line.characters = characters
    line.width = characters.length
    // The next line was written for a reader with this line's end; behind the last line there is none.
    if (line === this.#lines.at(-1)) line.end = characters.at(-1)?.attributes ?? line.start
  }

  #csi(raw: string, parameters: string, final: string): void {
    if (final === 'm') {
      if (/^[\d;:]*$/.test(parameters)) this.#attributes = afterSgr(this.#attributes, raw, parameters)
      return
    }
    const numbers = parameters.split(';').map((n) => (/^\d{1,5}$/.test(n) ? Number(n) : 0))
    const first = numbers[0] ?? 0
    const count = Math.max(1, first)
    switch (final) {
      case 'A':
        this.#moveTo(this.#row - count, this.#column)
        return
      case 'B':
        this.#moveTo(this.#row + count, this.#column)
        return
      case 'C':
        this.#column += Math.min(count, 10_000)
        return
      case 'D':
        this.#column = Math.max(0, this.#column - count)
        return
      case 'E':
        this.#moveTo(this.#row + count, 0)
        return
      case 'F':
        this.#moveTo(this.#row - count, 0)
        return
      case 'G':
        this.#column = Math.min(count, 10_000) - 1
        return
      case 'H':
      case 'f':
        this.#moveTo(this.#top + count - 1, Math.min(Math.max(1, numbers[1] ?? 1), 10_000) - 1)
        return
      case 'J':
        this.#eraseScreen(first)
        return
      case 'K':
        this.#eraseLine(this.#row, first)
        return
      default:
        return // Others change how a terminal behaves, not what it shows.
    }
  }

  #moveTo(row: number, column: number): void {
    const top = this.#top
    const target = Math.min(Math.max(row, top), top + REACH - 1)
    while (this.#lines.length <= target) {
      this.#lines.push(emptyLine(this.#lines.at(-1)?.end ?? ''))
      this.#touch(this.#lines.length - 1)
    }
    this.#row = target
    this.#column = column
    this.#dropEmptyBelow()
  }

  /** Empty lines below the cursor are not to be seen. */
  #dropEmptyBelow(): void {
    for (let last = this.#lines.at(-1); this.#lines.length - 1 > this.#row; last = this.#lines.at(-1)) {
      if (!last || last.width > 0) return
      this.#lines.pop()
      this.#touch(this.#lines.length - 1)
    }
  }

  #eraseScreen(what: number): void {
    const top = this.#top
    if (what === 0) {
      this.#eraseLine(this.#row, 0)
      for (let row = this.#row + 1; row < this.#lines.length; row++) this.#eraseLine(row, 2)
    } else if (what === 1) {
      for (let row = top; row < this.#row; row++) this.#eraseLine(row, 2)
      this.#eraseLine(this.#row, 1)
    } else if (what === 2 || what === 3) {
      for (let row = top; row < this.#lines.length; row++) this.#eraseLine(row, 2)
    }
    this.#dropEmptyBelow()
  }

  #eraseLine(row: number, what: number): void {
    const line = this.#lines[row]
    if (!line || line.width === 0) return
    this.#touch(row)
    const characters = this.#edit(line)
    if (what === 0) characters.length = Math.min(characters.length, this.#column)
    else if (what === 1) {
      const end = Math.min(characters.length, this.#column + 1)
      for (let i = 0; i < end; i++) characters[i] = { text: ' ', attributes: '' }
    } else if (what === 2) characters.length = 0
    this.#edited(line, characters)
  }

  /** What changed since the last splice; settles lines out of reach. */
  #splice(): Splice | null {
    const lines = this.#lines
    let row = Math.min(this.#touched, lines.length)
    this.#touched = Number.POSITIVE_INFINITY
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
    const out = this.#lines.length - REACH
    if (out > 0) {
      for (const line of this.#lines.splice(0, out)) this.#base += line.text.length + 1
      this.#row -= out
    }
    const last = this.#line
    if (last.text.length > LONG_LINE && this.#atEnd && this.#lines.length === this.#row + 1) {
      const line = endOfLine(last)
      if (!line) return
      this.#base +=
        this.#lines.slice(0, -1).reduce((sum, before) => sum + before.text.length + 1, 0) +
        (last.text.length - line.text.length)
      this.#lines = [line]
      this.#row = 0
      this.#column = line.width
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
