/**
 * Writes many rows that belong together, such as those of a large notebook, without anybody's commit waiting for more than a few of
 * them: each addition is a small transaction, of which only some are handed over at a time, so that what others write comes in between.
 *
 * None of it is made to last by itself (`Store.writeShared`): the caller's last unit, which says that all is there, does that.
 */
import type { Store, WriteUnit } from './store.ts'

/** Handed over at a time: enough that the writer is never without work while a turn of the main thread is under way. */
const AT_A_TIME = 4

interface Addition {
  readonly unit: WriteUnit
  readonly packed: Uint8Array | undefined
}

export class BulkWriter {
  readonly #store: Pick<Store, 'writeShared'>
  #waiting: Addition[] = []
  #next = 0
  #under = 0
  #failure: { readonly error: unknown } | null = null
  #settled: () => void = () => {}

  constructor(store: Pick<Store, 'writeShared'>) {
    this.#store = store
  }

  /** In the order of the calls. A few hundred kilobytes at most, in shared memory. */
  add(unit: WriteUnit, packed?: Uint8Array): void {
    if (this.#failure) return
    this.#waiting.push({ unit, packed })
    this.#handOver()
  }

  /** Nothing more is written; what is under way ends. */
  stop(error: unknown): void {
    this.#failure ??= { error }
    this.#waiting = []
    this.#next = 0
  }

  /** Resolves when all that was added is in the store; rejects with why some of it is not, when nothing is under way any more. */
  async done(): Promise<void> {
    while (this.#under > 0)
      await new Promise<void>((resolve) => {
        this.#settled = resolve
      })
    if (this.#failure) throw this.#failure.error
  }

  #handOver(): void {
    while (this.#under < AT_A_TIME) {
      const addition = this.#waiting[this.#next]
      if (addition === undefined) break
      this.#next++
      this.#under++
      this.#store.writeShared(addition.unit, addition.packed, false).then(
        () => this.#ended(),
        (error: unknown) => {
          this.stop(error)
          this.#ended()
        },
      )
    }
    if (this.#next < this.#waiting.length) return
    this.#waiting = []
    this.#next = 0
  }

  #ended(): void {
    this.#under--
    this.#handOver()
    if (this.#under === 0) this.#settled()
  }
}
