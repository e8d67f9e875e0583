/**
 * A document that was made apart from the room's. Yjs would merge it all the same: every cell would be there twice, and the
 * metadata of one of the two would be gone. This happens when a store was lost and the notebook was read from its file again
 * while an editor still has the old document, or when an editor fills its document before it has asked for the room's.
 *
 * How it is told: what is put into a list, or set as a key, names its neighbours or its predecessor. Only what was put into an
 * empty list, or set as a new key, names none. The room's first cell and first metadata were, when the room was made; whoever
 * puts such beside them has not started from them. (Later beginnings are nothing special: two who insert the first cell of
 * an empty notebook at once both are right.)
 */
import * as Y from 'yjs'
import { RoomdError } from '../../protocol/errors.ts'
import { cellsOf, metaOf } from './layout.ts'

/** Set when a notebook is made, and never anew. */
const FOUNDING_KEYS = ['nbformat', 'nbformat_minor', 'metadata']
/** Cells that a report names, of each kind. */
const MAX_NAMED = 50
/** A root's name is in the bytes of whatever is put into it without a neighbour. */
const MARKS = [Buffer.from('cells'), Buffer.from('meta')]

/** How a foreign document and the room compare; ids of cells, at most 50 of each kind. */
export interface Comparison {
  readonly same: number
  readonly different: string[]
  readonly only_in_room: string[]
  readonly only_in_theirs: string[]
}

/** Throws `sync_failed`, with a comparison as its cause, for an update that began apart from the document. Applies nothing. */
export function checkHistory(doc: Y.Doc, update: Uint8Array): void {
  const bytes = Buffer.from(update.buffer, update.byteOffset, update.byteLength)
  // Nearly all updates have neither, which costs next to nothing to see.
  if (!MARKS.some((mark) => bytes.includes(mark))) return
  const { structs } = Y.decodeUpdate(update)
  if (!structs.some((struct) => struct instanceof Y.Item && isForeignBeginning(doc, struct))) return
  throw refusal(compare(doc, update))
}

/** `item`: as an update has it, not yet part of a document. Its parent is a name where it has no neighbour, and the name of a root. */
function isForeignBeginning(doc: Y.Doc, item: Y.Item): boolean {
  const parent: unknown = item.parent
  if (item.origin !== null || item.rightOrigin !== null || typeof parent !== 'string') return false
  // Known: the document has it itself.
  if (item.id.clock < Y.getState(doc.store, item.id.client)) return false
  if (parent === 'meta') return item.parentSub !== null && FOUNDING_KEYS.includes(item.parentSub)
  return parent === 'cells' && hasFoundingCells(doc)
}

/** Whether the room began with cells: put there by the one who set the notebook's format. */
function hasFoundingCells(doc: Y.Doc): boolean {
  let format = metaOf(doc)._map.get('nbformat')
  while (format?.left) format = format.left
  for (let item = cellsOf(doc)._start; item !== null; item = item.right) {
    if (item.origin === null && item.rightOrigin === null && item.id.client === format?.id.client) return true
  }
  return false
}

function compare(doc: Y.Doc, update: Uint8Array): Comparison {
  const theirs = sourcesOf(foreign(update))
  const ours = sourcesOf(doc)
  const different: string[] = []
  const onlyOurs: string[] = []
  let same = 0
  for (const [id, source] of ours) {
    if (!theirs.has(id)) onlyOurs.push(id)
    else if (theirs.get(id) === source) same++
    else different.push(id)
  }
  const onlyTheirs = [...theirs.keys()].filter((id) => !ours.has(id))
  return {
    same,
    different: different.slice(0, MAX_NAMED),
    only_in_room: onlyOurs.slice(0, MAX_NAMED),
    only_in_theirs: onlyTheirs.slice(0, MAX_NAMED),
  }
}

/** The document that the update makes by itself. */
function foreign(update: Uint8Array): Y.Doc {
  const doc = new Y.Doc()
  Y.applyUpdate(doc, update)
  return doc
}

/** Sources by id of whatever looks like a cell. */
function sourcesOf(doc: Y.Doc): Map<string, string> {
  const sources = new Map<string, string>()
  const cells: Y.Array<unknown> = doc.getArray('cells')
  cells.forEach((cell) => {
    if (!(cell instanceof Y.Map)) return
    sources.set(String(cell.get('id')), String(cell.get('source') ?? ''))
  })
  return sources
}

function refusal(comparison: Comparison): RoomdError {
  const { same, different, only_in_room, only_in_theirs } = comparison
  const gone = different.length + only_in_theirs.length
  const verdict =
    gone === 0
      ? `nothing of it is missing here (${same} cells are the same, ${only_in_room.length} more are in the room)`
      : `${different.length} cells differ and ${only_in_theirs.length} are not in the room; keep their text, and put in what is missing`
  return new RoomdError(
    'sync_failed',
    `this document was not made from the room's: merging would double its cells, so it was only compared: ${verdict}. Start again with an empty document`,
    { retryable: false, cause: { reason: 'foreign_history', ...comparison } },
  )
}
