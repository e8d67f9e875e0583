/**
 * When a room is saved by itself: after QUIET_MS without a change, MOST_MS after the first one at the latest. Owns the timers; what
 * there is to save and whether it may be is asked when the time has come.
 */
import type { Clock } from '../../protocol/clock.ts'

export const QUIET_MS = 2_000
export const MOST_MS = 10_000
/** After a failure it is tried again at this pace, or with the next change. */
export const RETRY_MS = 30_000

export interface AutosavePort {
  /** Something is to be saved and may be. */
  wanted(): boolean
  /** Never rejects: what fails is told by whoever saves. false: try again. */
  save(): Promise<boolean>
}

export class Autosave {
  readonly #clock: Clock
  readonly #port: AutosavePort
  /** Time of the first change that is not saved. */
  #since: number | null = null
  #cancel: (() => void) | null = null
  #saving: Promise<void> | null = null
  #disposed = false

  constructor(clock: Clock, port: AutosavePort) {
    this.#clock = clock
    this.#port = port
  }

  /** Something changed, or what kept it from saving is gone. */
  changed(): void {
    if (this.#disposed) return
    const now = this.#clock.now()
    this.#since ??= now
    this.#schedule(Math.min(QUIET_MS, Math.max(0, this.#since + MOST_MS - now)))
  }

  /** What kept it from saving may be gone: as `changed`, where nothing is due or under way. */
  consider(): void {
    if (this.#since === null && this.#cancel === null && this.#saving === null && this.#port.wanted())
      this.changed()
  }

  /** A save is due or under way. */
  get pending(): boolean {
    return this.#saving !== null || (this.#since !== null && this.#port.wanted())
  }

  /** Saves now what is wanted. Resolves when nothing more is under way. */
  async flush(): Promise<void> {
    await this.#saving
    if (this.#disposed || !this.#port.wanted()) return
    this.#run()
    await this.#saving
  }

  dispose(): void {
    this.#disposed = true
    this.#cancel?.()
    this.#cancel = null
  }

  #schedule(ms: number): void {
    this.#cancel?.()
    this.#cancel = this.#clock.after(ms, () => this.#run())
  }

  #run(): void {
    this.#cancel?.()
    this.#cancel = null
    if (this.#disposed || this.#saving !== null) return
    this.#since = null
    if (!this.#port.wanted()) return
    this.#saving = this.#port.save().then((done) => {
      this.#saving = null
      if (this.#disposed) return
      if (!done) this.#schedule(RETRY_MS)
      // What changed while it was written has its own quiet time behind it.
      else if (this.#since !== null && this.#cancel === null) this.changed()
    })
  }
}
