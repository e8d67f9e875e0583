/**
 * What another program did to a room's file. Judged by content: bytes with the hash last seen are no change, whatever the events
 * said. A change is merged into the room as one edit by `disk`; the base is the text last read or written.
 *
 * Race: the room goes on while the merge is worked out in another thread; if it changed meanwhile the merge is done again, and in
 * the end at once. The caller holds the room's source line.
 */
import { stat } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId } from '../../protocol/ids.ts'
import { type FileIdentity, type FileWitness, mayWrite } from '../documents/file-witness.ts'
import { type MergedFile, type MergeRequest, mergeFile } from '../documents/merge/merge-file.ts'
import type { ChangedOutputs } from '../documents/merge/merge-notebook.ts'
import { readSource } from '../documents/save.ts'
import { outputsForFile, type PreparedFileOutputs, prepareFileOutputs } from '../executions/file-outputs.ts'
import { type BaseText, baseRows, hasBase, readBase } from './base-text.ts'
import { operationsOf } from './merge-operations.ts'
import { emptyBase } from './refounding.ts'
import type { Room } from './room.ts'
import { recordByPath, type SourceRecord, updateBinding } from './room-record.ts'
import { bare, conflictReason, inWords, notWritable, reasonOf, restored, settled } from './source-after.ts'

/** Attempts at merging beside a room that goes on changing; the next one lets nothing in between. */
const PATIENT_MERGES = 4

export type Look =
  | { readonly found: 'settled'; readonly identity: FileIdentity | null }
  /** The path has become another name (a link) of this file, which is no other room's. Nothing was changed. */
  | { readonly found: 'renamed'; readonly path: string }
  /** The file is away, or is no notebook just now: whoever writes it may not be done. Nothing was changed. */
  | { readonly found: 'unsettled'; readonly gone: boolean }

/**
 * Looks at the file and takes what changed. `patient`: leaves alone what may be a moment in the middle of another program's
 * writing. Rejects with the storage error when the change could not be stored.
 */
export async function lookAtFile(room: Room, patient: boolean): Promise<Look> {
  const { path } = room.record
  if (path === null || room.fault) return { found: 'settled', identity: null }
  let found: { path: string; bytes: Uint8Array; hash: string }
  let identity: FileIdentity
  let writable: boolean
  try {
    const { dev, ino, mode } = await stat(path)
    identity = { dev, ino }
    writable = (mode & 0o222) !== 0 && (await mayWrite(path))
    found = await readSource(path)
  } catch (thrown) {
    const error = asRoomdError(thrown)
    const gone = error.code === 'not_found'
    if (patient) return { found: 'unsettled', gone }
    const why = gone
      ? `${path} is gone: it was deleted or moved by another program; saving writes it anew`
      : error.message
    await tell(room, { ...bare(room.record.source), state: gone ? 'missing' : 'degraded', reason: why })
    return { found: 'settled', identity: null }
  }
  const { hash, bytes } = found
  const { source } = room.record
  if (found.path !== path) {
    const other = recordByPath(room.store, found.path)
    if (!other) return { found: 'renamed', path: found.path }
    const reason = `${path} is now another name of ${found.path}, the file of room ${other.notebook_id}: go on there`
    await tell(room, { ...bare(source), state: 'degraded', reason })
    return { found: 'settled', identity }
  }
  if (hash === source.hash) {
    // Lost with a damaged store: it is what stands there.
    if (!hasBase(room.store, room.id))
      await tell(room, source, baseRows(room.id, { hash, text: bytes, cell_ids: null }))
    await unchanged(room, writable)
  } else if (source.pending?.hash === hash) await finished(room, source.pending, bytes)
  else {
    try {
      await take(room, path, bytes, hash, writable)
    } catch (error) {
      if (!(error instanceof RoomdError) || error.code !== 'invalid_argument') throw error
      if (patient) return { found: 'unsettled', gone: false }
      const reason = `the file was changed by another program and cannot be merged: ${error.message}`
      await tell(room, { ...bare(source), state: 'modified_outside', reason })
    }
  }
  return { found: 'settled', identity }
}

