/**
 * The journal of one room's document: appends updates and folds them into snapshots in the background.
 *
 * The room puts what `append` gives into the unit of its change. After every 500 updates or 1 MiB the journal has what is
 * committed by then folded by the worker thread, and writes the snapshot as a unit of its own, whatever the room commits
 * meanwhile: it covers exactly the updates up to its number, and prunes only those.
 */
import type { NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'
import type { DocumentWorker } from './document-worker.ts'
import { snapshotStatements, updateStatement } from './journal-rows.ts'

export const SNAPSHOT_UPDATES = 500
export const SNAPSHOT_BYTES = 1024 * 1024

export class Journal {
  readonly #store: Store
  readonly #worker: DocumentWorker
  readonly #notebookId: NotebookId
  /** Since the last snapshot. */
  #updates: number
  #bytes: number
  #folding: Promise<void> | null = null
  #disposed = false

  constructor(store: Store, worker: DocumentWorker, notebookId: NotebookId) {
    this.#store = store
    this.#worker = worker
    this.#notebookId = notebookId
    const tail = store.get<{ updates: number; bytes: number | null }>(
      'SELECT count(*) AS updates, sum(length(body)) AS bytes FROM doc_updates WHERE notebook_id = ?',
      notebookId,
    )
    this.#updates = tail?.updates ?? 0
    this.#bytes = tail?.bytes ?? 0
  }

  /**
   * Row of an accepted update, for the unit of its change, which must be handed to the store within this turn of the loop.
   * Starts a snapshot behind it when one is due.
   */
  append(docSeq: number, update: Uint8Array, origin: string, at: number): Statement {
    this.#updates++
    this.#bytes += update.length
    if (this.due && !this.#disposed) {
      this.#folding ??= this.fold()
        // Failing costs nothing but a longer tail: the next update finds it due and tries again.
        .catch(() => {})
        .finally(() => {
          this.#folding = null
        })
    }
    return updateStatement(this.#notebookId, docSeq, update, origin, at)
  }

  get due(): boolean {
    return this.#updates >= SNAPSHOT_UPDATES || this.#bytes >= SNAPSHOT_BYTES
  }

  /** Folds what is committed by now into a snapshot. Rejects with the storage error, or when the worker is gone. */
  async fold(): Promise<void> {
    // The unit that `append` belongs to is handed over within this turn.
    await new Promise<void>((resolve) => setImmediate(resolve))
    await this.#store.settled()
    if (this.#disposed) return
    const folded = await this.#worker.fold(this.#notebookId)
    if (folded === null || this.#disposed) return
    await this.#store.write(snapshotStatements(this.#notebookId, folded.doc_seq, folded.body))
    this.#updates = Math.max(0, this.#updates - folded.updates)
    this.#bytes = Math.max(0, this.#bytes - folded.bytes)
  }

  /** Resolves when no snapshot is under way. */
  async settled(): Promise<void> {
    await this.#folding
  }

  dispose(): void {
    this.#disposed = true
  }
}
