/** Projects in the store: their rows, parsed once when read. */
import { z } from 'zod'
import { decode, encode } from '../../protocol/codec.ts'
import { ProjectId } from '../../protocol/ids.ts'
import { lazily } from '../../protocol/lazily.ts'
import type { Statement, Store } from '../store/store.ts'
import { OwnSettings } from './settings.ts'
import type { Source } from './source.ts'

export interface ProjectRecord {
  readonly id: ProjectId
  /** Canonical: one place, one project. */
  readonly key: string
  readonly name: string
  readonly source: Source
  status: 'cloning' | 'ready' | 'error'
  /** Why it is in error. */
  reason: string | null
  trusted: boolean
  own: OwnSettings
  /** Epoch ms. */
  readonly createdAt: number
  usedAt: number
}

const SourceRow = lazily(() =>
  z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('local'), folder: z.string(), gitDir: z.string(), bare: z.boolean() }),
    z.object({ kind: z.literal('remote'), url: z.string() }),
  ]),
)

const Row = lazily(() =>
  z.object({
    project_id: ProjectId,
    key: z.string(),
    name: z.string(),
    source: z.instanceof(Uint8Array),
    status: z.enum(['cloning', 'ready', 'error']),
    reason: z.string().nullable(),
    trusted: z.number(),
    settings: z.instanceof(Uint8Array),
    created_at: z.number(),
    used_at: z.number(),
  }),
)

export function readProjects(store: Store): ProjectRecord[] {
  return store.all('SELECT * FROM projects ORDER BY created_at').map((value) => {
    const row = Row.parse(value)
    return {
      id: row.project_id,
      key: row.key,
      name: row.name,
      source: SourceRow.parse(decode(row.source)),
      status: row.status,
      reason: row.reason,
      trusted: row.trusted !== 0,
      own: OwnSettings.parse(decode(row.settings)),
      createdAt: row.created_at,
      usedAt: row.used_at,
    }
  })
}

export function insertProject(project: ProjectRecord): Statement {
  return {
    sql: `INSERT INTO projects (project_id, key, name, source, status, reason, trusted, settings, created_at, used_at)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    values: [
      project.id,
      project.key,
      project.name,
      encode(project.source),
      project.status,
      project.reason,
      project.trusted ? 1 : 0,
      encode(project.own),
      project.createdAt,
      project.usedAt,
    ],
  }
}

/** Writes what may change. */
export function updateProject(project: ProjectRecord): Statement {
  return {
    sql: `UPDATE projects SET status = ?, reason = ?, trusted = ?, settings = ?, used_at = ? WHERE project_id = ?`,
    values: [
      project.status,
      project.reason,
      project.trusted ? 1 : 0,
      encode(project.own),
      project.usedAt,
      project.id,
    ],
  }
}

export function deleteProject(id: ProjectId): Statement {
  return { sql: 'DELETE FROM projects WHERE project_id = ?', values: [id] }
}
