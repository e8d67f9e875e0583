/** Work of which only one piece a key may go on at a time: the next begins when the one before is over, however that ended. */
export class OneAtATime {
  /** Resolves when the last piece of each key is over. */
  readonly #last = new Map<string, Promise<void>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.#last.get(key) ?? Promise.resolve()).then(work)
    const over = mine.then(
      () => {},
      () => {}, // whose work it is hears of it
    )
    this.#last.set(key, over)
    try {
      return await mine
    } finally {
      if (this.#last.get(key) === over) this.#last.delete(key)
    }
  }
}
