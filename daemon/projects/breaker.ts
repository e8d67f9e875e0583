/**
 * Stops starting standbys of a project that keep being killed: three deaths for want of memory in 300 s trip it, and only a person lets
 * it go (`roomd project trust`).
 */
import type { Clock } from '../../protocol/clock.ts'

export const DEATHS = 3
export const WINDOW_MS = 300_000

export class Breaker {
  readonly #clock: Clock
  #deaths: number[] = []
  #tripped = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get tripped(): boolean {
    return this.#tripped
  }

  /** true: this one tripped it. */
  death(): boolean {
    const now = this.#clock.now()
    this.#deaths = [...this.#deaths.filter((at) => now - at < WINDOW_MS), now]
    if (this.#tripped || this.#deaths.length < DEATHS) return false
    this.#tripped = true
    return true
  }

  reset(): void {
    this.#deaths = []
    this.#tripped = false
  }
}
