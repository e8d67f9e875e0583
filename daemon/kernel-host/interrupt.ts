/**
 * When an interrupt may be delivered. A kernel that has been sent a cell and has not begun it ignores SIGINT (ipykernel takes it only
 * while a request is handled), and the interrupt would be lost while the cell runs on. So it waits for the kernel to say that it
 * has taken the cell up, for a second at most.
 */
import type { Clock } from '../../protocol/clock.ts'

const PATIENCE_MS = 1_000

export class Interrupt {
  readonly #clock: Clock
  /** The newest request whose execute_input has been seen. */
  #begun: string | null = null
  #waiting: { readonly request: string; end(deliver: boolean): void }[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The kernel published execute_input for this request. */
  begun(request: string | null): void {
    this.#begun = request
    this.#end(request, true)
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
    if (request === null || request === this.#begun) {
      deliver()
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const cancel = this.#clock.after(PATIENCE_MS, () => this.#end(request, true))
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
