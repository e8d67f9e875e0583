/**
 * Stops the kernel process while too much of its output waits for the daemon, and continues it when there is room again. While a
 * person wants it interrupted or ended it runs, however much waits: what it still prints is kept on disk.
 */
import type { KernelProcess } from './kernel-process.ts'

export const STOP_BYTES = 64 * 1024 * 1024
export const CONTINUE_BYTES = 32 * 1024 * 1024

export class Pressure {
  readonly #process: KernelProcess
  #suspended = false

  constructor(process: KernelProcess) {
    this.#process = process
  }

  /** Called whenever the figures change. */
  update(unacknowledged: number, diskRefuses: boolean): void {
    if (unacknowledged <= CONTINUE_BYTES && !diskRefuses) {
      this.#suspended = false
      if (this.#process.stopped) this.#process.resume()
    } else if (!this.#suspended && !this.#process.stopped && (unacknowledged >= STOP_BYTES || diskRefuses)) {
      this.#process.stop()
    }
  }

  /** Lets the kernel run until the pressure has been low once. */
  suspend(): void {
    this.#suspended = true
    if (this.#process.stopped) this.#process.resume()
  }
}
