/**
 * Rooms of a store that was damaged: what of a room could not be recovered is had from its file. Without its document, the room begins anew
 * as an empty one that takes in the whole file as a change by `disk`; without the base, what the file says now is the base if it is
 * what was last seen, else an empty notebook is: cells that differ are then conflicts, and nothing is written over unseen. So it is too
 * where some of the document is lost: what it lacks is no edit of anybody.
 */
import { stat } from 'node:fs/promises'
import type { DocumentSeed } from '../documents/document.ts'
import { foundingUpdate } from '../documents/founding-update.ts'
import { writeNotebook } from '../documents/ipynb/write.ts'
import { hasBeginning, snapshotStatements } from '../documents/journal.ts'
import type { Statement } from '../store/store.ts'
import type { BaseText } from './base-text.ts'
import { type RoomRecord, updateBinding } from './room-record.ts'
import type { RoomsContext } from './rooms-context.ts'
import { settled } from './source-after.ts'

const EMPTY: DocumentSeed = { nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [] }

/** A file with nothing in it. */
export function emptyBase(): BaseText {
  const { bytes, hash, cell_ids } = writeNotebook({ base: null, path: '', metadata: {}, cells: [] })
  return { hash, text: bytes, cell_ids }
}

/** Gives a room whose document is lost an empty one, if its file is there to fill it. Who loads the room looks at the file next. */
export async function refoundFromFile({ store, log }: RoomsContext, record: RoomRecord): Promise<void> {
  const { notebook_id, path, doc_seq, source } = record
  if (path === null || hasBeginning(store, notebook_id)) return
  if ((await stat(path).catch(() => null)) === null) return // neither is left: loading says so
  log.warn({ room: notebook_id, path }, 'the document of a room is lost; it begins anew from its file')
  const { warnings: _, ...kept } = settled(source)
  record.source = { ...kept, ...(source.read_only === 'format' ? { read_only: 'format' } : {}) }
  record.saved_doc_seq = doc_seq
  await store.write([
    ...snapshotStatements(notebook_id, doc_seq, foundingUpdate(EMPTY).whole),
    ...forgetBase(record),
  ])
}

/** Of a room whose document is not whole: what the file says is compared anew, as if it had never been seen. */
export function forgetBase(record: RoomRecord): Statement[] {
  const { hash: _, ...kept } = record.source
  record.source = kept
  return [
    { sql: 'DELETE FROM sources WHERE notebook_id = ?', values: [record.notebook_id] },
    updateBinding(record),
  ]
}
