/**
 * Methods of the ledger of agent sessions, and their shapes. Each is also the MCP tool of the same name, with the arguments and
 * result fields that clients of the reference know. Every result has `success`; what a caller did wrong with names, ids and states
 * is a result with `success: false`, `error` and sometimes `error_type`, not an error of the protocol. Types and ranges are.
 *
 * Times in results are ISO text of the daemon's local time with microseconds, as the reference writes them.
 */
import { z } from 'zod'
import { ExecutionId, NotebookId } from './ids.ts'
import { lazily } from './lazily.ts'

/** Longest text of a name or id that is looked at; the grammar of ids is narrower and answered as a failure. */
const name = lazily(() => z.string().max(10_000))
const words = lazily(() => z.string().max(10_000))
/** Texts of which the beginning is kept, and bodies of artifacts: UTF-16 units. */
const long = lazily(() => z.string().max(8 * 1024 * 1024))
const wholeNumber = lazily(() => z.number().int())
const rev = lazily(() => wholeNumber.positive())
const expectRev = lazily(() => rev.optional())
const idempotencyKey = lazily(() => z.string().min(1).max(200).optional())
const limit = lazily(() => wholeNumber.min(1).max(500))
const includeArchived = lazily(() => z.boolean().default(false))

/** Members that a failure lacks are optional on the wire; which ones a success has, the tools say. */
function outcome<Shape extends z.ZodRawShape>(shape: Shape) {
  const optional = Object.fromEntries(
    Object.entries(shape).map(([key, schema]) => [key, (schema as z.ZodType).optional()]),
  ) as unknown as { [Key in keyof Shape]: z.ZodOptional<Shape[Key]> }
  return z.object({
    success: z.boolean(),
    ...optional,
    error: z.string().optional(),
    error_type: z.string().optional(),
    /** Of the session, after the call; with error_type CONFLICT the one that stands against `expect_rev`. */
    rev: rev.optional(),
  })
}

const texts = lazily(() => z.array(z.string()))

export const LedgerWorkItem = lazily(() =>
  z.object({
    work_id: z.string(),
    type: z.string(),
    description: z.string(),
    started_at: z.string(),
    completed_at: z.string().nullable(),
    status: z.string(),
    metadata: z.unknown(),
  }),
)
export type LedgerWorkItem = z.output<typeof LedgerWorkItem>

/** A room in which a session worked, and the call that goes back to it. */
export const LedgerRoom = lazily(() =>
  z.object({
    notebook_id: z.string(),
    path: z.string().nullable(),
    session_id: z.string(),
    cells_run: wholeNumber,
    cells_failed: wholeNumber,
    last_used: z.string(),
    connect: z.object({ tool: z.literal('connect_notebook'), arguments: z.record(z.string(), z.string()) }),
  }),
)
export type LedgerRoom = z.output<typeof LedgerRoom>

export const LedgerSession = lazily(() =>
  z.object({
    project: z.string(),
    session_id: z.string(),
    /** `session://ID`, or with `ledger.mirror` the file of its summary. */
    file: z.string(),
    /** Of its saved or finalized summary, in bytes. */
    size_bytes: wholeNumber,
    modified: z.string(),
    created_at: z.string(),
    status: z.string(),
    task_type: z.string(),
    skill: z.string(),
    summary: z.string(),
    tags: texts,
    requests: wholeNumber,
    parent: z.string().nullable(),
    archived: z.boolean(),
    synthetic: z.boolean(),
    /** Where the keyword was found, `[`…`]` around it. */
    snippet: z.string().optional(),
  }),
)
export type LedgerSession = z.output<typeof LedgerSession>

const Ancestor = lazily(() =>
  z.object({
    session_id: z.string(),
    summary: z.string(),
    tags: texts,
    task_type: z.string(),
    skill: z.string(),
    created_at: z.string(),
  }),
)
const Related = lazily(() =>
  z.object({
    session_id: z.string(),
    summary: z.string(),
    tags: texts,
    shared_tags: texts,
    created_at: z.string(),
  }),
)

/** How a work item can end. */
export const workItemEnds = ['COMPLETED', 'FAILED', 'SKIPPED'] as const
export const workItemStatuses = ['IN_PROGRESS', ...workItemEnds] as const

const rules = { channel: 'connection', scope: 'owner', gate: 'none' } as const
const reading = { ...rules, mutates: false } as const
const changing = { ...rules, mutates: true } as const

