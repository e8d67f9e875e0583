/**
 * How long a kernel outlives its daemon: an idle one for the room's keep-alive, counted from when both hold, no daemon and
 * nothing running. A busy one is never ended.
 */
import type { Clock } from '../../protocol/clock.ts'

export class OrphanGrace {
  readonly #clock: Clock
  #graceMs: number | null
  readonly #end: () => void
  #orphan = true
  #idle = true
  #cancel: (() => void) | null = null

  /** `graceMs` null: for ever. */
  constructor(clock: Clock, graceMs: number | null, end: () => void) {
    this.#clock = clock
    this.#graceMs = graceMs
    this.#end = end
  }

  /** Counts anew from now when it is counting. */
  keepFor(graceMs: number | null): void {
    if (graceMs === this.#graceMs) return
    this.#graceMs = graceMs
    this.#cancel?.()
    this.#cancel = null
    this.update({})
  }

  update(state: { daemon?: boolean; idle?: boolean }): void {
    const before = this.#orphan && this.#idle
    if (state.daemon !== undefined) this.#orphan = !state.daemon
    if (state.idle !== undefined) this.#idle = state.idle
    const now = this.#orphan && this.#idle
    if (now === before && this.#cancel !== null) return
    this.#cancel?.()
    this.#cancel = now && this.#graceMs !== null ? this.#clock.after(this.#graceMs, this.#end) : null
  }

  dispose(): void {
    this.#cancel?.()
    this.#cancel = null
  }
}
