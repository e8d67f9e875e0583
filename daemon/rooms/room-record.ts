/** A room's row: what is known of it without loading it. Parsed once when read. */
import { z } from 'zod'
import { decode, encode } from '../../protocol/codec.ts'
import { CellId, NotebookId } from '../../protocol/ids.ts'
import { lazily } from '../../protocol/lazily.ts'
import { Autosaving, SourceState } from '../../protocol/notebook.ts'
import type { SqlValue, Statement, Store } from '../store/store.ts'
import { MemoryDeaths } from './memory-breaker.ts'
import { type RoomState, roomStates } from './room-state.ts'

/** What is kept of the bound file. `hash`: SHA-256 of the bytes last read or written. */
export const SourceRecord = lazily(() =>
  z.object({
    state: SourceState,
    reason: z.string().optional(),
    hash: z.string().optional(),
    /** Written before the file is replaced: a crash in between is known by it. */
    pending: z
      .object({
        hash: z.string(),
        doc_seq: z.number(),
        event_seq: z.number(),
        /** What the room calls the cells of the new file, where that is not what the file says. */
        cell_ids: z.array(CellId).optional(),
      })
      .optional(),
    /** Cells that file and room changed in different ways. The room's side is in the document. */
    conflicts: z
      .array(z.object({ cell_id: CellId, base: z.string().nullable(), disk: z.string().nullable() }))
      .optional(),
    /** With state `read_only`: an old format, no permission to write, a daemon of another home that has the file, or archived. */
    read_only: z.enum(['format', 'permission', 'elsewhere', 'archived']).optional(),
    /** What opening reported: duplicate ids, missing ids and the like. */
    warnings: z.array(z.string()).optional(),
  }),
)
export type SourceRecord = z.output<typeof SourceRecord>

/** A kernel that was ended although nobody asked for that. `text`: what went with it, for people; null: nothing. */
export const Lost = lazily(() => z.object({ kernel_id: z.string(), text: z.string().nullable() }))
export type Lost = z.output<typeof Lost>

export interface RoomRecord {
  readonly notebook_id: NotebookId
  path: string | null
  kind: 'standalone' | 'in-place' | 'project'
  /** Written by room-state.ts alone. */
  state: RoomState
  /** Rises with each step of `state`. */
  generation: number
  title: string
  working_dir: string
  kernel_name: string | null
  ephemeral: boolean
  commit_seq: number
  doc_seq: number
  event_seq: number
  saved_doc_seq: number
  saved_event_seq: number
  source: SourceRecord
  /** `paused`: outputs alone are not saved by themselves, until someone edits or saves. */
  autosave: Autosaving
  /** null: the default; -1: pinned. */
  keep_alive_ms: number | null
  memory_deaths: MemoryDeaths | null
  /** Kernelspec of the last kernel that came up. */
  launched_kernel: string | null
  /** While evicted: which kernel was ended, and what went with it. */
  lost: Lost | null
  created_at: number
  touched_at: number
}

const Row = lazily(() =>
  z.object({
    notebook_id: NotebookId,
    path: z.string().nullable(),
    kind: z.enum(['standalone', 'in-place', 'project']),
    state: z.enum(roomStates),
    generation: z.number(),
    title: z.string(),
    working_dir: z.string(),
    kernel_name: z.string().nullable(),
    ephemeral: z.number(),
    commit_seq: z.number(),
    doc_seq: z.number(),
    event_seq: z.number(),
    saved_doc_seq: z.number(),
    saved_event_seq: z.number(),
    source: z.instanceof(Uint8Array).nullable(),
    autosave: Autosaving,
    keep_alive_ms: z.number().nullable(),
    memory_deaths: z.string().nullable(),
    launched_kernel: z.string().nullable(),
    lost: z.string().nullable(),
    created_at: z.number(),
    touched_at: z.number(),
  }),
)

function parseRow(row: unknown): RoomRecord {
  const parsed = Row.parse(row)
  return {
    ...parsed,
    ephemeral: parsed.ephemeral !== 0,
    memory_deaths:
      parsed.memory_deaths === null ? null : MemoryDeaths.parse(JSON.parse(parsed.memory_deaths)),
    lost: parsed.lost === null ? null : Lost.parse(JSON.parse(parsed.lost)),
    source: parsed.source ? SourceRecord.parse(decode(parsed.source)) : { state: 'none' },
  }
}

