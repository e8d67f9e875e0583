/** Pauses after failures: 1 s, doubled each time, at most 5 min. One success forgets them. */
import type { Clock } from '../../protocol/clock.ts'

export const FIRST_PAUSE_MS = 1_000
export const LONGEST_PAUSE_MS = 5 * 60_000

export class Backoff {
  readonly #clock: Clock
  #failures = 0
  #until = 0
  #reason: string | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Why it failed last; null after a success. */
  get reason(): string | null {
    return this.#reason
  }

  /** Milliseconds until the next attempt; 0: now. */
  get waitMs(): number {
    return Math.max(0, this.#until - this.#clock.now())
  }

  /** Returns the pause. */
  failed(reason: string): number {
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, LONGEST_PAUSE_MS)
    this.#failures++
    this.#reason = reason
    this.#until = this.#clock.now() + pause
    return pause
  }

  worked(): void {
    this.#failures = 0
    this.#until = 0
    this.#reason = null
  }
}
