/**
 * When a kernel may be used: it answered kernel_info, and its iopub has spoken to us. A subscriber that comes late misses what was
 * published before, so an execute sent too early would lose its first outputs and its idle. kernel_info makes the kernel
 * publish busy and idle, so we ask until one of them comes.
 */
import type { Clock } from '../../protocol/clock.ts'

export interface ReadinessPort {
  readonly clock: Clock
  /** Sends a kernel_info_request of our own. */
  ask(): void
  ready(info: Record<string, unknown>): void
}

/** After an answer without a word on iopub. */
const AGAIN_MS = 15
/** Without an answer: a kernel that starts slowly, or lost the question while it bound its sockets. */
const REPEAT_MS = 3_000

export class Readiness {
  readonly #port: ReadinessPort
  readonly #repeats: boolean
  #info: Record<string, unknown> | null = null
  #spoken = false
  #cancel: (() => void) | null = null
  #done = false

  /** `repeats`: ask again without an answer. Not for an adopted kernel, which may be busy: its answer comes behind its cell. */
  constructor(port: ReadinessPort, repeats: boolean) {
    this.#port = port
    this.#repeats = repeats
  }

  get done(): boolean {
    return this.#done
  }

  start(): void {
    this.#ask()
  }

  spoken(): void {
    this.#spoken = true
    this.#look()
  }

  answered(info: Record<string, unknown>): void {
    this.#info = info
    this.#look()
    if (!this.#done) this.#later(AGAIN_MS)
  }

  dispose(): void {
    this.#done = true
    this.#cancel?.()
  }

  #look(): void {
    if (this.#done || this.#info === null || !this.#spoken) return
    this.dispose()
    this.#port.ready(this.#info)
  }

  #ask(): void {
    this.#port.ask()
    if (this.#repeats) this.#later(REPEAT_MS)
  }

  #later(ms: number): void {
    this.#cancel?.()
    this.#cancel = this.#port.clock.after(ms, () => this.#ask())
  }
}
