/** Rows of a document's journal: a snapshot, and the updates behind it. Loading never looks at what a snapshot covers. */
import type { NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'
import type { StoredDocument } from './document.ts'

/** What the store has of a document, and up to which `doc_seq`. null: nothing. */
export function readJournal(
  store: Pick<Store, 'all' | 'get'>,
  notebookId: NotebookId,
): (StoredDocument & { readonly doc_seq: number }) | null {
  const snapshot = store.get<{ doc_seq: number; body: Uint8Array }>(
    'SELECT doc_seq, body FROM doc_snapshots WHERE notebook_id = ?',
    notebookId,
  )
  const rows = store.all<{ doc_seq: number; body: Uint8Array }>(
    'SELECT doc_seq, body FROM doc_updates WHERE notebook_id = ? AND doc_seq > ? ORDER BY doc_seq',
    notebookId,
    snapshot?.doc_seq ?? 0,
  )
  if (snapshot === undefined && rows.length === 0) return null
  return {
    snapshot: snapshot?.body ?? null,
    updates: rows.map((row) => row.body),
    doc_seq: rows.at(-1)?.doc_seq ?? snapshot?.doc_seq ?? 0,
  }
}

/** Row of an accepted update. */
export function updateStatement(
  notebookId: NotebookId,
  docSeq: number,
  update: Uint8Array,
  origin: string,
  at: number,
): Statement {
  return {
    sql: 'INSERT INTO doc_updates (notebook_id, doc_seq, body, origin, at) VALUES (?, ?, ?, ?, ?)',
    values: [notebookId, docSeq, update, origin, at],
  }
}

/** Makes `body` the snapshot up to `docSeq` and prunes what it covers. A newer snapshot that is there already stays. */
export function snapshotStatements(notebookId: NotebookId, docSeq: number, body: Uint8Array): Statement[] {
  return [
    {
      sql: `INSERT INTO doc_snapshots (notebook_id, doc_seq, body) VALUES (?, ?, ?)
            ON CONFLICT (notebook_id) DO UPDATE SET doc_seq = excluded.doc_seq, body = excluded.body
            WHERE excluded.doc_seq > doc_snapshots.doc_seq`,
      values: [notebookId, docSeq, body],
    },
    {
      sql: `DELETE FROM doc_updates WHERE notebook_id = ? AND doc_seq <=
              (SELECT doc_seq FROM doc_snapshots WHERE notebook_id = ?)`,
      values: [notebookId, notebookId],
    },
  ]
}
