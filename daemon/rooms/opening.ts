/**
 * How a room comes to be: from a file, from nothing, or from its rows. Opening writes nothing to any file; making a room at a path
 * writes a new, empty notebook there.
 */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Target } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { NotebookId } from '../../protocol/ids.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import { withoutHash } from '../documents/changes.ts'
import { type DocumentSeed, loadDocument, loadDocumentInSlices } from '../documents/document.ts'
import { INLINE_BYTES } from '../documents/document-worker.ts'
import { asSeed, foundingUpdate, type SlicedUpdate } from '../documents/founding-update.ts'
import type { NotebookFile } from '../documents/ipynb/read.ts'
import { Journal, journalSize, readJournal, snapshotStatements } from '../documents/journal.ts'
import { readSource, saveFile } from '../documents/save.ts'
import { type PreparedFileOutputs, prepareFileOutputs } from '../executions/file-outputs.ts'
import { createExecutions } from '../executions/room-executions.ts'
import type { Statement } from '../store/store.ts'
import { baseRows, readBase } from './base-text.ts'
import type { Room, RoomParts } from './room.ts'
import { type RoomRecord, recordByPath, type SourceRecord } from './room-record.ts'
import type { RoomsContext } from './rooms-context.ts'
import { inWords } from './source-after.ts'

/** Bytes of a stored document that take the main thread a few milliseconds. */
const SMALL_DOCUMENT = 64 * 1024

/** A room that is not yet in the store: its parts, what came with the file, and the rows that make it durable (storing.ts). */
export interface NewRoom {
  readonly parts: RoomParts
  readonly outputs: readonly PreparedFileOutputs[]
  /** Of its file, and of who makes it. */
  readonly rows: readonly Statement[]
  readonly snapshot: readonly Statement[]
}

/** Reads a small file into a new room; large ones are opening-large.ts's. Throws what is wrong with the file, and where. */
export async function importFile(rooms: RoomsContext, path: string): Promise<NewRoom> {
  const { bytes, hash } = await readSource(path)
  const file = await rooms.worker.read(bytes, path)
  const record = newRecord(rooms, {
    path,
    kind: 'in-place',
    title: basename(path),
    working_dir: dirname(path),
    source: sourceOf(file, hash),
  })
  const outputs = await prepareFileOutputs(rooms.blobs, file.cells)
  const base = baseRows(record.notebook_id, { hash, text: bytes, cell_ids: null })
  return assemble(rooms, record, foundingUpdate(asSeed(file)), outputs, base)
}

/** Makes a room without a file, or with a new one at `path` (canonical): empty, or with the cells of `original` and none of its outputs. */
export async function createRoom(
  rooms: RoomsContext,
  wanted: Extract<Target, { create: unknown }>['create'],
  path: string | null,
  original: Room | null,
): Promise<{ made: NewRoom; placed: () => Promise<void> }> {
  const choose = (name: string | undefined): Promise<KernelSpecSummary> =>
    rooms.kernels.choose(name === undefined ? {} : { name })
  const content = original ? copyOf(original) : emptyNotebook(await choose(wanted.kernel))
  if (original && wanted.kernel !== undefined) await choose(wanted.kernel)
  if (path !== null) mustBeNew(rooms, path)
  const id = NotebookId.parse(randomUUID())
  const scratch = join(rooms.places.data, 'scratch', id)
  const working_dir =
    wanted.working_dir ?? (path === null ? (original?.record.working_dir ?? scratch) : dirname(path))
  if (working_dir === scratch) await mkdir(scratch, { recursive: true, mode: 0o700 })
  const base =
    original && original.record.source.read_only !== 'format' ? readBase(rooms.store, original.id) : null
  const written =
    path === null
      ? null
      : await rooms.worker.write({
          base: base?.text ?? null,
          base_ids: base?.cell_ids ?? null,
          path,
          metadata: content.metadata,
          cells: content.cells.map((cell) => ({ ...cell, outputs: { outputs: [], execution_count: null } })),
        })
  const record = newRecord(rooms, {
    notebook_id: id,
    path,
    kind: path === null ? 'standalone' : 'in-place',
    title: path === null ? (original ? `Copy of ${original.record.title}` : 'Untitled') : basename(path),
    working_dir,
    kernel_name: wanted.kernel ?? original?.record.kernel_name ?? null,
    ephemeral: wanted.ephemeral ?? false,
    source: written === null ? { state: 'none' } : { state: 'ready', hash: written.hash },
  })
  const rows =
    written === null
      ? []
      : baseRows(id, { hash: written.hash, text: written.bytes, cell_ids: written.cell_ids })
  const made = await assemble(rooms, record, foundingUpdate(content), [], rows)
  const placed = async (): Promise<void> => {
    if (path !== null && written !== null) {
      await saveFile({ path, bytes: written.bytes, expectedHash: null })
    }
  }
  return { made, placed }
}

