/**
 * The one table of methods: on which channel, which scope and gate it needs, whether it changes anything (then it takes a
 * mutation id), and its parameters and result. Daemon and SDK read it; PROTOCOL.md is checked against it.
 */
import { z } from 'zod'
import { CommContent, CommId, CommView } from './comms.ts'
import { BlobHash, CellId, ExecutionId, KernelId, NotebookId } from './ids.ts'
import { DEEPEST_JSON, isShallow } from './json-depth.ts'
import { lazily } from './lazily.ts'
import { ledgerMethods } from './ledger.ts'
import {
  Autosaving,
  Cell,
  CellType,
  Execution,
  ExecutionSummary,
  KeepAlive,
  KernelSummary,
  RoomSummary,
  SourceState,
} from './notebook.ts'
import {
  AddProject,
  Claim,
  ClaimRoom,
  KeptFiles,
  PoolMemory,
  PoolProject,
  ProjectName,
  ProjectRoom,
  ProjectSettingsShown,
  ProjectSummary,
  Standby,
} from './projects.ts'
import { Scope } from './scopes.ts'

/** What must be ready before a method runs; see PROTOCOL.md, readiness and gates. */
export type Gate = 'none' | 'projection' | 'document' | 'mutate' | 'runtime' | 'execute'

export interface MethodRule {
  readonly channel: 'connection' | 'room'
  readonly scope: Scope
  readonly gate: Gate
  readonly mutates: boolean
  /**
   * Methods of channel 0: also for a token that is bound to one room, which then answers about that room alone. Absent: a bound
   * token is refused, so that a new method gives nothing away until somebody has thought about it.
   */
  readonly bound?: true
  readonly params: z.ZodType
  readonly result: z.ZodType
}

const source = lazily(() => z.string().max(8 * 1024 * 1024))
const index = lazily(() => z.number().int().nonnegative())
const CellMetadata = lazily(() =>
  z
    .record(z.string(), z.unknown())
    .refine((value) => isShallow(value), `nested deeper than ${DEEPEST_JSON} levels`),
)

/** One edit. All operations of one `edit` are one document transaction: all or none. */
export const Operation = lazily(() =>
  z.discriminatedUnion('op', [
    z
      .object({
        op: z.literal('create_cell'),
        source,
        cell_type: CellType.default('code'),
        /** absent: at the end; null: at the start. */
        after_cell_id: CellId.nullable().optional(),
        metadata: CellMetadata.optional(),
        /** Id of the new cell; refused with `conflict` when the notebook has it. absent: one is made. */
        cell_id: CellId.optional(),
      })
      .strict(),
    z
      .object({
        op: z.literal('set_source'),
        cell_id: CellId,
        source,
        /** Refuses with `conflict` when the cell's source is another. */
        expect_source_hash: z.string().optional(),
      })
      .strict(),
    z.object({ op: z.literal('set_cell_type'), cell_id: CellId, cell_type: CellType }).strict(),
    z.object({ op: z.literal('delete_cell'), cell_id: CellId }).strict(),
    z.object({ op: z.literal('move_cell'), cell_id: CellId, after_cell_id: CellId.nullable() }).strict(),
    /** Replaces the cell's metadata as a whole. */
    z
      .object({
        op: z.literal('set_cell_metadata'),
        cell_id: CellId,
        metadata: CellMetadata,
      })
      .strict(),
  ]),
)
export type Operation = z.output<typeof Operation>

const onError = lazily(() => z.enum(['stop', 'continue']).default('stop'))

const DaemonStatus = lazily(() =>
  z.object({
    running: z.literal(true),
    pid: z.number().int(),
    boot_id: z.string(),
    version: z.string(),
    uptime_s: z.number(),
    socket: z.string(),
    http: z.string().nullable(),
    rooms: z.number().int(),
    peers: z.number().int(),
    kernels: z.number().int(),
    connections: z.number().int(),
    /** `state` other than ok names what is wrong with the store. Sizes in bytes. */
    journal: z.object({
      state: z.enum(['ok', 'failing', 'read_only', 'recovered']),
      reason: z.string().optional(),
      /** A recovery lost rows, now or at an earlier start. */
      incomplete: z.boolean().optional(),
      size: z.number(),
      pending: z.number(),
    }),
    memory: z.object({ rss: z.number(), heap_used: z.number() }),
  }),
)
export type DaemonStatus = z.output<typeof DaemonStatus>

