/** The shapes of a room as it is shown outside: cells, outputs, executions, kernel, peers, source state, readiness. */
import { z } from 'zod'
import { BlobHash, CellId, ClientInstance, ExecutionId, KernelId, NotebookId } from './ids.ts'
import { lazily } from './lazily.ts'
import { Scope } from './scopes.ts'

/** Bytes above which a text or value leaves cell snapshots: text becomes `LongText`, data becomes `BlobRef`. */
export const INLINE_LIMIT = 8 * 1024

/** A value kept as a blob; `size` in bytes. */
export const BlobRef = lazily(() => z.object({ blob: BlobHash, size: z.number().int().nonnegative() }))
export type BlobRef = z.output<typeof BlobRef>

/** A text over INLINE_LIMIT: `size` in bytes, `chars` in UTF-16 code units; the whole is had by `read_output`. */
export const LongText = lazily(() =>
  z.object({
    size: z.number().int(),
    chars: z.number().int(),
    head: z.string(),
    tail: z.string(),
    blob: BlobHash.optional(),
  }),
)
export type LongText = z.output<typeof LongText>
export const TextValue = lazily(() => z.union([z.string(), LongText]))
export type TextValue = z.output<typeof TextValue>

/** One mime bundle: text and JSON as they are, binary as base64 text (Jupyter's way), or moved to a blob. */
export const MimeBundle = lazily(() => z.record(z.string(), z.union([BlobRef, z.unknown()])))
export type MimeBundle = z.output<typeof MimeBundle>

export const Output = lazily(() =>
  z.discriminatedUnion('output_type', [
    z.object({ output_type: z.literal('stream'), name: z.string(), text: TextValue }),
    z.object({
      output_type: z.literal('display_data'),
      data: MimeBundle,
      metadata: z.record(z.string(), z.unknown()),
      /** Jupyter's `transient.display_id`; never written to a file. */
      display_id: z.string().optional(),
    }),
    z.object({
      output_type: z.literal('execute_result'),
      data: MimeBundle,
      metadata: z.record(z.string(), z.unknown()),
      execution_count: z.number().int().nullable(),
      display_id: z.string().optional(),
    }),
    z.object({
      output_type: z.literal('error'),
      ename: z.string(),
      evalue: z.string(),
      traceback: z.array(z.string()),
    }),
  ]),
)
export type Output = z.output<typeof Output>

export const executionStatuses = [
  'queued',
  'running',
  'waiting_for_input',
  'done',
  'error',
  'interrupted',
  'cancelled',
  'lost',
] as const
export const ExecutionStatus = lazily(() => z.enum(executionStatuses))
export type ExecutionStatus = z.output<typeof ExecutionStatus>
export type TerminalStatus = 'done' | 'error' | 'interrupted' | 'cancelled' | 'lost'

export function isTerminal(status: ExecutionStatus): status is TerminalStatus {
  return status !== 'queued' && status !== 'running' && status !== 'waiting_for_input'
}

/**
 * Output that cannot be had any more: what a kernel printed while its host was down. It is missing behind the first `chars` UTF-16
 * units of stream output `index`, or, with `chars` null, before output `index`.
 */
export const OutputGap = lazily(() =>
  z.object({
    index: z.number().int().nonnegative(),
    chars: z.number().int().nonnegative().nullable(),
    reason: z.string(),
    /** Epoch ms at which output could be read again. */
    at: z.number(),
  }),
)
export type OutputGap = z.output<typeof OutputGap>

/** One execution without its outputs. Times are epoch milliseconds of the daemon's clock. */
export const ExecutionSummary = lazily(() =>
  z.object({
    execution_id: ExecutionId,
    notebook_id: NotebookId,
    /** null: code that belongs to no cell (`roomd exec`). */
    cell_id: CellId.nullable(),
    status: ExecutionStatus,
    execution_count: z.number().int().nullable(),
    /** `file`: outputs that came with the .ipynb; never ran here. */
    origin: z.enum(['peer', 'file']),
    /** Label of the peer who asked. */
    by: z.string(),
    source_hash: z.string(),
    queued_at: z.number(),
    started_at: z.number().nullable(),
    finished_at: z.number().nullable(),
    /** Present while waiting_for_input. */
    prompt: z.string().optional(),
    password: z.boolean().optional(),
    /** For `error`, `lost`, `cancelled`: one line that says why. */
    reason: z.string().optional(),
    /** True when bytes of output were left out; a marker in the outputs says how many. */
    truncated: z.boolean(),
    /** Where output is missing; absent: nowhere. */
    gaps: z.array(OutputGap).optional(),
  }),
)
export type ExecutionSummary = z.output<typeof ExecutionSummary>

