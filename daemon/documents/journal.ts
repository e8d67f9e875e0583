/**
 * The journal of one room's document: appends updates and folds them into snapshots.
 *
 * The room puts what `append` gives into the unit of its change. After every 500 updates or 1 MiB comes a snapshot. That of a small
 * document is what the room has in memory, in the unit of the update that made it due: to make it again from hundreds of updates would
 * take a hundred times as long. Of others the journal has what is committed by then folded by the worker thread, and writes the
 * snapshot as a unit of its own, whatever the room commits meanwhile. Either covers exactly the updates up to its number, and prunes
 * only those. Loading reads the snapshot and the updates behind it, never what a snapshot covers.
 */
import type { NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'
import type { StoredDocument } from './document.ts'
import type { DocumentWorker } from './document-worker.ts'

export const SNAPSHOT_UPDATES = 500
export const SNAPSHOT_BYTES = 1024 * 1024

/** What the store has of a document, and up to which `doc_seq`. null: nothing. */
export function readJournal(
  store: Pick<Store, 'all' | 'get'>,
  notebookId: NotebookId,
): (StoredDocument & { readonly doc_seq: number }) | null {
  const snapshot = store.get<{ doc_seq: number; body: Uint8Array }>(
    'SELECT doc_seq, body FROM doc_snapshots WHERE notebook_id = ?',
    notebookId,
  )
  const slices = store
    .all<{ body: Uint8Array }>('SELECT body FROM doc_slices WHERE notebook_id = ? ORDER BY slice', notebookId)
    .map(({ body }) => body)
  const rows = readTail(store, notebookId, snapshot?.doc_seq ?? 0)
  if (snapshot === undefined && rows.length === 0) return null
  return {
    snapshot: snapshot && snapshot.body.length > 0 ? snapshot.body : null,
    ...(slices.length > 0 ? { slices } : {}),
    updates: rows.map((row) => row.body),
    doc_seq: rows.at(-1)?.doc_seq ?? snapshot?.doc_seq ?? 0,
  }
}

/** Whether the store has what the document began with: updates alone build on nothing. */
export function hasBeginning(store: Pick<Store, 'get'>, notebookId: NotebookId): boolean {
  return store.get('SELECT 1 FROM doc_snapshots WHERE notebook_id = ?', notebookId) !== undefined
}

/** The updates behind a snapshot. */
export function readTail(
  store: Pick<Store, 'all'>,
  notebookId: NotebookId,
  after: number,
): { doc_seq: number; body: Uint8Array }[] {
  return store.all(
    'SELECT doc_seq, body FROM doc_updates WHERE notebook_id = ? AND doc_seq > ? ORDER BY doc_seq',
    notebookId,
    after,
  )
}

/** Bytes of what `readJournal` would read. */
export function journalSize(store: Pick<Store, 'get'>, notebookId: NotebookId): number {
  const row = store.get<{ bytes: number | null }>(
    `SELECT coalesce((SELECT length(body) FROM doc_snapshots WHERE notebook_id = ?), 0) +
            coalesce((SELECT sum(length(body)) FROM doc_slices WHERE notebook_id = ?), 0) +
            coalesce((SELECT sum(length(body)) FROM doc_updates WHERE notebook_id = ?), 0) AS bytes`,
    notebookId,
    notebookId,
    notebookId,
  )
  return row?.bytes ?? 0
}

/** Who made the updates behind `after` that no snapshot has covered yet: the newest editor first. */
export function readEditors(
  store: Pick<Store, 'all'>,
  notebookId: NotebookId,
  after: number,
): Array<{ by: string; edits: number }> {
  return store.all<{ by: string; edits: number }>(
    `SELECT origin AS by, count(*) AS edits FROM doc_updates WHERE notebook_id = ? AND doc_seq > ?
     GROUP BY origin ORDER BY max(doc_seq) DESC`,
    notebookId,
    after,
  )
}

/** A snapshot of a large document: its update in slices, and how the document begins (MessagePack, see the schema). */
export interface SlicedSnapshot {
  readonly slices: readonly Uint8Array[]
  readonly head: Uint8Array
}

/** Makes `body` the snapshot up to `docSeq` and prunes what it covers. A newer snapshot that is there already stays. */
export function snapshotStatements(
  notebookId: NotebookId,
  docSeq: number,
  body: Uint8Array | SlicedSnapshot,
): Statement[] {
  const sliced = body instanceof Uint8Array ? null : body
  return [
    {
      sql: `DELETE FROM doc_slices WHERE notebook_id = ?
              AND NOT EXISTS (SELECT 1 FROM doc_snapshots WHERE notebook_id = ? AND doc_seq >= ?)`,
      values: [notebookId, notebookId, docSeq],
    },
    ...(sliced?.slices ?? []).map((slice, index) => ({
      sql: `INSERT INTO doc_slices (notebook_id, slice, body) SELECT ?, ?, ?
              WHERE NOT EXISTS (SELECT 1 FROM doc_snapshots WHERE notebook_id = ? AND doc_seq >= ?)`,
      values: [notebookId, index, slice, notebookId, docSeq],
    })),
    {
      sql: `INSERT INTO doc_snapshots (notebook_id, doc_seq, body, head) VALUES (?, ?, ?, ?)
            ON CONFLICT (notebook_id) DO UPDATE SET doc_seq = excluded.doc_seq, body = excluded.body, head = excluded.head
            WHERE excluded.doc_seq > doc_snapshots.doc_seq`,
      values: [
        notebookId,
        docSeq,
        body instanceof Uint8Array ? body : new Uint8Array(),
        sliced?.head ?? null,
      ],
    },
    {
      sql: `DELETE FROM doc_updates WHERE notebook_id = ? AND doc_seq <=
              (SELECT doc_seq FROM doc_snapshots WHERE notebook_id = ?)`,
      values: [notebookId, notebookId],
    },
  ]
}

/** A new document's slices from the one with this number on, before its snapshot says that they are all. */
export function sliceStatements(
  notebookId: NotebookId,
  first: number,
  slices: readonly Uint8Array[],
): Statement[] {
  return slices.map((slice, index) => ({
    sql: 'INSERT INTO doc_slices (notebook_id, slice, body) VALUES (?, ?, ?)',
    values: [notebookId, first + index, slice],
  }))
}

/** Says that the slices of a new document are all there. */
export function slicedStatement(notebookId: NotebookId, docSeq: number, head: Uint8Array): Statement {
  return {
    sql: 'INSERT INTO doc_snapshots (notebook_id, doc_seq, body, head) VALUES (?, ?, ?, ?)',
    values: [notebookId, docSeq, new Uint8Array(), head],
  }
}

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
   * Rows of an accepted update, for the unit of its change, which must be handed to the store within this turn of the loop.
   * With them comes a snapshot when one is due, or one is started behind them. `whole`: the document up to this update and no
   * further, or null when it is no small one.
   */
  append(
    docSeq: number,
    update: Uint8Array,
    origin: string,
    at: number,
    whole: () => Uint8Array | null = () => null,
  ): Statement[] {
    this.#updates++
    this.#bytes += update.length
    const row = {
      sql: 'INSERT INTO doc_updates (notebook_id, doc_seq, body, origin, at) VALUES (?, ?, ?, ?, ?)',
      values: [this.#notebookId, docSeq, update, origin, at],
    }
    if (!this.due || this.#disposed || this.#folding) return [row]
    const body = whole()
    if (body) {
      this.#updates = 0
      this.#bytes = 0
      return [row, ...snapshotStatements(this.#notebookId, docSeq, body)]
    }
    this.#folding = this.fold()
      // Failing costs nothing but a longer tail: the next update finds it due and tries again.
      .catch(() => {})
      .finally(() => {
        this.#folding = null
      })
    return [row]
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
    await this.#store.writeShared(snapshotStatements(this.#notebookId, folded.doc_seq, folded.body))
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