export const ledgerMethods = {
  session_create: {
    ...changing,
    params: lazily(() =>
      z
        .object({
          project: name.default('default'),
          task_type: words.default(''),
          skill: words.default(''),
          prompt: long.default(''),
          project_cwd: z.string().max(4096).default(''),
          idempotency_key: idempotencyKey,
        })
        .strict(),
    ),
    result: lazily(() =>
      outcome({ session_id: z.string(), project: z.string(), tags: texts, created_at: z.string() }),
    ),
  },
  session_accumulate: {
    ...changing,
    params: lazily(() =>
      z
        .object({
          session_id: name,
          prompt: long.default(''),
          task_type: words.default(''),
          skill: words.default(''),
          complexity: wholeNumber.min(0).max(25).default(0),
          model: words.default(''),
          cwd: z.string().max(4096).default(''),
          plan_mode: z.boolean().default(false),
          context_pct: wholeNumber.min(0).max(100).default(0),
          supplementary_skills: words.default(''),
          standards_count: wholeNumber.min(0).max(1_000_000_000).default(0),
          rules_count: wholeNumber.min(0).max(1_000_000_000).default(0),
          idempotency_key: idempotencyKey,
          expect_rev: expectRev,
        })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        session_id: z.string(),
        request_number: wholeNumber,
        skills_used: texts,
        peak_context: wholeNumber,
      }),
    ),
  },
  session_finalize: {
    ...changing,
    params: lazily(() => z.object({ session_id: name, expect_rev: expectRev }).strict()),
    result: lazily(() =>
      outcome({
        session_id: z.string(),
        summary_file: z.string(),
        duration: z.string(),
        requests: wholeNumber,
        tools: wholeNumber,
        files_modified: wholeNumber,
        policies: wholeNumber,
        source_warnings: texts,
        /** Notebooks that the session worked in, and what ran there. */
        notebooks: z.array(z.string()),
        cells_run: wholeNumber,
        cells_failed: wholeNumber,
      }),
    ),
  },
  session_save: {
    ...changing,
    params: lazily(() =>
      z
        .object({ session_id: name, data_type: words, content: long, project: name.default('default') })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        file: z.string(),
        data_type: z.string(),
        session_id: z.string(),
        size_bytes: wholeNumber,
      }),
    ),
  },
  session_load: {
    ...reading,
    params: lazily(() =>
      z
        .object({
          session_id: name.default(''),
          data_type: words.default('state'),
          project: name.default('default'),
          include_archived: includeArchived,
        })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        data: z.unknown(),
        file: z.string(),
        message: z.string(),
        session_id: z.string(),
        recovered: z.boolean(),
        warning: z.string(),
      }),
    ),
  },
  session_list: {
    ...reading,
    params: lazily(() =>
      z
        .object({ project: name.default(''), limit: limit.default(20), include_archived: includeArchived })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        sessions: z.array(LedgerSession),
        count: wholeNumber,
        total_matched: wholeNumber,
        truncated: z.boolean(),
      }),
    ),
  },
  session_archive: {
    ...changing,
    params: lazily(() => z.object({ days_old: wholeNumber.min(1).default(30) }).strict()),
    result: lazily(() =>
      outcome({
        archived: z.array(
          z.object({ file: z.string(), project: z.string(), age_days: wholeNumber, session_id: z.string() }),
        ),
        count: wholeNumber,
        failed: z.array(z.object({ file: z.string(), project: z.string(), error: z.string() })),
        failed_count: wholeNumber,
        archive_dir: z.string(),
      }),
    ),
  },
  session_unarchive: {
    ...changing,
    params: lazily(() => z.object({ session_id: name }).strict()),
    result: lazily(() => outcome({ session_id: z.string(), archived: z.boolean() })),
  },
  session_query: {
    ...reading,
    params: lazily(() =>
      z.object({ filters: words.default('{}'), include_archived: includeArchived }).strict(),
    ),
    result: lazily(() =>
      outcome({
        results: z.array(LedgerSession),
        count: wholeNumber,
        total_matched: wholeNumber,
        truncated: z.boolean(),
        filters: z.record(z.string(), z.unknown()),
      }),
    ),
  },
  session_link: {
    ...changing,
    params: lazily(() => z.object({ child_id: name, parent_id: name, expect_rev: expectRev }).strict()),
    result: lazily(() => outcome({ child: z.string(), parent: z.string(), message: z.string() })),
  },
  session_tag: {
    ...changing,
    params: lazily(() =>
      z.object({ session_id: name, tags: words, summary: words.default(''), expect_rev: expectRev }).strict(),
    ),
    result: lazily(() => outcome({ session_id: z.string(), tags: texts, auto_related: texts })),
  },
  session_untag: {
    ...changing,
    params: lazily(() => z.object({ session_id: name, tags: words, expect_rev: expectRev }).strict()),
    result: lazily(() => outcome({ session_id: z.string(), tags: texts, removed: texts })),
  },
  session_get_context: {
    ...reading,
    params: lazily(() =>
      z
        .object({
          session_id: name,
          max_ancestors: wholeNumber.min(0).max(100).default(5),
          max_related: wholeNumber.min(0).max(100).default(5),
        })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        session_id: z.string(),
        current: z.object({
          tags: texts,
          task_type: z.string(),
          skill: z.string(),
          project: z.string(),
          summary: z.string(),
        }),
        ancestors: z.array(Ancestor),
        related: z.array(Related),
        chain_depth: wholeNumber,
        message: z.string(),
        /** Not yet completed, of the session and its ancestors. */
        work_items: z.array(LedgerWorkItem.extend({ session_id: z.string() })),
        /** Newest first, each room once. */
        rooms: z.array(LedgerRoom),
      }),
    ),
  },
  session_search_tags: {
    ...reading,
    params: lazily(() =>
      z.object({ tags: words, limit: limit.default(20), include_archived: includeArchived }).strict(),
    ),
    result: lazily(() =>
      outcome({
        results: z.array(
          z.object({
            session_id: z.string(),
            matched_tags: texts,
            all_tags: texts,
            summary: z.string(),
            project: z.string(),
          }),
        ),
        count: wholeNumber,
        total_matched: wholeNumber,
        truncated: z.boolean(),
        searched_tags: texts,
      }),
    ),
  },
  session_add_work_item: {
    ...changing,
    params: lazily(() =>
      z
        .object({
          session_id: name,
          description: z.string().max(100_000),
          work_type: words.default('TASK'),
          metadata: z.string().max(1_000_000).default('{}'),
          idempotency_key: idempotencyKey,
          expect_rev: expectRev,
        })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        work_id: z.string(),
        session_id: z.string(),
        description: z.string(),
        status: z.string(),
      }),
    ),
  },
  session_complete_work_item: {
    ...changing,
    params: lazily(() =>
      z
        .object({
          session_id: name,
          work_id: name,
          status: words.default('COMPLETED'),
          expect_rev: expectRev,
        })
        .strict(),
    ),
    result: lazily(() =>
      outcome({
        work_id: z.string(),
        session_id: z.string(),
        status: z.string(),
        completed_at: z.string(),
      }),
    ),
  },
  session_get_work_items: {
    ...reading,
    params: lazily(() => z.object({ session_id: name, status: words.optional() }).strict()),
    result: lazily(() =>
      outcome({ session_id: z.string(), work_items: z.array(LedgerWorkItem), count: wholeNumber }),
    ),
  },
  /** Everything of one session, for people: the row, requests, work items, rooms, and its summary as markdown. */
  session_show: {
    ...reading,
    params: lazily(() => z.object({ session_id: name }).strict()),
    result: lazily(() =>
      outcome({
        session: LedgerSession,
        requests: z.array(z.record(z.string(), z.unknown())),
        work_items: z.array(LedgerWorkItem),
        rooms: z.array(LedgerRoom),
        children: texts,
        markdown: z.string(),
      }),
    ),
  },
  /** An MCP child tells what it did: counted for the session that is under way with its client instance or in its folder. */
  session_record: {
    ...changing,
    params: lazily(() =>
      z
        .object({
          /** Folder that the client works in. */
          cwd: z.string().max(4096),
          /** absent: the rooms alone. */
          tool: z.string().max(200).optional(),
          failed: z.boolean().default(false),
          notebooks: z
            .array(z.object({ notebook_id: NotebookId, path: z.string().max(4096).nullable() }).strict())
            .max(20)
            .default([]),
          executions: z
            .array(
              z
                .object({ execution_id: ExecutionId, notebook_id: NotebookId, status: z.string().max(40) })
                .strict(),
            )
            .max(10_000)
            .default([]),
        })
        .strict(),
    ),
    /** null: no session is under way. */
    result: lazily(() => z.object({ session_id: z.string().nullable() })),
  },
  /** One event of an agent's hooks. The same `event_id` again changes nothing. `context`: text for the host to show its model. */
  session_hook: {
    ...rules,
    // Made to be sent again by another process, with the same event_id; a mutation id belongs to one.
    mutates: false,
    params: lazily(() =>
      z
        .object({
          event: z.string().min(1).max(100),
          event_id: z.string().min(1).max(200),
          /** Epoch milliseconds. */
          at: z.number().nonnegative().max(8.64e15),
          input: z.record(z.string(), z.unknown()),
        })
        .strict(),
    ),
    result: lazily(() => z.object({ session_id: z.string().nullable(), context: z.string() })),
  },
  /** Takes over a tree of the reference; `root` absent: the usual places. May be repeated. */
  session_import: {
    ...rules,
    mutates: false,
    params: lazily(() => z.object({ root: z.string().min(1).max(4096).optional() }).strict()),
    result: lazily(() =>
      z.object({
        roots: texts,
        imported: wholeNumber,
        updated: wholeNumber,
        unchanged: wholeNumber,
        quarantined: z.array(z.object({ file: z.string(), reason: z.string() })),
        warnings: texts,
      }),
    ),
  },
  /** Writes the reference's tree. An absolute path; not empty: refused unless `merge`. */
  session_export: {
    ...rules,
    mutates: false,
    params: lazily(() =>
      z.object({ dir: z.string().min(1).max(4096), merge: z.boolean().default(false) }).strict(),
    ),
    result: lazily(() => z.object({ dir: z.string(), sessions: wholeNumber, files: wholeNumber })),
  },
} as const

export type LedgerMethod = keyof typeof ledgerMethods

export function isLedgerMethod(method: string): method is LedgerMethod {
  return Object.hasOwn(ledgerMethods, method)
}
