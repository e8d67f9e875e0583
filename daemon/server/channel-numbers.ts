/**
 * Which channel numbers a connection has used. Clients take odd numbers and use none twice: a late frame of an old channel could
 * otherwise reach a new one. Most count upwards, so that remembering costs nothing; gaps are kept one by one.
 */
export class ChannelNumbers {
  /** All odd numbers below have been used. */
  #next = 1
  /** Used numbers above `#next`. */
  readonly #ahead = new Set<number>()

  /** Takes the number; false when it is even, zero or was used before. */
  take(channel: number): boolean {
    if (channel % 2 !== 1 || channel < this.#next || this.#ahead.has(channel)) return false
    this.#ahead.add(channel)
    while (this.#ahead.delete(this.#next)) this.#next += 2
    return true
  }
}
