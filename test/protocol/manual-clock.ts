/** A clock that tests move by hand. */
import type { Clock } from '../../protocol/clock.ts'

export class ManualClock implements Clock {
  #now = 1_000_000
  #timers: { due: number; task: () => void }[] = []

  now(): number {
    return this.#now
  }

  after(ms: number, task: () => void): () => void {
    const timer = { due: this.#now + ms, task }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  /** Timers that wait. */
  get pending(): number {
    return this.#timers.length
  }

  /** Time passes as it should: every timer fires when it is due. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const next = this.#timers.filter((timer) => timer.due <= end).sort((a, b) => a.due - b.due)[0]
      if (next === undefined) break
      this.#now = Math.max(this.#now, next.due)
      this.#fire(next)
    }
    this.#now = end
  }

  /** The process was suspended: the wall clock jumps, and what was due meanwhile fires late, now. */
  suspend(ms: number): void {
    this.#now += ms
    for (const timer of this.#timers.filter(({ due }) => due <= this.#now).sort((a, b) => a.due - b.due)) {
      if (this.#timers.includes(timer)) this.#fire(timer)
    }
  }

  /** The wall clock is set to another time; timers keep their distance. */
  setBack(ms: number): void {
    this.#now -= ms
    for (const timer of this.#timers) timer.due -= ms
  }

  #fire(timer: { due: number; task: () => void }): void {
    this.#timers = this.#timers.filter((other) => other !== timer)
    timer.task()
  }
}
