/**
 * Names mutations of one client instance: ids grow, and the watermark says below which all are settled, so that the daemon may
 * forget their results. A call keeps its id however often and on whatever connection it is sent again.
 */
import type { MutationId } from '../../protocol/ids.ts'

export class MutationIds {
  #next = 1
  readonly #open = new Set<number>()
  readonly #settledBelow: (() => number) | undefined

  /** `settledBelow`: ids from here on may still be sent again by somebody else of this client instance (the MCP proxy). */
  constructor(settledBelow?: () => number) {
    this.#settledBelow = settledBelow
  }

  /** The daemon has seen ids up to `highest`: counts on from there. */
  raise(highest: number): void {
    this.#next = Math.max(this.#next, highest + 1)
  }

  /** Takes the next id, or the given one; it is open until `settle`. */
  take(given?: number): MutationId {
    const id = given ?? this.#next
    this.#next = Math.max(this.#next, id + 1)
    this.#open.add(id)
    return id as MutationId
  }

  settle(id: number): void {
    this.#open.delete(id)
  }

  /** All ids below it are settled. */
  watermark(): number {
    let lowest = Math.min(this.#next, this.#settledBelow?.() ?? Number.POSITIVE_INFINITY)
    for (const id of this.#open) if (id < lowest) lowest = id
    return lowest
  }
}
