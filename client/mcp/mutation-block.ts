/**
 * Mutation ids of one tool call. Behind the proxy a call comes with a base id N and may use N … N+63; sent again to a new child it
 * has the same base, so what it already did is answered from the daemon's memory instead of being done twice. For that to hold
 * a tool takes its ids in an order that depends on nothing but its arguments. Without a proxy there is no base and the SDK numbers.
 */

/** Ids a call may use. */
export const BLOCK = 64

export class MutationBlock {
  readonly #base: number | undefined
  #low = 0
  #high = BLOCK

  constructor(base: number | undefined) {
    this.#base = base
  }

  /** The call may be one that an earlier child already carried out, in part or whole. */
  get repeatable(): boolean {
    return this.#base !== undefined
  }

  /** How many more steps there may be. */
  get left(): number {
    return this.#base === undefined ? Number.POSITIVE_INFINITY : this.#high - this.#low
  }

  /** For the next mutation in the order of the tool's steps; undefined: the SDK takes one. */
  next(): number | undefined {
    if (this.#base === undefined) return undefined
    if (this.#low >= this.#high) throw new Error('a tool call used more mutation ids than it was given')
    return this.#base + this.#low++
  }

  /** For what is done once outside that order (ending what a cancelled call started); undefined when none is left. */
  spare(): { readonly id: number | undefined } | undefined {
    if (this.#base === undefined) return { id: undefined }
    if (this.#high <= this.#low) return undefined
    return { id: this.#base + --this.#high }
  }
}
