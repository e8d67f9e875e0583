/**
 * Newline-delimited framing, the same for the client's stdin and the child's stdout. Correct for every split of the bytes. A line
 * longer than the bound is not kept: only its two ends are, so that whoever waits for its answer can still be told.
 */

/** Longest line in bytes: twice what the daemon takes as one request. */
export const LINE_MAX = 32 * 1024 * 1024
/** Bytes kept of each end of a line that was too long. */
const END_KEPT = 512

export type Line =
  | { readonly kind: 'line'; readonly text: string }
  | { readonly kind: 'too_long'; readonly bytes: number; readonly head: string; readonly tail: string }

export class LineSplitter {
  readonly #max: number
  #pieces: Buffer[] = []
  #size = 0
  #dropped: { head: Buffer; tail: Buffer } | null = null

  constructor(max: number = LINE_MAX) {
    this.#max = max
  }

  /** Bytes of a line that has no end yet, dropped ones included. */
  get unfinished(): number {
    return this.#size
  }

  /** The lines that these bytes complete; empty lines are none. */
  *push(chunk: Buffer): Generator<Line> {
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#add(chunk.subarray(start, end))
      start = end + 1
      const line = this.#take()
      if (line !== null) yield line
    }
    // A copy, unless the piece is most of its chunk: a short rest must not hold 64 KiB.
    const rest = chunk.subarray(start)
    if (rest.length > 0) this.#add(rest.length * 2 < chunk.length ? Buffer.from(rest) : rest)
  }

  #add(piece: Buffer): void {
    this.#size += piece.length
    if (this.#dropped !== null) {
      const { tail } = this.#dropped
      this.#dropped.tail = lastOf(piece.length >= END_KEPT ? piece : Buffer.concat([tail, piece]))
      return
    }
    this.#pieces.push(piece)
    if (this.#size <= this.#max) return
    const all = Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#dropped = { head: Buffer.from(all.subarray(0, END_KEPT)), tail: lastOf(all) }
  }

  #take(): Line | null {
    const bytes = this.#size
    const dropped = this.#dropped
    const pieces = this.#pieces
    this.#pieces = []
    this.#size = 0
    this.#dropped = null
    if (dropped !== null) {
      return {
        kind: 'too_long',
        bytes,
        head: dropped.head.toString('utf8'),
        tail: dropped.tail.toString('utf8'),
      }
    }
    const whole = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)
    const text = (whole ?? Buffer.alloc(0)).toString('utf8')
    return /\S/.test(text) ? { kind: 'line', text } : null
  }
}

function lastOf(buffer: Buffer): Buffer {
  return Buffer.from(buffer.subarray(Math.max(0, buffer.length - END_KEPT)))
}
