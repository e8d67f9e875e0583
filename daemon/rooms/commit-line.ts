/**
 * The line in which a room's changes become durable. Owns the order: what is told outside is told in the order of the calls,
 * and only after the commit it stands behind.
 *
 * Invariants: callbacks run in call order, synchronously with the commit's return; after a failure nothing that was submitted
 * runs any more (a later unit builds on the failed one), every waiter is told, and the line stays broken: the room makes a new
 * one when it has rebuilt itself.
 */
import type { RoomdError } from '../../protocol/errors.ts'
import type { Store, WriteUnit } from '../store/store.ts'

interface Entry {
  ready: boolean
  readonly run: () => void
  readonly fail: (error: RoomdError) => void
}

export class CommitLine {
  readonly #store: Store
  readonly #broken: (error: RoomdError) => void
  #entries: Entry[] = []
  #fault: RoomdError | null = null

  constructor(store: Store, broken: (error: RoomdError) => void) {
    this.#store = store
    this.#broken = broken
  }

  get pending(): number {
    return this.#entries.length
  }

  /** Writes a unit; `committed` runs in line after its commit, then the promise resolves. `early`: see Store.write. */
  submit(unit: WriteUnit, committed: () => void, early = false): Promise<void> {
    if (this.#fault) return Promise.reject(this.#fault)
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        ready: false,
        run: () => {
          committed()
          resolve()
        },
        fail: reject,
      }
      this.#entries.push(entry)
      this.#store.write(unit, early).then(
        () => {
          entry.ready = true
          this.#drain()
        },
        (error: RoomdError) => this.break(error),
      )
    })
  }

  /** Runs `run` once everything submitted so far is committed and told: now, if nothing is pending. */
  behind(run: () => void, fail: (error: RoomdError) => void): void {
    if (this.#fault) fail(this.#fault)
    else if (this.#entries.length === 0) run()
    else this.#entries.push({ ready: true, run, fail })
  }

  /** Resolves when everything submitted so far is committed and told. */
  settled(): Promise<void> {
    return new Promise((resolve, reject) => this.behind(resolve, reject))
  }

  #drain(): void {
    while (this.#entries[0]?.ready) this.#entries.shift()?.run()
  }

  /** Fails everything that waits, and the line for good. */
  break(error: RoomdError): void {
    if (this.#fault) return
    this.#fault = error
    const entries = this.#entries
    this.#entries = []
    // Rebuild before waiters run: their handlers may look at the room.
    this.#broken(error)
    for (const entry of entries) entry.fail(error)
  }
}
