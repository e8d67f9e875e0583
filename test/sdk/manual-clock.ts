/** A clock that stands until a test moves it. */
import type { Clock } from '../../protocol/clock.ts'

interface Timer {
  readonly at: number
  readonly task: () => void
}

export class ManualClock implements Clock {
  #now = 1_000_000
  readonly #timers = new Set<Timer>()

  now(): number {
    return this.#now
  }

  after(ms: number, task: () => void): () => void {
    const timer = { at: this.#now + ms, task }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Milliseconds until each running timer, soonest first. */
  get pending(): number[] {
    return [...this.#timers].map((timer) => timer.at - this.#now).sort((a, b) => a - b)
  }

  /** Moves on, running what is due in its order. */
  advance(ms: number): void {
    const until = this.#now + ms
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0]
      if (!due) break
      this.#timers.delete(due)
      this.#now = due.at
      due.task()
    }
    this.#now = until
  }
}
