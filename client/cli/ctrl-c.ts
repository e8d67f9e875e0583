/**
 * Ctrl-C while something runs in a kernel: the first one interrupts the kernel and we stay to see how it ends; the second one leaves.
 * SIGTERM leaves at once. Holds the process's handlers until disposed.
 */

/** Thrown into the waiting work when the user leaves. */
export class Left extends Error {
  constructor() {
    super('left by the user')
    this.name = 'Left'
  }
}

export class CtrlC {
  readonly #interrupt: () => void
  readonly #leaving: Promise<never>
  #leave: (left: Left) => void = () => {}
  #pressed = 0

  /** `interrupt` is called with the first Ctrl-C. */
  constructor(interrupt: () => void) {
    this.#interrupt = interrupt
    this.#leaving = new Promise((_resolve, reject) => {
      this.#leave = reject
    })
    // Whoever uses `orLeave` hears of it; with nobody waiting there is nothing to leave.
    this.#leaving.catch(() => {})
    process.on('SIGINT', this.press)
    process.on('SIGTERM', this.#end)
  }

  /** A Ctrl-C, also one that a prompt caught. */
  readonly press = (): void => {
    if (++this.#pressed === 1) this.#interrupt()
    else this.#leave(new Left())
  }

  readonly #end = (): void => this.#leave(new Left())

  /** The work, or Left as soon as the user leaves. */
  orLeave<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#leaving])
  }

  dispose(): void {
    process.off('SIGINT', this.press)
    process.off('SIGTERM', this.#end)
  }
}
