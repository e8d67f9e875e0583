/**
 * Prints one stream output piece by piece. A piece that rewrites text (a progress bar) begins with the terminal's own words for
 * it, as the SDK gives them: so many lines up, to the line's start, erase from here. On a terminal that is all there is to do.
 * Elsewhere a line is written only once it is whole, so that a progress bar leaves its last state and not its steps.
 */
import { stripVTControlCharacters } from 'node:util'
import type { LiveScreen } from './live-screen.ts'

const rewriting = /^(?:\u001b\[\d+A)?\r\u001b\[J/

export class StreamText {
  readonly #screen: LiveScreen
  /** Where the screen is no terminal: the last line, which has no end yet. */
  #held = ''

  constructor(screen: LiveScreen) {
    this.#screen = screen
  }

  add(piece: string): void {
    if (this.#screen.interactive) {
      this.#screen.write(piece)
      return
    }
    const rewritten = rewriting.exec(piece)
    // Lines that were written already and are rewritten come again: the reader sees both states, none is lost.
    const text = rewritten ? piece.slice(rewritten[0].length) : this.#held + piece
    const end = text.lastIndexOf('\n') + 1
    this.#held = text.slice(end)
    this.#screen.write(stripVTControlCharacters(text.slice(0, end)))
  }

  /** Writes what was held back. */
  finish(): void {
    this.#screen.write(stripVTControlCharacters(this.#held))
    this.#held = ''
  }
}
