/**
 * How long a kernel outlives its daemon: an idle one for the room's keep-alive, counted from when both hold, no daemon and
 * nothing running. A busy one is never ended. Whoever started the host is on the way to it, maybe with another grace than it was
 * started with: until somebody has come, a short grace is longer.
 */
import type { Clock } from '../../protocol/clock.ts'

/** At least as long as a daemon under load needs from starting a host to speaking to it. */
const FIRST_VISIT_MS = 30_000

export class OrphanGrace {
  readonly #clock: Clock
  #graceMs: number | null
  readonly #end: () => void
  #orphan = true
  #visited = false
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
    if (state.daemon === true) this.#visited = true
    if (state.idle !== undefined) this.#idle = state.idle
    const now = this.#orphan && this.#idle
    if (now === before && this.#cancel !== null) return
    this.#cancel?.()
    const grace = this.#due()
    this.#cancel = now && grace !== null ? this.#clock.after(grace, this.#end) : null
  }

  #due(): number | null {
    if (this.#graceMs === null || this.#visited) return this.#graceMs
    return Math.max(this.#graceMs, FIRST_VISIT_MS)
  }

  dispose(): void {
    this.#cancel?.()
    this.#cancel = null
  }
}
