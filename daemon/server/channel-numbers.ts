/**
 * Which channel numbers a connection has used. Clients take odd numbers and use none twice: a late frame of an old channel could
 * otherwise reach a new one. Most count upwards, so that remembering costs nothing; gaps are kept one by one.
 */
export class ChannelNumbers {
  /** All odd numbers below have been used. */
  #next = 1
  /** Used numbers above `#next`; made when a client leaves a gap, which most never do. */
  #ahead: Set<number> | null = null

  /** Takes the number; false when it is even, zero or was used before. */
  take(channel: number): boolean {
    if (channel % 2 !== 1 || channel < this.#next || this.#ahead?.has(channel)) return false
    if (channel > this.#next) {
      this.#ahead ??= new Set()
      this.#ahead.add(channel)
      return true
    }
    do this.#next += 2
    while (this.#ahead?.delete(this.#next))
    return true
  }
}