/** A room that nobody asked for yet: in no list, with an empty notebook. `rows`: of who makes it, for the same transaction. */
export async function makeHiddenRoom(
  rooms: RoomsContext,
  wanted: Pick<RoomRecord, 'notebook_id' | 'kind' | 'title' | 'working_dir'> & {
    readonly spec: KernelSpecSummary
    /** Fixed for the room's kernel, whatever the notebook's metadata say later. */
    readonly kernel_name: string | null
  },
  rows: readonly Statement[],
): Promise<NewRoom> {
  const { spec, ...given } = wanted
  const record = newRecord(rooms, { ...given, path: null, state: 'warming', source: { state: 'none' } })
  return assemble(rooms, record, foundingUpdate(emptyNotebook(spec)), [], rows)
}

function emptyNotebook(spec: KernelSpecSummary): DocumentSeed {
  return {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: {
      kernelspec: { display_name: spec.display_name, language: spec.language, name: spec.name },
      language_info: { name: spec.language },
    },
    cells: [],
  }
}

function copyOf({ document }: Room): DocumentSeed {
  const cells = document.cells(0, document.cellCount).map(withoutHash)
  return { nbformat: 4, nbformat_minor: 5, metadata: document.metadata, cells }
}

/** Throws `conflict` for a file or room that is there already. */
export function mustBeNew(rooms: RoomsContext, path: string): void {
  const next = { tool: 'connect_notebook', arguments: { path } }
  if (existsSync(path)) {
    throw new RoomdError('conflict', `${path} exists already; connect to it instead`, { next })
  }
  const known = recordByPath(rooms.store, path)
  if (!known) return
  throw new RoomdError(
    'conflict',
    `${path} is the file of room ${known.notebook_id}, which is missing on disk: connect by that id and save, or choose another path`,
    { next: { tool: 'connect_notebook', arguments: { notebook_id: known.notebook_id } } },
  )
}

/** Whether opening this file, or loading this room, is work for another thread. */
export async function isLargeFile(path: string): Promise<boolean> {
  const info = await stat(path).catch(() => null) // reading it says what is wrong
  return info !== null && info.size > INLINE_BYTES
}

export function isLargeRoom(rooms: RoomsContext, { notebook_id }: RoomRecord): boolean {
  return journalSize(rooms.store, notebook_id) > SMALL_DOCUMENT
}

/** The parts of a room whose rows are in the store, in one step. */
export function loadParts(rooms: RoomsContext, record: RoomRecord): RoomParts {
  const stored = readJournal(rooms.store, record.notebook_id)
  if (!stored) throw withoutDocument(record)
  return { record, document: loadDocument(stored), ...partsAround(rooms, record) }
}

export function withoutDocument(record: RoomRecord): RoomdError {
  return new RoomdError('storage_failed', `the document of room ${record.notebook_id} is not in the store`)
}

async function assemble(
  rooms: RoomsContext,
  record: RoomRecord,
  founding: SlicedUpdate,
  outputs: readonly PreparedFileOutputs[],
  rows: readonly Statement[],
): Promise<NewRoom> {
  const document = await loadDocumentInSlices(founding.slices)
  return {
    parts: { record, document, ...partsAround(rooms, record) },
    outputs,
    rows,
    snapshot: snapshotStatements(record.notebook_id, record.doc_seq, founding.whole),
  }
}

export function partsAround(
  rooms: RoomsContext,
  record: RoomRecord,
): Pick<RoomParts, 'journal' | 'makeExecutions'> {
  const { store, blobs, clock, log, worker } = rooms
  return {
    journal: new Journal(store, worker, record.notebook_id),
    makeExecutions: (port) => createExecutions({ port, blobs, clock, log }),
  }
}

export function newRecord(
  rooms: RoomsContext,
  given: Partial<RoomRecord> & Pick<RoomRecord, 'path' | 'kind' | 'title' | 'working_dir' | 'source'>,
): RoomRecord {
  const now = rooms.clock.now()
  return {
    notebook_id: NotebookId.parse(randomUUID()),
    state: 'active',
    generation: 0,
    kernel_name: null,
    ephemeral: false,
    commit_seq: 0,
    doc_seq: 0,
    event_seq: 0,
    saved_doc_seq: 0,
    saved_event_seq: 0,
    autosave: 'on',
    keep_alive_ms: null,
    memory_deaths: null,
    launched_kernel: null,
    lost: null,
    created_at: now,
    touched_at: now,
    ...given,
  }
}

export function sourceOf(file: Omit<NotebookFile, 'cells'>, hash: string): SourceRecord {
  const warnings = inWords(file.warnings)
  return {
    state: file.read_only === null ? 'ready' : 'read_only',
    ...(file.read_only === null ? {} : { reason: file.read_only, read_only: 'format' }),
    hash,
    ...(warnings.length > 0 ? { warnings } : {}),
  }
}
