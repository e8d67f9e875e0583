/** A line: one thing after the other, and what was called off while it waited never begins. */
import PQueue from 'p-queue'

export class Line {
  readonly #queue: PQueue

  constructor(options: { concurrency: number } = { concurrency: 1 }) {
    this.#queue = new PQueue(options)
  }

  /** Things that run or wait. */
  get size(): number {
    return this.#queue.size + this.#queue.pending
  }

  /** Rejects with the signal's reason when it is aborted before its turn; the work itself must heed the signal after that. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const leave = (): void => reject(signal?.reason)
      if (signal?.aborted) return leave()
      signal?.addEventListener('abort', leave, { once: true })
      void this.#queue.add(async () => {
        signal?.removeEventListener('abort', leave)
        if (signal?.aborted) return
        await work().then(resolve, reject)
      })
    })
  }
}
