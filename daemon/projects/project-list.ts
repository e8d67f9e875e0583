/**
 * The projects that are known, each with its pool, and what changes one: adding, fetching, settings, trust, removing. A change is
 * written before it is told.
 */
import { randomUUID } from 'node:crypto'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import { type NotebookId, ProjectId } from '../../protocol/ids.ts'
import { inBackground } from './background.ts'
import type { ProjectsContext } from './context.ts'
import { removeFolder } from './folders.ts'
import type { Gates } from './gates.ts'
import { Pool } from './pool.ts'
import { Project } from './project.ts'
import {
  deleteProject,
  insertProject,
  type ProjectRecord,
  readProjects,
  updateProject,
} from './project-rows.ts'
import { endKernel, startFor } from './rooms-of-project.ts'
import type { OwnSettings } from './settings.ts'
import type { NamedSource } from './source.ts'
import type { Tier } from './tier.ts'
import { readWorkspace, type Workspace } from './workspace-rows.ts'

export interface Kept {
  readonly project: Project
  readonly pool: Pool
}

export class ProjectList {
  readonly #context: ProjectsContext
  readonly #tier: Tier
  readonly #gates: Gates
  readonly #projects = new Map<ProjectId, Kept>()

  constructor(context: ProjectsContext, tier: Tier, gates: Gates) {
    this.#context = context
    this.#tier = tier
    this.#gates = gates
  }

  /** Takes up what an earlier daemon knew. */
  read(): void {
    for (const record of readProjects(this.#context.store)) this.#keep(record)
  }

  all(): Project[] {
    return [...this.#projects.values()].map(({ project }) => project)
  }

  pools(): readonly Kept[] {
    return [...this.#projects.values()]
  }

  byKey(key: string): Project | undefined {
    return this.all().find((project) => project.record.key === key)
  }

  /** Throws `not_found` when it was removed. */
  poolOf(project: Project): Pool {
    const kept = this.#projects.get(project.record.id)
    if (!kept) throw new RoomdError('not_found', `the project ${project.record.name} was removed`)
    return kept.pool
  }

  /** A new project, being cloned. Its clone is `clone`'s. */
  async add(
    named: NamedSource,
    own: OwnSettings,
    options: { name?: string; trusted: boolean },
  ): Promise<Project> {
    const now = this.#context.clock.now()
    const record: ProjectRecord = {
      id: ProjectId.parse(randomUUID()),
      key: named.key,
      name: this.#freeName(options.name ?? named.name),
      source: named.source,
      status: 'cloning',
      reason: null,
      trusted: options.trusted,
      own,
      createdAt: now,
      usedAt: now,
    }
    const project = this.#keep(record)
    try {
      await this.#context.store.write([insertProject(record)])
    } catch (error) {
      this.#projects.delete(record.id)
      throw error
    }
    this.#told(project)
    return project
  }

  /** Fetches the project for the first time, or again after an error; then it is ready, or in error with the reason. */
  async clone(project: Project, signal?: AbortSignal): Promise<void> {
    const { record } = project
    try {
      const { stale } = await project.fetch({ force: true, signal })
      if (stale !== null && record.status !== 'ready') throw new RoomdError('git_failed', stale)
      record.status = 'ready'
      record.reason = null
    } catch (error) {
      signal?.throwIfAborted()
      record.status = 'error'
      record.reason = messageOf(error)
    }
    if (project.removed) return
    await this.#context.store.write([updateProject(record)])
    this.#told(project)
    this.poolOf(project).ensure()
  }

  /** New settings: what waits was made from the old ones. */
  async change(project: Project, own: OwnSettings): Promise<void> {
    project.record.own = own
    await this.#context.store.write([updateProject(project.record)])
    this.#told(project)
    void inBackground(this.#context, 'renewing a pool', () =>
      this.poolOf(project).renew('the settings of the project changed'),
    )
  }

  /** From here on its code may run: standbys start, also in drafts that are open. */
  async trust(project: Project, trusted: boolean): Promise<void> {
    const { record, breaker } = project
    breaker.reset()
    project.backoff.worked()
    if (record.trusted !== trusted) {
      record.trusted = trusted
      await this.#context.store.write([updateProject(record)])
      this.#told(project)
    }
    const pool = this.poolOf(project)
    if (!trusted) {
      void inBackground(this.#context, 'ending the pool of a project', () =>
        pool.renew('the project is no longer trusted'),
      )
      // Nobody has worked in a draft: its kernel goes as a standby does. Rooms with work keep theirs, and what it knows.
      for (const tier of this.#tier.of(record.id)) {
        if (tier.room.record.state === 'draft')
          void inBackground(this.#context, 'ending the kernel of a draft', () =>
            endKernel(tier.room, 'the project is no longer trusted'),
          )
      }
      return
    }
    // What waited without a kernel was made without the repository's own wishes too.
    void inBackground(this.#context, 'renewing a pool', () => pool.renew('the project is trusted now'))
    for (const tier of this.#tier.of(record.id)) {
      if (tier.room.record.state === 'draft' && tier.room.peers.size > 0) startFor(this.#context, tier)
    }
  }

  /** Forgets the project, its pool and its drafts; rooms with work stay. Returns how many those are. */
  async remove(project: Project): Promise<number> {
    const { record } = project
    project.remove()
    const reason = `the project ${record.name} was removed`
    await this.poolOf(project).close(reason)
    await Promise.all(this.#tier.of(record.id).map((tier) => this.#tier.discard(tier, reason)))
    const left = this.#context.store.get<{ count: number }>(
      `SELECT count(*) AS count FROM workspaces JOIN rooms USING (notebook_id)
       WHERE project_id = ? AND state IN ('active', 'evicted')`,
      record.id,
    )
    await this.#context.store.write([
      {
        sql: 'UPDATE workspaces SET trusted = ? WHERE project_id = ?',
        values: [record.trusted ? 1 : 0, record.id],
      },
      deleteProject(record.id),
    ])
    this.#projects.delete(record.id)
    await project.inCache(() => removeFolder(this.#context.places.project(record.id)))
    this.#told(project)
    return left?.count ?? 0
  }

  /** The workspace of a room of a project, with its project unless that was removed; null: it has none. */
  workspaceOf(notebookId: NotebookId): { project: Project | null; workspace: Workspace } | null {
    const tier = this.#tier.get(notebookId)
    if (tier) return tier
    const workspace = readWorkspace(this.#context.store, notebookId)
    if (!workspace) return null
    const kept = workspace.projectId === null ? undefined : this.#projects.get(workspace.projectId)
    return { project: kept?.project ?? null, workspace }
  }

  #keep(record: ProjectRecord): Project {
    const project = new Project(this.#context, record)
    const pool = new Pool(this.#context, project, this.#tier, this.#gates)
    this.#projects.set(record.id, { project, pool })
    return project
  }

  #freeName(wanted: string): string {
    const taken = new Set(this.all().map((project) => project.record.name))
    for (let n = 1; ; n++) {
      const name = n === 1 ? wanted : `${wanted}-${n}`
      if (!taken.has(name)) return name
    }
  }

  #told(project: Project): void {
    this.#context.tell({ type: 'projects_changed', project: project.record.id })
  }
}
