/**
 * One screen, two writers: outputs that scroll by on stdout, and one progress line below them on stderr. Owns the order of the
 * two: the line is taken away before output is written and drawn again after it, also below an output line that has no end
 * yet. Where stderr is no terminal there is no line, and output is written as it comes.
 */
import type { Terminal } from '../terminal.ts'
import { cutTo, widthOf } from './width.ts'

export class LiveScreen {
  readonly #terminal: Terminal
  #progress: string | null = null
  /** The progress line is on the screen now. */
  #drawn = false
  /** Columns that the unfinished last line of output takes; 0: the cursor is at the start of a line. */
  #column = 0

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  get interactive(): boolean {
    return this.#terminal.interactive
  }

  /** True when the last output ended its line. */
  get atLineStart(): boolean {
    return this.#column === 0
  }

  /** Writes output; the progress line moves below it. */
  write(text: string): void {
    if (text === '') return
    this.#erase()
    this.#terminal.write(text)
    const start = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r'))
    const tail = widthOf(text.slice(start + 1))
    this.#column = start >= 0 ? tail : this.#column + tail
    this.#draw()
  }

  /** Ends an unfinished line. */
  freshLine(): void {
    if (!this.atLineStart) this.write('\n')
  }

  /** Writes a line about the work to stderr, above the progress line. */
  note(text: string): void {
    this.#erase()
    if (this.#terminal.interactive) this.freshLine()
    this.#terminal.note(text)
    this.#draw()
  }

  /** Sets or (null) removes the progress line. Plain text. */
  progress(text: string | null): void {
    this.#erase()
    this.#progress = text
    this.#draw()
  }

  #draw(): void {
    if (this.#progress === null || !this.#terminal.progress) return
    const columns = Math.min(this.#terminal.columns, 200)
    const line = this.#terminal.paintNote('dim', cutTo(this.#progress, Math.max(10, columns - 1)))
    // Output and line share a screen only if stdout is a terminal too.
    this.#terminal.draw(this.#terminal.interactive && !this.atLineStart ? `\n${line}` : `\r${line}`)
    this.#drawn = true
  }

  #erase(): void {
    if (!this.#drawn) return
    this.#drawn = false
    const back =
      this.#terminal.interactive && !this.atLineStart
        ? `\x1b[A\x1b[${(this.#column % this.#terminal.columns) + 1}G`
        : ''
    this.#terminal.draw(`\r\x1b[2K${back}`)
  }
}
