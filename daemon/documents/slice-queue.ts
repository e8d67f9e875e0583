/** Slices of an update between the thread that makes them and the loop that applies them with turns in between. One reader. */

export class SliceQueue implements AsyncIterable<Uint8Array> {
  #waiting: Uint8Array[] = []
  #end: 'open' | 'ended' | { readonly error: unknown } = 'open'
  #wake: () => void = () => {}

  push(slices: readonly Uint8Array[]): void {
    for (const slice of slices) this.#waiting.push(slice)
    this.#wake()
  }

  /** No more follow. */
  end(): void {
    this.#finish('ended')
  }

  /** The reader gets the error in place of what it has not read yet. */
  fail(error: unknown): void {
    this.#finish({ error })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (typeof this.#end === 'object') throw this.#end.error
      const slices = this.#waiting
      this.#waiting = []
      for (const slice of slices) yield slice
      if (this.#waiting.length > 0) continue
      if (this.#end === 'ended') return
      if (this.#end === 'open')
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
    }
  }

  #finish(end: 'ended' | { readonly error: unknown }): void {
    if (this.#end === 'open') this.#end = end
    this.#wake()
  }
}
