/**
 * What is forgotten: executions that are neither among the newest of their room nor shown by a cell nor young, and blob files that no
 * row names any more. Statements and a sweep; when they run is the caller's to say.
 */
import { setImmediate } from 'node:timers/promises'
import { decode } from '../../protocol/codec.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'
import type { Blobs } from './blobs.ts'
import { openStatuses } from './rows.ts'
import { blobRefOf } from './values.ts'

/** Newest executions of a room that are always kept in full. */
export const KEPT_EXECUTIONS = 200
/** Older ones are kept this long after they ended. */
export const KEPT_MS = 7 * 86_400_000
/** A blob is left alone this long after it was last written, whatever rows say. */
const BLOB_GRACE_MS = 3_600_000
/** Rows read in one slice of the main thread. */
const ROWS_A_SLICE = 500

/**
 * Statements that forget what is beyond the newest 200 of the room, ended more than KEPT_MS before `now`, and shown by none of
 * `cells` (the cells that the document has now; null: not known, every cell that ever showed one counts). Run them when no cell deletion can be undone any more, or leave a deleted cell's
 * outputs to be lost with it.
 */
export function pruneExecutions(
  notebookId: NotebookId,
  cells: readonly CellId[] | null,
  now: number,
): Statement[] {
  const doomed = `SELECT execution_id FROM executions
    WHERE notebook_id = ? AND status NOT IN ${openStatuses} AND coalesce(finished_at, queued_at) < ?
      AND queue_seq < (SELECT min(queue_seq) FROM
        (SELECT queue_seq FROM executions WHERE notebook_id = ? ORDER BY queue_seq DESC LIMIT ${KEPT_EXECUTIONS}))
      AND execution_id NOT IN (SELECT execution_id FROM cell_executions
        WHERE notebook_id = ? AND (? IS NULL OR cell_id IN (SELECT value FROM json_each(?))))`
  const list = cells && JSON.stringify(cells)
  const values = [notebookId, now - KEPT_MS, notebookId, notebookId, list, list ?? '[]']
  // Executions last: the others are found by them.
  return ['output_pieces', 'outputs', 'cell_executions', 'executions'].map((table) => ({
    sql: `DELETE FROM ${table} WHERE execution_id IN (${doomed})`,
    values,
  }))
}

/** Rooms of which `pruneExecutions` may forget something at `now`. */
export function roomsToPrune(store: Store, now: number): NotebookId[] {
  return store
    .all<{ notebook_id: NotebookId }>(
      `SELECT notebook_id FROM executions GROUP BY notebook_id
       HAVING count(*) > ${KEPT_EXECUTIONS} AND min(coalesce(finished_at, queued_at)) < ?`,
      now - KEPT_MS,
    )
    .map((row) => row.notebook_id)
}

/**
 * Removes blob files that no output, kept event or widget names. Reads all rows in slices; what is stored meanwhile is spared by
 * its age. Resolves with what was freed.
 */
export async function collectBlobs(
  store: Store,
  blobs: Blobs,
  now: number,
): Promise<{ removed: number; bytes: number }> {
  const named = new Set<string>()
  await eachBody(store, named, 'outputs', 'execution_id', 'output_index')
  await eachBody(store, named, 'events', 'notebook_id', 'event_seq')
  // Outputs that widgets captured, and their way to the kernel.
  await eachRow(store, named, 'comm_state', 'value', `name = 'outputs'`)
  await eachRow(store, named, 'comm_sends', 'body', `names = '["outputs"]'`)
  return blobs.collect(named, now - BLOB_GRACE_MS)
}

async function eachBody(
  store: Store,
  named: Set<string>,
  table: 'outputs' | 'events',
  key: string,
  order: string,
): Promise<void> {
  let last = { key: '', at: -1 }
  for (;;) {
    const rows = store.all<{ key: string; at: number; body: Uint8Array }>(
      `SELECT ${key} AS key, ${order} AS at, body FROM ${table} WHERE (${key}, ${order}) > (?, ?)
       ORDER BY ${key}, ${order} LIMIT ${ROWS_A_SLICE}`,
      last.key,
      last.at,
    )
    for (const row of rows) collectNames(decode(row.body), named)
    const end = rows.at(-1)
    if (!end) return
    last = { key: end.key, at: end.at }
    await setImmediate()
  }
}

async function eachRow(
  store: Store,
  named: Set<string>,
  table: 'comm_state' | 'comm_sends',
  column: 'value' | 'body',
  which: string,
): Promise<void> {
  for (let last = 0; ; await setImmediate()) {
    const rows = store.all<{ at: number; body: Uint8Array }>(
      `SELECT rowid AS at, ${column} AS body FROM ${table} WHERE rowid > ? AND ${which} ORDER BY rowid LIMIT ${ROWS_A_SLICE}`,
      last,
    )
    for (const row of rows) collectNames(decode(row.body), named)
    const end = rows.at(-1)
    if (!end) return
    last = end.at
  }
}

function collectNames(value: unknown, named: Set<string>): void {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return
  const ref = blobRefOf(value)
  if (ref) named.add(ref.blob)
  for (const inner of Object.values(value)) collectNames(inner, named)
}
