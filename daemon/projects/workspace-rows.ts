/** Workspaces in the store: where a room of a project works, whose it is, and what its kernel was started from. */
import { z } from 'zod'
import { decode, encode } from '../../protocol/codec.ts'
import { ClientInstance, NotebookId, ProjectId } from '../../protocol/ids.ts'
import { lazily } from '../../protocol/lazily.ts'
import { ClaimSettings } from '../../protocol/projects.ts'
import type { Statement, Store } from '../store/store.ts'

const Detail = lazily(() =>
  z.object({
    /** What the kernel was, or would be, started from; null until it is known. */
    fingerprint: z.record(z.string(), z.string()).nullable(),
    /** The project's own files that preload has loaded; null: any may be among them. */
    files: z.array(z.string()).nullable(),
    /** Other than the project's own. */
    settings: ClaimSettings,
    notes: z.array(z.string()),
  }),
)
export type WorkspaceDetail = z.output<typeof Detail>

export interface Workspace {
  readonly notebookId: NotebookId
  projectId: ProjectId | null
  /** Its place in the pool, exactly while its room is warming or pooled. */
  slot: string | null
  readonly folder: string
  branch: string | null
  /** The commit its branch began at. */
  base: string | null
  owner: ClientInstance | null
  interactive: boolean
  /** Epoch ms. */
  leaseUntil: number | null
  /** Of a project that was removed: whether its code may still run. */
  trusted: boolean
  detail: WorkspaceDetail
}

const Row = lazily(() =>
  z.object({
    notebook_id: NotebookId,
    project_id: ProjectId.nullable(),
    slot: z.string().nullable(),
    folder: z.string(),
    branch: z.string().nullable(),
    base: z.string().nullable(),
    owner: ClientInstance.nullable(),
    interactive: z.number(),
    lease_until: z.number().nullable(),
    trusted: z.number(),
    detail: z.instanceof(Uint8Array),
  }),
)

export function newWorkspace(
  given: Pick<Workspace, 'notebookId' | 'projectId' | 'slot' | 'folder' | 'branch'>,
): Workspace {
  return {
    ...given,
    base: null,
    owner: null,
    interactive: false,
    leaseUntil: null,
    trusted: false,
    detail: { fingerprint: null, files: [], settings: {}, notes: [] },
  }
}

function parse(value: unknown): Workspace {
  const row = Row.parse(value)
  return {
    notebookId: row.notebook_id,
    projectId: row.project_id,
    slot: row.slot,
    folder: row.folder,
    branch: row.branch,
    base: row.base,
    owner: row.owner,
    interactive: row.interactive !== 0,
    leaseUntil: row.lease_until,
    trusted: row.trusted !== 0,
    detail: Detail.parse(decode(row.detail)),
  }
}

export function readWorkspace(store: Store, notebookId: NotebookId): Workspace | null {
  const row = store.get('SELECT * FROM workspaces WHERE notebook_id = ?', notebookId)
  return row === undefined ? null : parse(row)
}

export function workspacesOf(store: Store, projectId: ProjectId): Workspace[] {
  return store.all('SELECT * FROM workspaces WHERE project_id = ?', projectId).map(parse)
}

export function insertWorkspace(workspace: Workspace): Statement {
  const {
    notebookId,
    projectId,
    slot,
    folder,
    branch,
    base,
    owner,
    interactive,
    leaseUntil,
    trusted,
    detail,
  } = workspace
  return {
    sql: `INSERT INTO workspaces (notebook_id, project_id, slot, folder, branch, base, owner, interactive, lease_until, trusted,
            detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    values: [
      notebookId,
      projectId,
      slot,
      folder,
      branch,
      base,
      owner,
      interactive ? 1 : 0,
      leaseUntil,
      trusted ? 1 : 0,
      encode(detail),
    ],
  }
}

/** Writes all that may change: for the transaction of a step, to which place and owner belong. */
export function updateWorkspace(workspace: Workspace): Statement {
  const { notebookId, slot, branch, base, owner, interactive, leaseUntil, trusted, detail } = workspace
  return {
    sql: `UPDATE workspaces SET slot = ?, branch = ?, base = ?, owner = ?, interactive = ?, lease_until = ?, trusted = ?,
            detail = ? WHERE notebook_id = ?`,
    values: [
      slot,
      branch,
      base,
      owner,
      interactive ? 1 : 0,
      leaseUntil,
      trusted ? 1 : 0,
      encode(detail),
      notebookId,
    ],
  }
}

/**
 * Writes what is not part of a step. It may be handed over between the moment in which memory takes a step and that step's own
 * transaction: place and owner would be ahead of the state then, and the store refuse one or the other.
 */
export function updateContent(workspace: Workspace): Statement {
  const { notebookId, branch, base, leaseUntil, trusted, detail } = workspace
  return {
    sql: 'UPDATE workspaces SET branch = ?, base = ?, lease_until = ?, trusted = ?, detail = ? WHERE notebook_id = ?',
    values: [branch, base, leaseUntil, trusted ? 1 : 0, encode(detail), notebookId],
  }
}