export const KernelSpecSummary = lazily(() =>
  z.object({
    name: z.string(),
    display_name: z.string(),
    language: z.string(),
    /** Where it was found: embedded, JUPYTER_PATH, user, environment, system, gateway. */
    source: z.string(),
    path: z.string(),
    usable: z.boolean(),
    reason: z.string().optional(),
  }),
)
export type KernelSpecSummary = z.output<typeof KernelSpecSummary>

const KernelList = lazily(() =>
  z.object({
    specs: z.array(KernelSpecSummary),
    running: z.array(
      z.object({
        kernel_id: KernelId,
        pid: z.number().int().nullable(),
        host_pid: z.number().int().nullable(),
        name: z.string(),
        notebook_id: NotebookId.nullable(),
        state: z.string(),
        started_at: z.number().nullable(),
        memory: z.number().nullable(),
        /** A kernel at a gateway that cannot be reached just now: why. */
        reason: z.string().optional(),
      }),
    ),
    standbys: z.array(Standby),
  }),
)

/** A token as lists show it: everything but its secret. Times are epoch ms. */
export const TokenSummary = lazily(() =>
  z.object({
    token_id: z.string(),
    label: z.string(),
    scope: Scope,
    /** null: every room. */
    notebook_id: NotebookId.nullable(),
    created_at: z.number(),
    expires_at: z.number().nullable(),
  }),
)
export type TokenSummary = z.output<typeof TokenSummary>

/** Data of a comm message: JSON. */
const CommData = lazily(() =>
  z
    .record(z.string(), z.unknown())
    .refine((value) => isShallow(value), `nested deeper than ${DEEPEST_JSON} levels`),
)
const commMessage = {
  data: CommData.default({}),
  metadata: CommData.default({}),
  buffers: z
    .array(z.custom<Uint8Array>((value) => value instanceof Uint8Array, 'expected bytes'))
    .max(10_000)
    .default([]),
}

const ExecutionResult = lazily(() => z.object({ execution: Execution }))
const none = lazily(() => z.object({}).strict())

