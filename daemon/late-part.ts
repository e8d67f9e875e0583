/**
 * A part of the daemon that a first answer does not need. It is made at the first wish for it, and once: a client that comes right
 * after a start shall not be held up by what it did not ask for. After `refuse` it is not made any more.
 */
export class LatePart<Part> {
  readonly #make: () => Promise<Part>
  #part: Part | null = null
  #making: Promise<Part> | null = null

  constructor(make: () => Promise<Part>) {
    this.#make = make
  }

  /** The part once it is there, else null. */
  get part(): Part | null {
    return this.#part
  }

  /** Resolves when it is there. Rejects with why it could not be made, or with what `refuse` was given. */
  wish(): Promise<Part> {
    this.#making ??= this.#make().then((part) => {
      this.#part = part
      return part
    })
    return this.#making
  }

  /** Whoever wishes for it from now on is told why not, unless it is there or under way. */
  refuse(error: Error): void {
    if (this.#making !== null) return
    this.#making = Promise.reject(error)
    // Nobody may ever ask.
    this.#making.catch(() => undefined)
  }
}
