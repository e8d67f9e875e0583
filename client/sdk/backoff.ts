/**
 * When to try again (lifecycle.md, reconnect timing): the first retry at once, then 250 ms doubling to 5 s, each 25 % more or
 * less, so that a hundred clients of a daemon that died do not come back in one moment. Starts over after 10 s of stability.
 */
export const FIRST_DELAY_MS = 250
export const LONGEST_DELAY_MS = 5_000
export const STABLE_MS = 10_000
const JITTER = 0.25

export class Backoff {
  readonly #random: () => number
  #attempt = 0
  #upAt: number | null = null

  /** `random` in [0, 1). */
  constructor(random: () => number = Math.random) {
    this.#random = random
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const attempt = this.#attempt++
    if (attempt === 0) return 0
    const base = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempt - 1))
    return Math.round(base * (1 - JITTER + 2 * JITTER * this.#random()))
  }

  /** An attempt succeeded. Starts over only if it lasts. */
  up(now: number): void {
    this.#upAt = now
  }

  /** What had succeeded is lost. */
  down(now: number): void {
    if (this.#upAt !== null && now - this.#upAt >= STABLE_MS) this.#attempt = 0
    this.#upAt = null
  }

  /** There is news (a socket appeared): start over. */
  reset(): void {
    this.#attempt = 0
  }
}
