/** Holds what target.ts says of each call, and answers for which room a call is meant. */
import type { JsonObject } from './jsonrpc.ts'
import {
  type FinishedCall,
  forgetParked,
  NOTHING_TRACKED,
  named,
  notebookArgument,
  parseTarget,
  rejoinTarget,
  type SessionRef,
  type Tracked,
  track,
} from './target.ts'
import { type Tool, takesNotebook } from './tool-list.ts'

export class SessionTracker {
  readonly #cwd: string
  #tracked: Tracked

  /** `rejoin`: what the first child should rejoin. */
  constructor(cwd: string, rejoin: string | null) {
    this.#cwd = cwd
    this.#tracked = rejoin === null ? NOTHING_TRACKED : { ...NOTHING_TRACKED, active: parseTarget(rejoin) }
  }

  /** For ROOMD_REJOIN of the next child. */
  get target(): string | null {
    return rejoinTarget(this.#tracked.active)
  }

  finished(call: FinishedCall): void {
    this.#tracked = track(this.#tracked, call, this.#cwd)
  }

  /** The child named its target itself. */
  named(target: string): void {
    this.#tracked = named(this.#tracked, target)
  }

  /** The room that a call means that names none, as its `notebook` would say it; null: none, or the tool takes none. */
  meant(tool: Tool | undefined, args: JsonObject): string | null {
    const { active } = this.#tracked
    if (active === null || args.notebook !== undefined || !takesNotebook(tool)) return null
    return notebookArgument(active)
  }

  /** Whether a call without `notebook` would now go to another room than `meant`. */
  elsewhere(meant: string | null): boolean {
    const { active } = this.#tracked
    return meant !== null && (active === null || notebookArgument(active) !== meant)
  }

  /** The child that remembered them is gone. */
  takeParked(): readonly SessionRef[] {
    const { parked } = this.#tracked
    this.#tracked = forgetParked(this.#tracked)
    return parked
  }
}