export const Execution = lazily(() => ExecutionSummary.extend({ outputs: z.array(Output) }))
export type Execution = z.output<typeof Execution>

export const CellType = lazily(() => z.enum(['code', 'markdown', 'raw']))
export type CellType = z.output<typeof CellType>

/** A cell with the outputs of its newest execution joined. `cell_type` may be one this version does not know. */
export const Cell = lazily(() =>
  z.object({
    cell_id: CellId,
    cell_type: z.string(),
    source: z.string(),
    /** First 16 hex digits of SHA-256 of the UTF-8 source. */
    source_hash: z.string(),
    metadata: z.record(z.string(), z.unknown()),
    attachments: z.record(z.string(), z.unknown()).optional(),
    /** Newest execution of this cell; its outputs are in `outputs` unless it is not terminal and pages are being sent. */
    execution: ExecutionSummary.optional(),
    outputs: z.array(Output),
  }),
)
export type Cell = z.output<typeof Cell>

export const KernelState = lazily(() =>
  z.enum(['none', 'unknown', 'starting', 'idle', 'busy', 'restarting', 'stopping', 'dead']),
)
export type KernelState = z.output<typeof KernelState>

export const KernelSummary = lazily(() =>
  z.object({
    kernel_id: KernelId,
    name: z.string(),
    language: z.string(),
    state: KernelState,
    pid: z.number().int().nullable(),
    host_pid: z.number().int().nullable(),
    started_at: z.number().nullable(),
    /** Why it is dead or could not start: exit code, signal, last lines of stderr. */
    reason: z.string().optional(),
  }),
)
export type KernelSummary = z.output<typeof KernelSummary>

export const PeerKind = lazily(() => z.enum(['mcp', 'editor', 'cli', 'web', 'remote']))
export type PeerKind = z.output<typeof PeerKind>

export const PeerSummary = lazily(() =>
  z.object({
    peer_id: z.string(),
    label: z.string(),
    kind: PeerKind,
    scope: Scope,
    client_instance: ClientInstance,
    attached_at: z.number(),
  }),
)
export type PeerSummary = z.output<typeof PeerSummary>

export const SourceState = lazily(() =>
  z.enum(['none', 'loading', 'ready', 'modified_outside', 'conflict', 'missing', 'degraded', 'read_only']),
)
export type SourceState = z.output<typeof SourceState>

/** Whether a room is saved by itself. `paused`: outputs alone are not, until someone edits or saves. */
export const Autosaving = lazily(() => z.enum(['on', 'off', 'paused']))
export type Autosaving = z.output<typeof Autosaving>

export const Readiness = lazily(() =>
  z.object({
    projection: z.enum(['pending', 'ready', 'degraded']),
    document: z.enum(['pending', 'syncing', 'interactive']),
    runtime: z.enum(['none', 'launching', 'ready', 'failed']),
    source: z.object({ state: SourceState, reason: z.string().optional() }),
  }),
)
export type Readiness = z.output<typeof Readiness>

/** How long a kernel is kept with nobody in the room and nothing to do: seconds (5 to 604,800), or for ever. */
export const KeepAlive = lazily(() => z.union([z.literal('pinned'), z.number().min(5).max(604_800)]))
export type KeepAlive = z.output<typeof KeepAlive>

/** A room as `roomd ps --json` and `list_rooms` show it. `memory` in bytes, null where it cannot be told. */
export const RoomSummary = lazily(() =>
  z.object({
    notebook_id: NotebookId,
    path: z.string().nullable(),
    title: z.string(),
    kind: z.enum(['standalone', 'in-place', 'project']),
    state: z.enum(['active', 'idle', 'inactive']),
    source_state: SourceState,
    peers: z.array(PeerSummary),
    kernel: KernelSummary.nullable(),
    queue: z.object({ running: z.number().int(), queued: z.number().int() }),
    memory: z.number().nullable(),
    /** Seconds for which an idle kernel is kept, or `pinned`; absent for a room that is not in memory. */
    keep_alive: KeepAlive.optional(),
    doc_seq: z.number().int(),
    event_seq: z.number().int(),
  }),
)
export type RoomSummary = z.output<typeof RoomSummary>

/** A room in the shape that is fixed for outsiders (interfaces.md): `--json` and MCP results. */
export function roomForOutsiders(room: RoomSummary): Record<string, unknown> {
  const { notebook_id, path, title, kind, state, source_state, peers, kernel, queue, memory } = room
  return {
    notebook_id,
    path,
    title,
    kind,
    state,
    source_state,
    peers: peers.map(({ label, kind: peerKind, scope, client_instance }) => ({
      label,
      kind: peerKind,
      scope,
      client_instance,
    })),
    kernel: kernel && { name: kernel.name, state: kernel.state, pid: kernel.pid },
    queue,
    memory,
  }
}
