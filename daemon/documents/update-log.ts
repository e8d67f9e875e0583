/**
 * Updates in the order in which they were made, packed one behind the other: an array of small buffers would take several times
 * their bytes, and merging them takes Yjs longer than making them.
 */
const NONE = new Uint8Array(0)
const LEAST_BYTES = 256

export class UpdateLog {
  #bytes = NONE
  #used = 0
  #ends: number[] = []

  /** Bytes of all updates. */
  get size(): number {
    return this.#used
  }

  push(update: Uint8Array): void {
    const end = this.#used + update.length
    if (end > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(end, this.#bytes.length * 2, LEAST_BYTES))
      grown.set(this.#bytes.subarray(0, this.#used))
      this.#bytes = grown
    }
    this.#bytes.set(update, this.#used)
    this.#used = end
    this.#ends.push(end)
  }

  /** Views, valid until the next `push` or `clear`. */
  all(): Uint8Array[] {
    let start = 0
    return this.#ends.map((end) => {
      const update = this.#bytes.subarray(start, end)
      start = end
      return update
    })
  }

  clear(): void {
    this.#bytes = NONE
    this.#used = 0
    this.#ends = []
  }
}
