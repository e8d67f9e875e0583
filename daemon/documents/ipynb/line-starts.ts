/**
 * Where the lines of a text begin. Looking back for a line's beginning takes as long as the line is, and a notebook that is written
 * without line breaks is one line of many megabytes; they are found once, and asked for by halving.
 */
export class LineStarts {
  readonly #text: string
  #starts: number[] | null = null

  constructor(text: string) {
    this.#text = text
  }

  /** The last beginning of a line at or before the offset. */
  before(offset: number): number {
    this.#starts ??= startsOf(this.#text)
    let low = 0
    let high = this.#starts.length
    // The one sought is at `low` or behind it, and before `high`.
    while (high - low > 1) {
      const middle = (low + high) >>> 1
      if ((this.#starts[middle] ?? 0) <= offset) low = middle
      else high = middle
    }
    return this.#starts[low] ?? 0
  }
}

function startsOf(text: string): number[] {
  const starts = [0]
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return starts
}
