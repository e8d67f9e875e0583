/** Projects and the warm pool as they are shown outside, and what a claim asks and answers. */
import { z } from 'zod'
import { ClientInstance, NotebookId, ProjectId } from './ids.ts'
import { lazily } from './lazily.ts'

const path = lazily(() => z.string().min(1).max(4096))
const command = lazily(() =>
  z
    .string()
    .min(1)
    .max(16 * 1024),
)
const variables = lazily(() =>
  z.record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected a name of letters, digits and "_"'),
    z.string().max(64 * 1024),
  ),
)

/** A project by id, unique prefix of an id, name, absolute path or address. */
export const ProjectName = lazily(() => z.string().min(1).max(4096))

export const ProjectStatus = lazily(() => z.enum(['cloning', 'ready', 'error']))

export const ProjectSummary = lazily(() =>
  z.object({
    id: ProjectId,
    name: z.string(),
    /** Absolute path of the working copy, or the remote's address without credentials. */
    path: z.string(),
    trusted: z.boolean(),
    status: ProjectStatus,
    /** Why it is in error. */
    reason: z.string().optional(),
  }),
)
export type ProjectSummary = z.output<typeof ProjectSummary>

/** What a person says about a project; what is absent comes from the repository's `roomd.json`, once it is trusted. */
export const AddProject = lazily(() =>
  z
    .object({
      /** Absolute path of a git working copy, or the address of a remote repository. */
      source: path,
      name: z.string().min(1).max(200).optional(),
      kernel: z.string().min(1).max(200).optional(),
      interpreter: path.optional(),
      setup: z.array(command).max(50).optional(),
      preload: z.array(command).max(50).optional(),
      data: z.array(path).max(100).optional(),
      env: variables.optional(),
      /** Warm rooms kept ready, 0 to 3. Default 1. */
      depth: z.number().int().min(0).max(3).optional(),
      trust: z.boolean().default(false),
    })
    .strict(),
)

/** A room of a project. */
export const ProjectRoom = lazily(() =>
  z.object({
    notebook_id: NotebookId,
    title: z.string(),
    state: z.string(),
    workspace: z.string(),
    branch: z.string().nullable(),
    /** Command that fetches its branch into the working copy; null for a remote project. */
    fetch: z.string().nullable(),
  }),
)

export const KeptFiles = lazily(() => z.object({ notebook_id: NotebookId, path: z.string() }))

export const ProjectSettingsShown = lazily(() =>
  z.object({
    kernel: z.string().nullable(),
    interpreter: z.string().nullable(),
    setup: z.array(z.string()),
    preload: z.array(z.string()),
    data: z.array(z.string()),
    /** Names only: values may be secrets. */
    env: z.array(z.string()),
    depth: z.number().int(),
  }),
)

export const ClaimSettings = lazily(() =>
  z
    .object({
      /** Another kernelspec than the project's. */
      kernel: z.string().min(1).max(200).optional(),
      /** Start from the working copy as it is, with what is not committed. */
      include_uncommitted: z.boolean().optional(),
    })
    .strict(),
)
export type ClaimSettings = z.output<typeof ClaimSettings>

export const ClaimRoom = lazily(() =>
  z
    .object({
      project: ProjectName,
      /** A person waits for it: an own draft in which nothing has happened may be given again. */
      interactive: z.boolean(),
      /** Fetch even if the last fetch was less than a minute ago. */
      force_fetch: z.boolean().default(false),
      /** Always a fresh room, never one of the pool. */
      skip_warm: z.boolean().default(false),
      /** Rooms that must not be the answer: the caller's own. */
      exclude: z.array(NotebookId).max(100).default([]),
      settings: ClaimSettings.default({}),
    })
    .strict(),
)

export const Claim = lazily(() =>
  z.object({
    notebook_id: NotebookId,
    project: ProjectSummary,
    workspace: z.string(),
    branch: z.string(),
    claim: z.enum(['draft', 'warm', 'joined', 'cold']),
    standby: z.enum(['ready', 'booting', 'missing']),
    /** Why the workspace may be older than the project: the fetch failed. */
    stale: z.string().optional(),
    fetch_ms: z.number(),
    /** Files of the working copy that are not in the workspace. */
    uncommitted: z.number().int(),
    /** What else is not as it should be: data that is missing, submodules, LFS. */
    notes: z.array(z.string()),
  }),
)
export type Claim = z.output<typeof Claim>

export const PoolSlot = lazily(() =>
  z.object({
    state: z.enum(['warming', 'pooled']),
    notebook_id: NotebookId,
    standby: z.enum(['ready', 'booting', 'missing']),
    pid: z.number().int().optional(),
  }),
)

export const PoolProject = lazily(() =>
  z.object({
    project: ProjectId,
    name: z.string(),
    path: z.string(),
    status: ProjectStatus,
    reason: z.string().optional(),
    trusted: z.boolean(),
    depth: z.number().int(),
    slots: z.array(PoolSlot),
    warming: z.boolean(),
    /** Milliseconds until warming is tried again after a failure. */
    retry_in_ms: z.number().optional(),
  }),
)
export type PoolProject = z.output<typeof PoolProject>

export type PoolSlot = z.output<typeof PoolSlot>

/** Bytes, proportional set size. null: not measured yet. */
export const PoolMemory = lazily(() => z.object({ used: z.number().nullable(), budget: z.number() }))

export const Standby = lazily(() =>
  z.object({
    pid: z.number().int().nullable(),
    name: z.string(),
    project: z.string().optional(),
    notebook_id: NotebookId.optional(),
    state: z.enum(['ready', 'booting', 'missing']),
  }),
)

/**
 * What a connection is told that asked for it (feature `daemon_events` in HELLO), in EVENT frames on channel 0. Not repeated: who was
 * away asks again.
 */
export const DaemonEvent = lazily(() =>
  z.discriminatedUnion('type', [
    /** A room came into lists or left them (closed, archived), or its title or path changed. */
    z.object({ type: z.literal('rooms_changed'), notebook_id: NotebookId }),
    z.object({ type: z.literal('projects_changed'), project: ProjectId }),
    /** A room entered the pool; with its kernel, unless none may be started (`pool_status` says why). */
    z.object({ type: z.literal('project_warm_ready'), project: ProjectId, notebook_id: NotebookId }),
    /** Warming failed, and is tried again after `retry_in_ms`. */
    z.object({
      type: z.literal('project_warm_failed'),
      project: ProjectId,
      reason: z.string(),
      retry_in_ms: z.number(),
    }),
    /** An untouched draft of this client instance is gone: its lease was over, or the daemon was started again. */
    z.object({
      type: z.literal('draft_retired'),
      notebook_id: NotebookId,
      client_instance: ClientInstance,
      reason: z.string(),
      /** Where files that were put into its workspace are now. */
      kept: z.string().optional(),
    }),
  ]),
)
export type DaemonEvent = z.output<typeof DaemonEvent>
export const DAEMON_EVENTS = 'daemon_events'

/** Payload of an EVENT frame on channel 0. `at`: epoch ms. */
export const DaemonEventEnvelope = lazily(() => z.object({ at: z.number(), event: DaemonEvent }))
