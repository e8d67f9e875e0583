/** A clock that stands until a test moves it. */
import type { Clock } from '../../protocol/clock.ts'

interface Timer {
  due: number
  readonly task: () => void
}

export class ManualClock implements Clock {
  #now: number
  readonly #timers = new Set<Timer>()

  /** `now`: epoch milliseconds to begin at. */
  constructor(now = 1_000_000) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  after(ms: number, task: () => void): () => void {
    const timer = { due: this.#now + ms, task }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Milliseconds until each timer that waits, soonest first. */
  get pending(): number[] {
    return this.#inOrder().map((timer) => timer.due - this.#now)
  }

  /** Time passes as it should: every timer fires when it is due, those that are set meanwhile too. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const next = this.#inOrder()[0]
      if (next === undefined || next.due > end) break
      this.#now = Math.max(this.#now, next.due)
      this.#fire(next)
    }
    this.#now = end
  }

  /** The process was suspended: the wall clock jumps, and what was due meanwhile fires late, now. */
  suspend(ms: number): void {
    this.#now += ms
    for (const timer of this.#inOrder()) {
      if (timer.due <= this.#now && this.#timers.has(timer)) this.#fire(timer)
    }
  }

  /** The wall clock is set to another time; timers keep their distance. */
  setBack(ms: number): void {
    this.#now -= ms
    for (const timer of this.#timers) timer.due -= ms
  }

  #inOrder(): Timer[] {
    return [...this.#timers].sort((a, b) => a.due - b.due)
  }

  #fire(timer: Timer): void {
    this.#timers.delete(timer)
    timer.task()
  }
}
