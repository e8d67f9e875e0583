/**
 * When an interrupt may be delivered. A kernel that has been sent a cell and has not begun it ignores SIGINT, and one that has just
 * begun may swallow it before it reaches the user's code (measured with ipykernel: 1 of 30 right behind execute_input). Then the
 * cell would run on. So an interrupt waits until the kernel has said that it took the cell up, and a moment more.
 */
import type { Clock } from '../../protocol/clock.ts'

/** A kernel that does not say that it took the cell up (a silent one) is interrupted all the same. */
const PATIENCE_MS = 1_000
/** From execute_input to the user's code. */
const SETTLE_IN_MS = 100

export class Interrupt {
  readonly #clock: Clock
  /** The newest request whose execute_input has been seen, and when. */
  #begun: { readonly request: string | null; readonly at: number } = { request: null, at: 0 }
  #waiting: { readonly request: string; end(deliver: boolean): void }[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The kernel published execute_input for this request. */
  begun(request: string | null): void {
    this.#begun = { request, at: this.#clock.now() }
    if (this.#waiting.length > 0) this.#clock.after(SETTLE_IN_MS, () => this.#end(request, true))
  }

  /** The request is over: an interrupt that still waited would hit the next one. */
  settled(request: string): void {
    this.#end(request, false)
  }

  /**
   * Calls `deliver` when the request runs: at once when it does or when nothing runs, never when it ends before. Resolves when
   * that is decided.
   */
  deliver(request: string | null, deliver: () => void): Promise<void> {
    const begun = request !== null && request === this.#begun.request
    const left = Math.min(this.#begun.at + SETTLE_IN_MS - this.#clock.now(), SETTLE_IN_MS)
    const wait = begun ? left : PATIENCE_MS
    if (request === null || wait <= 0) {
      deliver()
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const cancel = this.#clock.after(wait, () => this.#end(request, true))
      this.#waiting.push({
        request,
        end: (wanted) => {
          cancel()
          if (wanted) deliver()
          resolve()
        },
      })
    })
  }

  #end(request: string | null, deliver: boolean): void {
    const due = this.#waiting.filter((each) => each.request === request)
    if (due.length === 0) return
    this.#waiting = this.#waiting.filter((each) => each.request !== request)
    for (const each of due) each.end(deliver)
  }
}