/** A file that was read a moment ago, and who says whether anybody touched it since. */
export interface ReadFile {
  readonly hash: string
  readonly witness: FileWitness
}

/** The same as `lookAtFile` for a file that is still as it was read; null: it must be looked at. */
export async function lookAgain(room: Room, { hash, witness }: ReadFile): Promise<FileIdentity | null> {
  if (room.fault || room.record.path !== witness.path || room.record.source.hash !== hash) return null
  const file = await witness.untouched()
  if (file) await unchanged(room, file.writable)
  return file
}

/** The bytes are those last seen: what was said of the file in between is over. */
async function unchanged(room: Room, writable: boolean): Promise<void> {
  const { source } = room.record
  const { state } = source
  if (state === 'read_only' && source.read_only !== 'permission') return
  if (state === 'conflict') return
  if (source.read_only === 'format') await tell(room, { ...restored(source), ...(await formatOf(room)) })
  else if (!writable) await tell(room, { ...bare(source), ...notWritable(room.record.path) })
  else if (state !== 'ready' || source.pending) await tell(room, restored(source))
}

/** Why the file as last seen may not be written. */
async function formatOf({ id, record, store, surroundings }: Room): Promise<{ reason?: string }> {
  const base = readBase(store, id)
  if (base === null) return {}
  const { read_only } = await surroundings.context.worker.read(base.text, record.path ?? '')
  return read_only === null ? {} : { reason: read_only }
}

/** The file was replaced by a save of ours, and the process ended before it could say so. */
async function finished(
  room: Room,
  pending: NonNullable<SourceRecord['pending']>,
  bytes: Uint8Array,
): Promise<void> {
  const { record } = room
  const { hash, doc_seq, event_seq, cell_ids } = pending
  record.saved_doc_seq = doc_seq
  record.saved_event_seq = event_seq
  const base: BaseText = { hash, text: bytes, cell_ids: cell_ids ?? null }
  await tell(room, { ...settled(record.source), hash }, baseRows(room.id, base))
}

/** Merges the file into the room, as one change that holds everything. */
async function take(
  room: Room,
  path: string,
  bytes: Uint8Array,
  hash: string,
  writable: boolean,
): Promise<void> {
  const { worker, store } = room.surroundings.context
  const base = readBase(store, room.id) ?? emptyBase()
  for (let attempt = 0; ; attempt++) {
    const request = requestOf(room, path, base, bytes)
    const before = room.docSeq
    const patient = attempt < PATIENT_MERGES
    const merged = patient ? await worker.merge(request) : mergeFile(request)
    mustBeMergeable(room, path, merged)
    const outputs = patient ? await chooseOutputs(room, merged.plan.outputs) : nothingChosen(merged)
    if (room.docSeq !== before) continue
    await apply(room, merged, outputs, { bytes, hash, writable })
    return
  }
}

function requestOf(room: Room, path: string, base: BaseText, disk: Uint8Array): MergeRequest {
  const { document, record } = room
  return {
    path,
    base: base.text,
    base_ids: base.cell_ids,
    disk,
    metadata: document.metadata,
    cells: document.cells(0, document.cellCount),
    open: record.source.conflicts ?? [],
  }
}

function mustBeMergeable(room: Room, path: string, { file }: MergedFile): void {
  if (file.read_only === null || room.record.source.read_only === 'format') return
  throw new RoomdError('invalid_argument', `${path} is now of an old format (${file.read_only})`)
}

interface ChosenOutputs {
  readonly taken: readonly PreparedFileOutputs[]
  readonly cleared: readonly CellId[]
  /** The room's stay, although the file has others. */
  readonly kept: readonly CellId[]
}

/** Outputs that the room did not change since the base are taken from the file; of others the room's stay. */
async function chooseOutputs(room: Room, changed: readonly ChangedOutputs[]): Promise<ChosenOutputs> {
  const { store, blobs } = room.surroundings.context
  const wanted: ChangedOutputs[] = []
  const cleared: CellId[] = []
  const kept: CellId[] = []
  for (const cell of changed) {
    const shown = await outputsForFile(store, blobs, room.id, cell.cell_id)
    const before = cell.before ?? { outputs: [], execution_count: null }
    const same =
      (shown?.execution_count ?? null) === before.execution_count &&
      isDeepStrictEqual(shown?.outputs ?? [], before.outputs)
    if (!same) kept.push(cell.cell_id)
    else if (cell.outputs.length === 0 && cell.execution_count === null) cleared.push(cell.cell_id)
    else wanted.push(cell)
  }
  return { taken: await prepareFileOutputs(blobs, wanted), cleared, kept }
}