export function recordById(store: Store, notebookId: NotebookId): RoomRecord | undefined {
  const row = store.get('SELECT * FROM rooms WHERE notebook_id = ?', notebookId)
  return row === undefined ? undefined : parseRow(row)
}

export function recordByPath(store: Store, path: string): RoomRecord | undefined {
  const row = store.get('SELECT * FROM rooms WHERE path = ?', path)
  return row === undefined ? undefined : parseRow(row)
}

/** Rows whose id begins with `prefix` (hex digits and dashes only), at most two: enough to know that it is not unique. */
export function recordsByPrefix(store: Store, prefix: string): RoomRecord[] {
  if (!/^[0-9a-f-]+$/.test(prefix)) return []
  return store
    .all(
      `SELECT * FROM rooms WHERE notebook_id >= ? AND notebook_id < ? AND state NOT IN (${UNCLAIMED}) AND NOT ${UNFINISHED} LIMIT 2`,
      prefix,
      `${prefix}~`,
    )
    .map(parseRow)
}

/** In no list, and found by nobody who does not know the id. */
const UNCLAIMED = "'warming', 'pooled', 'discarded'"
/** Condition on `rooms`: being stored still; see storing.ts. */
export const UNFINISHED = "(kind = 'in-place' AND path IS NULL)"

export function isUnfinished({ kind, path }: RoomRecord): boolean {
  return kind === 'in-place' && path === null
}

/** The most recently touched rooms; none that hold no work. */
export function recentRecords(store: Store, limit: number): RoomRecord[] {
  return store
    .all(
      `SELECT * FROM rooms WHERE state NOT IN (${UNCLAIMED}, 'draft', 'archived') AND NOT ${UNFINISHED} ORDER BY touched_at DESC LIMIT ?`,
      limit,
    )
    .map(parseRow)
}

export function insertRecord(record: RoomRecord): Statement {
  const columns: Record<string, SqlValue> = {
    ...record,
    ephemeral: record.ephemeral ? 1 : 0,
    source: encode(record.source),
    memory_deaths: record.memory_deaths === null ? null : JSON.stringify(record.memory_deaths),
    lost: record.lost === null ? null : JSON.stringify(record.lost),
  }
  const names = Object.keys(columns)
  return {
    sql: `INSERT INTO rooms (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
    values: Object.values(columns),
  }
}

/** Writes what a save or a change of the binding changed. */
export function updateBinding(record: RoomRecord): Statement {
  return {
    sql: `UPDATE rooms SET path = ?, kind = ?, title = ?, working_dir = ?, source = ?, autosave = ?,
            saved_doc_seq = ?, saved_event_seq = ? WHERE notebook_id = ?`,
    values: [
      record.path,
      record.kind,
      record.title,
      record.working_dir,
      encode(record.source),
      record.autosave,
      record.saved_doc_seq,
      record.saved_event_seq,
      record.notebook_id,
    ],
  }
}

/** Writes what concerns the life of the room's kernels. */
export function updateKernelLife(record: RoomRecord): Statement {
  const { kernel_name, keep_alive_ms, memory_deaths, launched_kernel, lost, notebook_id } = record
  return {
    sql: `UPDATE rooms SET kernel_name = ?, keep_alive_ms = ?, memory_deaths = ?, launched_kernel = ?, lost = ?
          WHERE notebook_id = ?`,
    values: [
      kernel_name,
      keep_alive_ms,
      memory_deaths === null ? null : JSON.stringify(memory_deaths),
      launched_kernel,
      lost === null ? null : JSON.stringify(lost),
      notebook_id,
    ],
  }
}

/**
 * The first statement of every unit of a room: moves its counters on, and fails the unit when the change it builds on was not
 * stored (`commit_seq` is NOT NULL).
 */
export function advance(record: RoomRecord): Statement {
  return {
    sql: `UPDATE rooms SET commit_seq = CASE WHEN commit_seq = ? THEN ? ELSE NULL END,
            doc_seq = ?, event_seq = ?, touched_at = ? WHERE notebook_id = ?`,
    values: [
      record.commit_seq - 1,
      record.commit_seq,
      record.doc_seq,
      record.event_seq,
      record.touched_at,
      record.notebook_id,
    ],
  }
}