const table = {
  // --- channel 0 ---------------------------------------------------------------------------------------------------
  ping: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    params: none,
    result: lazily(() => z.object({})),
  },
  status: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    params: none,
    result: DaemonStatus,
  },
  list_rooms: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    /** `inactive`: also rooms that are only in the store, newest first. */
    params: lazily(() =>
      z
        .object({
          inactive: z.boolean().default(false),
          limit: z.number().int().min(1).max(500).default(100),
        })
        .strict(),
    ),
    result: lazily(() => z.object({ rooms: z.array(RoomSummary) })),
  },
  list_kernels: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: none,
    result: KernelList,
  },
  /** Finds a room by id, unique prefix of an id, or path; never creates. */
  find_room: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    params: lazily(() => z.object({ room: z.string().min(1).max(4096) }).strict()),
    result: lazily(() => z.object({ room: RoomSummary })),
  },
  /** Reads an execution by its id with no channel to its room; works after restarts. */
  get_execution: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    params: lazily(() => z.object({ execution_id: ExecutionId }).strict()),
    result: ExecutionResult,
  },
  /** A slice of an output's text or of one mime value's text; offsets in UTF-16 units. */
  read_output: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    params: lazily(() =>
      z
        .object({
          execution_id: ExecutionId,
          index,
          mime: z.string().optional(),
          offset: index.default(0),
          length: z
            .number()
            .int()
            .min(1)
            .max(1024 * 1024)
            .default(1024 * 1024),
        })
        .strict(),
    ),
    result: lazily(() =>
      z.object({ text: z.string(), offset: index, next_offset: index.nullable(), chars: index }),
    ),
  },
  /** Answers `{size}`; then one BLOB value follows on the channel: 32 bytes of digest, the content. */
  fetch_blob: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    bound: true,
    params: lazily(() => z.object({ blob: BlobHash }).strict()),
    result: lazily(() => z.object({ size: z.number().int() })),
  },
  /** Ends the room's kernel and detaches its peers; the record stays and can be attached to again. */
  close_room: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    bound: true,
    params: lazily(() => z.object({ notebook_id: NotebookId }).strict()),
    result: lazily(() => z.object({ notebook_id: NotebookId, kernel_ended: z.boolean() })),
  },
  /** Ends the daemon. Answers once everything acknowledged is durable; refuses and says what is not. */
  shutdown: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: false,
    params: lazily(() =>
      z
        .object({
          boot_id: z.string(),
          reason: z.enum(['stop', 'restart', 'upgrade']).default('stop'),
          next_version: z.string().optional(),
          /** Also end all kernels. */
          kernels: z.boolean().default(false),
        })
        .strict(),
    ),
    result: lazily(() => z.object({ rooms: z.number().int(), kernels_kept: z.number().int() })),
  },

  // --- projects ----------------------------------------------------------------------------------------------------
  /** Adds a project, or changes the settings of one that is there. Answers when it is cloned, or has failed to be. */
  add_project: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: AddProject,
    result: lazily(() =>
      z.object({ project: ProjectSummary, added: z.boolean(), notes: z.array(z.string()) }),
    ),
  },
  list_projects: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: none,
    result: lazily(() => z.object({ projects: z.array(ProjectSummary) })),
  },
  get_project: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: lazily(() => z.object({ project: ProjectName }).strict()),
    result: lazily(() =>
      z.object({
        project: ProjectSummary,
        settings: ProjectSettingsShown,
        /** What the repository's own roomd.json asks for; not heeded before the project is trusted. */
        manifest: z.object({ found: z.boolean(), problem: z.string().optional() }),
        rooms: z.array(ProjectRoom),
        kept: z.array(KeptFiles),
      }),
    ),
  },
  /** From here on its code may run: setup, preload, kernels in its rooms. Also lets a tripped breaker go. */
  trust_project: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: lazily(() => z.object({ project: ProjectName, trusted: z.boolean().default(true) }).strict()),
    result: lazily(() => z.object({ project: ProjectSummary })),
  },
  /** Forgets project, cache, pool and untouched drafts. Rooms with work in them and their workspaces stay. */
  remove_project: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: lazily(() => z.object({ project: ProjectName }).strict()),
    result: lazily(() => z.object({ project: ProjectSummary, rooms: z.number().int() })),
  },
  /** Gives a room of the project, with a workspace of its own; CANCEL takes everything back. */
  claim_room: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: ClaimRoom,
    result: Claim,
  },
  /**
   * Gives back the workspace of a room of a project: the notebook can be read from then on, files and commits made in the workspace are
   * kept in the folder that is answered. `force`: also while somebody is in it.
   */
  archive_room: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: lazily(() => z.object({ notebook_id: NotebookId, force: z.boolean().default(false) }).strict()),
    result: lazily(() => z.object({ notebook_id: NotebookId, kept: z.string().optional() })),
  },
  pool_status: {
    channel: 'connection',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: none,
    result: lazily(() => z.object({ projects: z.array(PoolProject), memory: PoolMemory })),
  },

  /**
   * Makes a token for the HTTP listener. `once`: for one use within two minutes, exchanged for a cookie (a page, a browser's
   * WebSocket). The secret is told here and nowhere else, and no answer with it is stored: asked again, it makes another.
   */
  create_token: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: false,
    params: lazily(() =>
      z
        .object({
          scope: Scope,
          /** Absent: every room. */
          notebook_id: NotebookId.optional(),
          label: z.string().max(200).optional(),
          /** Seconds until it expires; absent: never. Not with `once`. */
          ttl_s: z
            .number()
            .int()
            .min(1)
            .max(10 * 366 * 86_400)
            .optional(),
          once: z.boolean().default(false),
        })
        .strict()
        .refine((p) => !(p.once && p.ttl_s !== undefined), 'ttl_s has no meaning with once'),
    ),
    result: lazily(() =>
      z.object({
        token: z.string(),
        /** What `revoke_token` takes; null for a token for one use. */
        token_id: z.string().nullable(),
        /** Epoch ms. */
        expires_at: z.number().nullable(),
        /** URL of the HTTP listener, null while it is off. */
        http: z.string().nullable(),
      }),
    ),
  },
  list_tokens: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: false,
    params: none,
    result: lazily(() => z.object({ tokens: z.array(TokenSummary) })),
  },
  /** Ends the token and every connection that was made with it. */
  revoke_token: {
    channel: 'connection',
    scope: 'owner',
    gate: 'none',
    mutates: false,
    params: lazily(() => z.object({ token_id: z.string().min(1).max(100) }).strict()),
    result: lazily(() => z.object({ revoked: TokenSummary })),
  },
  // --- channel 0: the ledger of agent sessions ---------------------------------------------------------------------
  ...ledgerMethods,

  // --- room channels -----------------------------------------------------------------------------------------------
  get_cells: {
    channel: 'room',
    scope: 'viewer',
    gate: 'projection',
    mutates: false,
    params: lazily(() =>
      z.object({ start: index.default(0), count: z.number().int().min(1).max(1000).default(200) }).strict(),
    ),
    result: lazily(() =>
      z.object({
        cells: z.array(Cell),
        total: z.number().int(),
        start: z.number().int(),
        next_start: z.number().int().optional(),
        doc_seq: z.number().int(),
        event_seq: z.number().int(),
      }),
    ),
  },
  get_cell: {
    channel: 'room',
    scope: 'viewer',
    gate: 'projection',
    mutates: false,
    params: lazily(() => z.object({ cell_id: CellId }).strict()),
    result: lazily(() => z.object({ cell: Cell, doc_seq: z.number().int(), event_seq: z.number().int() })),
  },
  edit: {
    channel: 'room',
    scope: 'editor',
    gate: 'mutate',
    mutates: true,
    params: lazily(() => z.object({ operations: z.array(Operation).min(1).max(1000) }).strict()),
    /** `cell_ids`: for each operation the cell it made or touched. */
    result: lazily(() => z.object({ doc_seq: z.number().int(), cell_ids: z.array(CellId) })),
  },
  clear_outputs: {
    channel: 'room',
    scope: 'editor',
    gate: 'mutate',
    mutates: true,
    /** absent: all cells. A cell whose execution is not terminal keeps it. */
    params: lazily(() => z.object({ cell_ids: z.array(CellId).max(100_000).optional() }).strict()),
    result: lazily(() => z.object({ cell_ids: z.array(CellId), event_seq: z.number().int() })),
  },
  execute: {
    channel: 'room',
    scope: 'owner',
    gate: 'execute',
    mutates: true,
    params: lazily(() =>
      z
        .object({
          cell_id: CellId.optional(),
          /** Code of no cell; exactly one of `cell_id` and `code`. */
          code: source.optional(),
          on_error: onError,
          /** Refuses with `conflict` when the cell's source is another. */
          expect_source_hash: z.string().optional(),
          /** false: `input()` raises as Jupyter does. */
          allow_stdin: z.boolean().default(true),
        })
        .strict()
        .refine(
          (p) => (p.cell_id === undefined) !== (p.code === undefined),
          'expected exactly one of cell_id and code',
        ),
    ),
    /** `already_active`: the cell was queued or running; this is that execution. */
    result: lazily(() =>
      z.object({
        execution: ExecutionSummary,
        already_active: z.boolean(),
        event_seq: z.number().int(),
      }),
    ),
  },
  run_all: {
    channel: 'room',
    scope: 'owner',
    gate: 'execute',
    mutates: true,
    params: lazily(() =>
      z
        .object({
          on_error: onError,
          allow_stdin: z.boolean().default(true),
          /** Source hash of each code cell, by cell id: refuses with `conflict` unless these are all code cells and their sources. */
          expect_sources: z.record(CellId, z.string()).optional(),
        })
        .strict(),
    ),
    result: lazily(() => z.object({ executions: z.array(ExecutionSummary), event_seq: z.number().int() })),
  },
  list_executions: {
    channel: 'room',
    scope: 'viewer',
    gate: 'runtime',
    mutates: false,
    params: lazily(() => z.object({ limit: z.number().int().min(1).max(500).default(50) }).strict()),
    result: lazily(() => z.object({ executions: z.array(ExecutionSummary) })),
  },
  /**
   * Who edited behind document update `after`, the newest first. A snapshot forgets who made the updates it covers: then the sum of
   * the editors' edits is less than `edits`.
   */
  list_edits: {
    channel: 'room',
    scope: 'viewer',
    gate: 'projection',
    mutates: false,
    params: lazily(() => z.object({ after: index }).strict()),
    result: lazily(() =>
      z.object({
        editors: z.array(z.object({ by: z.string(), edits: z.number().int().positive() })),
        edits: index,
        doc_seq: index,
      }),
    ),
  },
  /** Cancels a queued execution, or interrupts it when it is the running one. A terminal one is answered as it is. */
  cancel_execution: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: true,
    params: lazily(() => z.object({ execution_id: ExecutionId }).strict()),
    result: lazily(() => z.object({ execution: ExecutionSummary })),
  },
  send_input: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: true,
    params: lazily(() =>
      z.object({ execution_id: ExecutionId, value: z.string().max(1024 * 1024) }).strict(),
    ),
    result: lazily(() => z.object({ accepted: z.literal(true) })),
  },
  /** Answers when the running execution has ended, or after 5 s with `offer: restart`. */
  interrupt: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: true,
    params: none,
    result: lazily(() =>
      z.object({
        interrupted: ExecutionId.nullable(),
        cancelled: z.array(ExecutionId),
        /** Present when the kernel did not stop in time. */
        offer: z.literal('restart').optional(),
      }),
    ),
  },
  restart_kernel: {
    channel: 'room',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    /** `reset`: a person wants a kernel although those before ran out of memory again and again. */
    params: lazily(() =>
      z.object({ kernel: z.string().max(200).optional(), reset: z.boolean().default(false) }).strict(),
    ),
    result: lazily(() => z.object({ kernel: KernelSummary })),
  },
  /** How long the room's kernel is kept idle; also for the one that runs. */
  set_keep_alive: {
    channel: 'room',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: lazily(() => z.object({ keep_alive: z.union([z.literal('default'), KeepAlive]) }).strict()),
    result: lazily(() => z.object({ keep_alive: KeepAlive })),
  },
  shutdown_kernel: {
    channel: 'room',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: none,
    result: lazily(() => z.object({ ended: z.boolean() })),
  },
  complete: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: false,
    params: lazily(() => z.object({ code: source, cursor: index }).strict()),
    result: lazily(() =>
      z.object({
        matches: z.array(z.string()),
        cursor_start: index,
        cursor_end: index,
        metadata: z.record(z.string(), z.unknown()),
      }),
    ),
  },
  inspect: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: false,
    params: lazily(() =>
      z
        .object({
          code: source,
          cursor: index,
          detail_level: z.union([z.literal(0), z.literal(1)]).default(0),
        })
        .strict(),
    ),
    result: lazily(() => z.object({ found: z.boolean(), data: z.record(z.string(), z.unknown()) })),
  },
  /** Which comms are open, as Jupyter's comm_info: from the room, without asking the kernel. */
  list_comms: {
    channel: 'room',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: lazily(() => z.object({ target_name: z.string().max(1000).optional() }).strict()),
    result: lazily(() => z.object({ comms: z.record(z.string(), z.object({ target_name: z.string() })) })),
  },
  /** A comm with its state, nothing left out but what `partial` says; `names`: only these values. */
  get_comm: {
    channel: 'room',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: lazily(() =>
      z.object({ comm_id: CommId, names: z.array(z.string()).max(10_000).optional() }).strict(),
    ),
    result: lazily(() => z.object({ comm: CommView })),
  },
  /** A message that was too large for its event; the newest 32 MiB of them are kept while the daemon lives. */
  read_comm_message: {
    channel: 'room',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: lazily(() => z.object({ message_id: z.string().max(1000) }).strict()),
    result: lazily(() => z.object({ content: CommContent })),
  },
  /** Opens a comm to a target that the kernel has registered; a kernel that has none closes it again (`comm_closed`). */
  open_comm: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: true,
    params: lazily(() =>
      z
        .object({
          target_name: z.string().min(1).max(1000),
          target_module: z.string().max(1000).optional(),
          /** absent: one is made. */
          comm_id: CommId.optional(),
          ...commMessage,
        })
        .strict(),
    ),
    result: lazily(() => z.object({ comm_id: CommId, event_seq: z.number().int() })),
  },
  /** A comm_msg to the kernel. `{method: "update", state, buffer_paths}` also changes the room's state, for all peers, at once. */
  send_comm: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: true,
    params: lazily(() => z.object({ comm_id: CommId, ...commMessage }).strict()),
    result: lazily(() => z.object({ message_id: z.string(), event_seq: z.number().int() })),
  },
  close_comm: {
    channel: 'room',
    scope: 'owner',
    gate: 'runtime',
    mutates: true,
    params: lazily(() => z.object({ comm_id: CommId, data: CommData.default({}) }).strict()),
    result: lazily(() => z.object({ comm_id: CommId, event_seq: z.number().int() })),
  },
  save: {
    channel: 'room',
    scope: 'owner',
    gate: 'document',
    mutates: true,
    /** `path`: save as; the room is bound to it from then on. */
    params: lazily(() => z.object({ path: z.string().min(1).max(4096).optional() }).strict()),
    result: lazily(() =>
      z.object({
        notebook_id: NotebookId,
        path: z.string(),
        outcome: z.enum(['saved', 'already_current']),
        doc_seq: z.number().int(),
        event_seq: z.number().int(),
      }),
    ),
  },
  source_status: {
    channel: 'room',
    scope: 'viewer',
    gate: 'none',
    mutates: false,
    params: none,
    result: lazily(() =>
      z.object({
        notebook_id: NotebookId,
        path: z.string().nullable(),
        source_state: SourceState,
        reason: z.string().optional(),
        conflicts: z.array(
          z.object({
            cell_id: CellId,
            base: z.string().nullable(),
            room: z.string().nullable(),
            disk: z.string().nullable(),
          }),
        ),
        /** What is odd about the file and was kept: duplicate ids, NaN and the like; the first 100. */
        warnings: z.array(z.string()).optional(),
        autosave: Autosaving,
        doc_seq: z.number().int(),
        /** The document as of this number is in the file. */
        saved_doc_seq: z.number().int(),
      }),
    ),
  },
  reconcile_source: {
    channel: 'room',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: lazily(() => z.object({ keep: z.enum(['room', 'disk', 'both']) }).strict()),
    result: lazily(() => z.object({ source_state: SourceState, changed: z.array(CellId) })),
  },
  /** Whether the room is saved by itself; kept with the room. */
  set_autosave: {
    channel: 'room',
    scope: 'owner',
    gate: 'none',
    mutates: true,
    params: lazily(() => z.object({ autosave: Autosaving }).strict()),
    result: lazily(() => z.object({ autosave: Autosaving })),
  },
} as const satisfies Record<string, MethodRule>

/** Typed as a plain record for lookups by an outside name. */
export const methods: Readonly<Record<string, MethodRule | undefined>> = table

export type Methods = typeof table
export type MethodName = keyof Methods
export type MethodParams<M extends MethodName> = z.input<Methods[M]['params']>
export type MethodArguments<M extends MethodName> = z.output<Methods[M]['params']>
export type MethodResult<M extends MethodName> = z.output<Methods[M]['result']>
export type ConnectionMethod = {
  [M in MethodName]: Methods[M]['channel'] extends 'connection' ? M : never
}[MethodName]
export type RoomMethod = Exclude<MethodName, ConnectionMethod>
