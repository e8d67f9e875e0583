/** Time that stands still until a test moves it. */
import type { Clock } from '../../protocol/clock.ts'

export class ManualClock implements Clock {
  #now = 1_700_000_000_000
  readonly #tasks = new Set<{ at: number; run: () => void }>()

  now(): number {
    return this.#now
  }

  after(ms: number, run: () => void): () => void {
    const task = { at: this.#now + ms, run }
    this.#tasks.add(task)
    return () => this.#tasks.delete(task)
  }

  /** Timers that have not run and were not cancelled. */
  get pending(): number {
    return this.#tasks.size
  }

  /** Moves on, running what is due in the order of time. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const due = [...this.#tasks].filter((task) => task.at <= end).sort((a, b) => a.at - b.at)[0]
      if (!due) break
      this.#tasks.delete(due)
      this.#now = due.at
      due.run()
    }
    this.#now = end
  }
}
