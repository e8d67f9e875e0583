/**
 * The lines of a terminal that can still change, its cursor, and what is switched on: carries out printing, movement and erasing. The
 * first line may be the end of a longer one. Pure.
 */
import { type Attributes, afterSgr, transition } from './ansi.ts'
import {
  type Character,
  emptyLine,
  isCombining,
  type Line,
  readCharacters,
  splitCharacters,
  widthOf,
} from './terminal-line.ts'

/** Lines that the cursor can reach; a terminal's height. */
export const REACH = 100

export class TerminalScreen {
  lines: Line[] = [emptyLine('')]
  row = 0
  column = 0
  attributes: Attributes = ''
  /** First line touched since its changes were last told. */
  touched = Number.POSITIVE_INFINITY

  get line(): Line {
    const line = this.lines[this.row]
    if (!line) throw new Error(`the cursor is outside the text: row ${this.row} of ${this.lines.length}`)
    return line
  }

  get atEnd(): boolean {
    return this.row === this.lines.length - 1 && this.column === this.line.width
  }

  /** First row of the screen. */
  get #top(): number {
    return Math.max(0, this.lines.length - REACH)
  }

  touch(row: number): void {
    if (row < this.touched) this.touched = row
  }

  /** Text without control characters other than newline, at the end of everything. */
  append(input: string): void {
    let from = 0
    for (let at = input.indexOf('\n'); at >= 0; at = input.indexOf('\n', from)) {
      if (at > from) this.print(input.slice(from, at))
      this.newLine()
      from = at + 1
    }
    if (from < input.length) this.print(input.slice(from))
  }

  /** Moves to the start of the next line, which is made if there is none. */
  newLine(): void {
    if (this.row === this.lines.length - 1) {
      const line = this.line
      if (line.end !== this.attributes) {
        this.touch(this.row)
        this.endLine(line)
      }
      this.lines.push(emptyLine(line.end))
      this.touch(this.row + 1)
    }
    this.row++
    this.column = 0
  }

  /** Gives the last line the present attributes at its end. */
  endLine(line: Line): void {
    if (line.characters === null) line.text += transition(line.end, this.attributes)
    line.end = this.attributes
  }

  print(text: string): void {
    const line = this.line
    this.touch(this.row)
    const last = this.row === this.lines.length - 1
    if (last && this.column === line.width && line.characters === null) {
      line.text += transition(line.end, this.attributes) + text
      line.end = this.attributes
      line.width += widthOf(text, line.width)
      this.column = line.width
      return
    }
    const characters = this.#edit(line)
    for (const piece of splitCharacters(text)) {
      const previous = this.column > 0 ? characters[this.column - 1] : undefined
      if (previous && isCombining(piece)) {
        previous.text += piece
        continue
      }
      while (characters.length < this.column) characters.push({ text: ' ', attributes: '' })
      characters[this.column] = { text: piece, attributes: this.attributes }
      this.column++
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
    if (line === this.lines.at(-1)) line.end = characters.at(-1)?.attributes ?? line.start
  }

  csi(raw: string, parameters: string, final: string): void {
    if (final === 'm') {
      if (/^[\d;:]*$/.test(parameters)) this.attributes = afterSgr(this.attributes, raw, parameters)
      return
    }
    const numbers = parameters.split(';').map((n) => (/^\d{1,5}$/.test(n) ? Number(n) : 0))
    const first = numbers[0] ?? 0
    const count = Math.max(1, first)
    switch (final) {
      case 'A':
        this.#moveTo(this.row - count, this.column)
        return
      case 'B':
        this.#moveTo(this.row + count, this.column)
        return
      case 'C':
        this.column += Math.min(count, 10_000)
        return
      case 'D':
        this.column = Math.max(0, this.column - count)
        return
      case 'E':
        this.#moveTo(this.row + count, 0)
        return
      case 'F':
        this.#moveTo(this.row - count, 0)
        return
      case 'G':
        this.column = Math.min(count, 10_000) - 1
        return
      case 'H':
      case 'f':
        this.#moveTo(this.#top + count - 1, Math.min(Math.max(1, numbers[1] ?? 1), 10_000) - 1)
        return
      case 'J':
        this.#eraseScreen(first)
        return
      case 'K':
        this.#eraseLine(this.row, first)
        return
      default:
        return // Others change how a terminal behaves, not what it shows.
    }
  }

  #moveTo(row: number, column: number): void {
    const top = this.#top
    const target = Math.min(Math.max(row, top), top + REACH - 1)
    while (this.lines.length <= target) {
      this.lines.push(emptyLine(this.lines.at(-1)?.end ?? ''))
      this.touch(this.lines.length - 1)
    }
    this.row = target
    this.column = column
    this.#dropEmptyBelow()
  }

  /** Empty lines below the cursor are not to be seen. */
  #dropEmptyBelow(): void {
    for (let last = this.lines.at(-1); this.lines.length - 1 > this.row; last = this.lines.at(-1)) {
      if (!last || last.width > 0) return
      this.lines.pop()
      this.touch(this.lines.length - 1)
    }
  }

  #eraseScreen(what: number): void {
    const top = this.#top
    if (what === 0) {
      this.#eraseLine(this.row, 0)
      for (let row = this.row + 1; row < this.lines.length; row++) this.#eraseLine(row, 2)
    } else if (what === 1) {
      for (let row = top; row < this.row; row++) this.#eraseLine(row, 2)
      this.#eraseLine(this.row, 1)
    } else if (what === 2 || what === 3) {
      for (let row = top; row < this.lines.length; row++) this.#eraseLine(row, 2)
    }
    this.#dropEmptyBelow()
  }

  #eraseLine(row: number, what: number): void {
    const line = this.lines[row]
    if (!line || line.width === 0) return
    this.touch(row)
    const characters = this.#edit(line)
    if (what === 0) characters.length = Math.min(characters.length, this.column)
    else if (what === 1) {
      const end = Math.min(characters.length, this.column + 1)
      for (let i = 0; i < end; i++) characters[i] = { text: ' ', attributes: '' }
    } else if (what === 2) characters.length = 0
    this.#edited(line, characters)
  }
}