function nothingChosen({ plan }: MergedFile): ChosenOutputs {
  return { taken: [], cleared: [], kept: plan.outputs.map(({ cell_id }) => cell_id) }
}

/** Synchronous up to the commit: what was worked out holds. */
function apply(
  room: Room,
  { plan, file, cell_ids }: MergedFile,
  outputs: ChosenOutputs,
  now: { bytes: Uint8Array; hash: string; writable: boolean },
): Promise<void> {
  const { record, document, executions } = room
  const operations = operationsOf(plan, document.cellIds())
  const { change } =
    operations.length > 0 || plan.metadata
      ? document.apply(operations, plan.metadata ?? undefined)
      : { change: null }
  const taken = executions.takeFileOutputs(outputs.taken)
  const cleared = outputs.cleared.length > 0 ? executions.clearOutputs(outputs.cleared) : null
  room.source.saver.outputsDiffer(outputs.kept)
  const before = record.source
  record.source = sourceAfter(room, { plan, file, cell_ids }, now)
  // A room that was as the file was is now as the file is.
  const dirty = record.doc_seq !== record.saved_doc_seq
  if (plan.room_clean && !dirty && change) record.saved_doc_seq = record.doc_seq + 1
  const base: BaseText = { hash: now.hash, text: now.bytes, cell_ids }
  return room.commit({
    statements: [
      updateBinding(record),
      ...baseRows(room.id, base),
      ...taken.statements,
      ...(cleared?.statements ?? []),
    ],
    events: [...sourceEvents(room, before), ...taken.events, ...(cleared?.events ?? [])],
    ...(change ? { document: { change, by: 'disk' } } : {}),
  })
}

function sourceAfter(
  room: Room,
  { plan, file }: MergedFile,
  { hash, writable }: { hash: string; writable: boolean },
): SourceRecord {
  const warnings = [
    ...inWords(file.warnings),
    ...plan.dropped.map((at) => `${at}: changed here and in the file in different ways; what is here stayed`),
  ]
  const common = { hash, ...(warnings.length > 0 ? { warnings } : {}) }
  if (plan.conflicts.length > 0) {
    return {
      ...common,
      state: 'conflict',
      reason: conflictReason(plan.conflicts.length),
      conflicts: plan.conflicts.map((conflict) => ({ ...conflict })),
    }
  }
  if (file.read_only !== null)
    return { ...common, state: 'read_only', reason: file.read_only, read_only: 'format' }
  if (room.record.source.read_only === 'elsewhere')
    return { ...common, state: 'read_only', read_only: 'elsewhere', ...reasonOf(room.record.source) }
  return writable ? { ...common, state: 'ready' } : { ...common, ...notWritable(room.record.path) }
}

/** Makes `source` the room's, durably, and tells it when it reads otherwise than before. */
export async function tell(
  room: Room,
  source: SourceRecord,
  rows: ReturnType<typeof baseRows> = [],
): Promise<void> {
  const before = room.record.source
  if (rows.length === 0 && isDeepStrictEqual(before, source)) return
  room.record.source = source
  await room.commit({
    statements: [updateBinding(room.record), ...rows],
    events: sourceEvents(room, before),
  })
}

function sourceEvents(room: Room, before: SourceRecord) {
  const { path, source } = room.record
  if (before.state === source.state && before.reason === source.reason) return []
  return [{ type: 'source' as const, path, state: source.state, ...reasonOf(source) }]
}

function asRoomdError(thrown: unknown): RoomdError {
  if (thrown instanceof RoomdError) return thrown
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined
  const said = thrown instanceof Error ? thrown.message : String(thrown)
  return new RoomdError(code === 'ENOENT' || code === 'ENOTDIR' ? 'not_found' : 'storage_failed', said)
}
