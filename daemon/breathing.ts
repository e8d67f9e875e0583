/** Long work on the main thread, cut so that others get their turn of the loop in between. */

/** Milliseconds of work in one turn. */
const TURN_MS = 3

/** Call `due` between steps of a few hundred microseconds at most, and await `pause` when it says so. */
export class Breathing {
  #since = performance.now()

  get due(): boolean {
    return performance.now() - this.#since >= TURN_MS
  }

  /** Lets everything that waits have its turn. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    this.#since = performance.now()
  }
}
