/**
 * What one connection may have open at once. A client that asks faster than it is answered is told so (`overloaded`) instead
 * of filling the daemon's memory.
 */

/** Requests of one connection whose work is not over. */
export const MAX_OPEN_REQUESTS = 4096
/** Bytes of their payloads. */
export const MAX_OPEN_BYTES = 64 * 1024 * 1024

export class RequestBudget {
  #requests = 0
  #bytes = 0

  /** false: nothing was taken. */
  take(bytes: number): boolean {
    // A single request of any size is always possible.
    if (this.#requests >= MAX_OPEN_REQUESTS) return false
    if (this.#requests > 0 && this.#bytes + bytes > MAX_OPEN_BYTES) return false
    this.#requests++
    this.#bytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#requests--
    this.#bytes -= bytes
  }

  get requests(): number {
    return this.#requests
  }
}
