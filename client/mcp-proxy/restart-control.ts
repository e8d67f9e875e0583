/**
 * Decides what follows a child's end: a start at once, a start a little later, or a pause. A pure state machine; time is the clock's.
 * Crashes and version handoffs (exit 75) have budgets of their own, so that an upgrade in several steps never looks like a crash loop.
 * Every end that was not asked for is counted, however it came about: a process that could not be started counts like one
 * that died. Starts that fail one after the other count however long each took: a slow failure is no lesser one.
 */
import type { Clock } from '../../protocol/clock.ts'

export interface Budget {
  /** The end with this number within the window starts the pause. */
  readonly ends: number
  readonly windowMs: number
  readonly pauseMs: number
}

export const CRASH_BUDGET: Budget = { ends: 5, windowMs: 30_000, pauseMs: 60_000 }
export const HANDOFF_BUDGET: Budget = { ends: 10, windowMs: 60_000, pauseMs: 60_000 }

/** Wait before the start that follows the first, second, … crash of a window. A file being replaced is back after a moment. */
const CRASH_DELAYS = [0, 100, 250, 500]

export type End =
  /** `unready`: before it could be used. */
  | { readonly kind: 'crash'; readonly detail: string; readonly unready?: boolean }
  | { readonly kind: 'handoff'; readonly detail: string }
  | { readonly kind: 'asked'; readonly detail: string }

export interface Pause {
  /** Epoch milliseconds. */
  readonly until: number
  /** "5 ends within 30 s; the last: killed by SIGKILL" */
  readonly reason: string
}

export type Decision =
  | { readonly kind: 'start'; readonly afterMs: number }
  | { readonly kind: 'pause'; readonly pause: Pause }

export class RestartControl {
  readonly #clock: Clock
  readonly #budgets: { readonly crash: Budget; readonly handoff: Budget }
  #crashes: number[] = []
  #handoffs: number[] = []
  #pause: Pause | null = null
  /** Starts that failed since a child was ready. */
  #failedStarts = 0

  constructor(clock: Clock, budgets = { crash: CRASH_BUDGET, handoff: HANDOFF_BUDGET }) {
    this.#clock = clock
    this.#budgets = budgets
  }

  /** The pause that holds now, if any. One that is over has emptied both budgets. */
  get pause(): Pause | null {
    if (this.#pause !== null && this.#clock.now() >= this.#pause.until) this.reset()
    return this.#pause
  }

  /** A child can be used. */
  ready(): void {
    this.#failedStarts = 0
  }

  /** Tells of one end. During a pause it changes nothing. */
  ended(end: End): Decision {
    const running = this.pause
    if (running !== null) return { kind: 'pause', pause: running }
    switch (end.kind) {
      case 'asked':
        return { kind: 'start', afterMs: 0 }
      case 'handoff':
        this.#handoffs = this.#counted(this.#handoffs, this.#budgets.handoff)
        return this.#decide(this.#handoffs.length, this.#budgets.handoff, end, 0)
      case 'crash': {
        this.#crashes = this.#counted(this.#crashes, this.#budgets.crash)
        const count = this.#crashes.length
        this.#failedStarts = end.unready ? this.#failedStarts + 1 : 0
        const { ends } = this.#budgets.crash
        if (count < ends && this.#failedStarts >= ends)
          return this.#paused(`${this.#failedStarts} starts in a row that failed`, this.#budgets.crash, end)
        return this.#decide(count, this.#budgets.crash, end, CRASH_DELAYS[count - 1] ?? 500)
      }
    }
  }

  reset(): void {
    this.#crashes = []
    this.#handoffs = []
    this.#failedStarts = 0
    this.#pause = null
  }

  #counted(ends: readonly number[], budget: Budget): number[] {
    const now = this.#clock.now()
    return [...ends.filter((at) => now - at < budget.windowMs), now]
  }

  #decide(count: number, budget: Budget, end: End, afterMs: number): Decision {
    if (count < budget.ends) return { kind: 'start', afterMs }
    const what = end.kind === 'handoff' ? 'version handoffs' : 'ends'
    return this.#paused(`${count} ${what} within ${budget.windowMs / 1000} s`, budget, end)
  }

  #paused(what: string, budget: Budget, end: End): Decision {
    this.#pause = {
      until: this.#clock.now() + budget.pauseMs,
      reason: `${what}; the last: ${end.detail}`,
    }
    return { kind: 'pause', pause: this.#pause }
  }
}
