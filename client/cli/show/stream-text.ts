/**
 * Prints one stream output that grows and whose end may be replaced (a progress bar, joined carriage returns). The daemon tells
 * such a change as "cut to `from`, append". On a terminal the replaced lines are drawn over; elsewhere a line is written only
 * once it is whole, so that a progress bar leaves its last state.
 */
import { stripVTControlCharacters } from 'node:util'
import type { LiveScreen } from './live-screen.ts'

/** Characters of already printed text that can still be replaced; older text is printed for good. */
const REACH = 64 * 1024

export class StreamText {
  readonly #screen: LiveScreen
  /** The newest part of the text; `#base` characters came before it. */
  #text = ''
  #base = 0
  /** Characters of the whole text that are on the screen. */
  #written = 0

  constructor(screen: LiveScreen) {
    this.#screen = screen
  }

  /** Cuts the text to `from` UTF-16 units and appends. */
  splice(from: number, text: string): void {
    const keep = Math.max(0, from - this.#base)
    const cut = this.#text.slice(keep)
    this.#text = this.#text.slice(0, keep) + text
    if (this.#screen.interactive) this.#draw(Math.max(from, this.#base), cut)
    else this.#writeWholeLines(from)
    this.#forget()
  }

  /** Writes what was held back. */
  finish(): void {
    if (this.#screen.interactive) return
    this.#writeTo(this.#base + this.#text.length)
  }

  #draw(from: number, cut: string): void {
    if (cut === '') {
      this.#screen.write(this.#text.slice(from - this.#base))
      return
    }
    const lineStart = this.#text.lastIndexOf('\n', from - this.#base - 1) + 1
    const up = cut.split('\n').length - 1
    this.#screen.write(`\r${up > 0 ? `\x1b[${up}A` : ''}\x1b[J${this.#text.slice(lineStart)}`)
  }

  #writeWholeLines(from: number): void {
    // A line that is written already and changed is written again: the reader sees both states, none is lost.
    if (from < this.#written) {
      const lineStart = this.#text.lastIndexOf('\n', Math.max(0, from - this.#base) - 1) + 1
      this.#written = this.#base + lineStart
    }
    this.#writeTo(this.#base + this.#text.lastIndexOf('\n') + 1)
  }

  #writeTo(end: number): void {
    if (end <= this.#written) return
    const piece = this.#text.slice(Math.max(0, this.#written - this.#base), end - this.#base)
    this.#written = end
    this.#screen.write(stripVTControlCharacters(piece))
  }

  #forget(): void {
    const spare = this.#text.length - REACH
    if (spare <= REACH) return
    const end = this.#screen.interactive ? spare : Math.min(spare, this.#written - this.#base)
    if (end <= 0) return
    this.#text = this.#text.slice(end)
    this.#base += end
  }
}
