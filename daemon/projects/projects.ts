/**
 * All projects of the daemon and everything that is warm: owns the projects, their pools, the tier of rooms without work, leases,
 * memory and the sweep. What rooms ask of it is the interface `RoomHooks`; what people and agents ask is in requests.ts.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Settings } from '../../protocol/config.ts'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import { NotebookId, ProjectId } from '../../protocol/ids.ts'
import type { KernelSpecSummary, MethodResult } from '../../protocol/methods.ts'
import type { Places } from '../../protocol/places.ts'
import type { DaemonEvent } from '../../protocol/projects.ts'
import type { Kernel, KernelProvider } from '../kernels/kernel.ts'
import type { KernelStart, RoomHooks } from '../rooms/hooks.ts'
import type { RoomRegistry } from '../rooms/registry.ts'
import type { Room } from '../rooms/room.ts'
import type { RoomRecord } from '../rooms/room-record.ts'
import type { Statement, Store } from '../store/store.ts'
import { clearArchivedLeftovers } from './archive.ts'
import { Claims } from './claims.ts'
import type { ProjectsContext } from './context.ts'
import { Deputies } from './deputies.ts'
import { Drafts } from './drafts.ts'
import { projectPlaces, removeFolder } from './folders.ts'
import { Gates } from './gates.ts'
import { GenericPool } from './generic.ts'
import { Git } from './git/git.ts'
import { MemoryKeeper } from './memory/keeper.ts'
import { Pool } from './pool.ts'
import { limber } from './preload.ts'
import { Project } from './project.ts'
import {
  deleteProject,
  insertProject,
  type ProjectRecord,
  readProjects,
  updateProject,
} from './project-rows.ts'
import { serveProjects } from './requests.ts'
import { clearRetired, type Retired, removeStrayFolders, retireRows } from './restart.ts'
import { endKernel, isWaiting, mustBeTrusted, preloadInto, startInWorkspace } from './rooms-of-project.ts'
import type { OwnSettings } from './settings.ts'
import type { NamedSource } from './source.ts'
import { plainSteps, type Steps } from './steps.ts'
import { SWEEP_MS, sweepPools } from './sweep.ts'
import { Tier, type TierRoom } from './tier.ts'
import { readWorkspace, updateContent, updateWorkspace, type Workspace } from './workspace-rows.ts'

export interface ProjectsOptions {
  readonly store: Store
  readonly places: Places
  readonly clock: Clock
  readonly log: Logger
  readonly kernels: KernelProvider
  readonly settings: Settings['pool']
  tell(event: DaemonEvent): void
  /** For tests that order and cancel every wait. */
  readonly steps?: Steps
  /** 0: the next room is warmed at once. */
  readonly rewarmPauseMs?: number
  /** Replaces the program, in tests that order everything that happens. */
  readonly git?: Git
  /** Replaces measuring, in tests of the ladder. */
  readonly memory?: Pick<ConstructorParameters<typeof MemoryKeeper>[0], 'look' | 'budget'>
}

/** Long enough for the first result of a room that was claimed, too short for anybody to miss the next one. */
const REWARM_PAUSE_MS = 500

interface Kept {
  readonly project: Project
  readonly pool: Pool
}

export class Projects implements RoomHooks {
  readonly context: ProjectsContext
  readonly tier: Tier
  readonly drafts: Drafts
  readonly claims: Claims
  readonly gates: Gates
  readonly memory: MemoryKeeper
  readonly generic: GenericPool
  readonly #projects = new Map<ProjectId, Kept>()
  #rooms: RoomRegistry | null = null
  #retired: Retired[] = []
  #sweeping: Promise<void> | null = null
  #cancelSweep: () => void = () => {}
  #disposed = false

  constructor(options: ProjectsOptions) {
    const places = projectPlaces(options.places)
    const deputies = new Deputies(places.deputies)
    this.context = {
      ...options,
      places,
      deputies,
      git: options.git ?? new Git(deputies, () => options.kernels.environment()),
      rewarmPauseMs: options.rewarmPauseMs ?? REWARM_PAUSE_MS,
      steps: options.steps ?? plainSteps,
      rooms: () => {
        if (!this.#rooms) throw new RoomdError('internal', 'projects were asked before rooms were there')
        return this.#rooms
      },
    }
    this.tier = new Tier(this.context)
    this.drafts = new Drafts(this.context, this.tier, (project) => this.#poolOf(project))
    this.memory = new MemoryKeeper({
      context: this.context,
      tier: this.tier,
      ...options.memory,
      kindOf: (notebookId) => this.#kindOf(notebookId),
      standbyEnded: (notebookId) => this.#standbyEnded(notebookId),
    })
    this.gates = new Gates(this.context, this.memory)
    this.generic = new GenericPool({
      context: this.context,
      tier: this.tier,
      gates: this.gates,
    })
    this.claims = new Claims({
      context: this.context,
      tier: this.tier,
      drafts: this.drafts,
      poolOf: (project) => this.#poolOf(project),
    })
  }

  // --- projects ------------------------------------------------------------------------------------------------------

  all(): Project[] {
    return [...this.#projects.values()].map(({ project }) => project)
  }

  pools(): readonly Kept[] {
    return [...this.#projects.values()]
  }

  byKey(key: string): Project | undefined {
    return this.all().find((project) => project.record.key === key)
  }

  poolOf(project: Project): Pool {
    return this.#poolOf(project)
  }

  /** A new project, being cloned. Its clone is `clone`'s. */
  async add(
    named: NamedSource,
    own: OwnSettings,
    options: { name?: string; trusted: boolean },
  ): Promise<Project> {
    const now = this.context.clock.now()
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
      await this.context.store.write([insertProject(record)])
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
    await this.context.store.write([updateProject(record)])
    this.#told(project)
    this.#poolOf(project).ensure()
  }

  /** New settings: what waits was made from the old ones. */
  async change(project: Project, own: OwnSettings): Promise<void> {
    project.record.own = own
    await this.context.store.write([updateProject(project.record)])
    this.#told(project)
    void this.#inBackground('renewing a pool', () =>
      this.#poolOf(project).renew('the settings of the project changed'),
    )
  }

  /** From here on its code may run: standbys start, also in drafts that are open. */
  async trust(project: Project, trusted: boolean): Promise<void> {
    const { record, breaker } = project
    breaker.reset()
    project.backoff.worked()
    if (record.trusted !== trusted) {
      record.trusted = trusted
      await this.context.store.write([updateProject(record)])
      this.#told(project)
    }
    const pool = this.#poolOf(project)
    if (!trusted) {
      void this.#inBackground('ending the pool of a project', () =>
        pool.renew('the project is no longer trusted'),
      )
      // Nobody has worked in a draft: its kernel goes as a standby does. Rooms with work keep theirs, and what it knows.
      for (const tier of this.tier.of(record.id)) {
        if (tier.room.record.state === 'draft')
          void this.#inBackground('ending the kernel of a draft', () =>
            endKernel(tier.room, 'the project is no longer trusted'),
          )
      }
      return
    }
    // What waited without a kernel was made without the repository's own wishes too.
    void this.#inBackground('renewing a pool', () => pool.renew('the project is trusted now'))
    for (const tier of this.tier.of(record.id)) {
      if (tier.room.record.state === 'draft' && tier.room.peers.size > 0) this.startFor(tier)
    }
  }

  /** Files of users out of workspaces of the project that are gone. */
  keptOf(project: ProjectId): { notebook_id: NotebookId; path: string }[] {
    return this.tier.keptOf(project)
  }

  /** Forgets the project, its pool and its drafts; rooms with work stay. Returns how many those are. */
  async remove(project: Project): Promise<number> {
    const { record } = project
    project.remove()
    const reason = `the project ${record.name} was removed`
    await this.#poolOf(project).close(reason)
    await Promise.all(this.tier.of(record.id).map((tier) => this.tier.discard(tier, reason)))
    const left = this.context.store.get<{ count: number }>(
      `SELECT count(*) AS count FROM workspaces JOIN rooms USING (notebook_id)
       WHERE project_id = ? AND state IN ('active', 'evicted')`,
      record.id,
    )
    await this.context.store.write([
      {
        sql: 'UPDATE workspaces SET trusted = ? WHERE project_id = ?',
        values: [record.trusted ? 1 : 0, record.id],
      },
      deleteProject(record.id),
    ])
    this.#projects.delete(record.id)
    await project.inCache(() => removeFolder(this.context.places.project(record.id)))
    this.#told(project)
    return left?.count ?? 0
  }

  /** Starts the kernel of a room that somebody is in; also in place of one that is dead and of which nobody has told yet. */
  startFor(tier: TierRoom): void {
    const { room, project, workspace } = tier
    if (project === null ? !workspace.trusted : !project.record.trusted) return
    if (room.presentKernel && tier.standby !== 'missing') return
    const start = async (): Promise<void> => {
      if (room.presentKernel) await endKernel(room, 'it had died')
      await room.slot.want()
    }
    start().catch((error: unknown) => {
      this.context.log.info(
        { room: room.id, reason: messageOf(error) },
        'the kernel of a draft did not start',
      )
    })
  }

  // --- what rooms ask (RoomHooks) ------------------------------------------------------------------------------------

  mayStart(record: RoomRecord): void {
    if (record.kind !== 'project') return
    const found = this.#workspaceOf(record.notebook_id)
    if (found) mustBeTrusted(found.project, found.workspace)
  }

  async starting(room: Room, kernel: string, signal: AbortSignal): Promise<KernelStart> {
    if (room.record.kind !== 'project') {
      return { standby: isWaiting(room.record) }
    }
    const found = this.#workspaceOf(room.id)
    if (!found) return {}
    const { project, workspace } = found
    const start = await startInWorkspace(this.context, project, room, workspace, kernel, signal)
    await this.context.store.write([updateContent(workspace)])
    return start
  }

  async started(room: Room, kernel: Kernel, signal: AbortSignal): Promise<void> {
    if (room.record.kind !== 'project') {
      if (isWaiting(room.record)) await limber(kernel, signal)
      else this.#noteUse(kernel.name)
      return
    }
    const found = this.#workspaceOf(room.id)
    if (isWaiting(room.record)) await limber(kernel, signal)
    if (found) await preloadInto(this.context, found.project, room, found.workspace, kernel, signal)
  }

  kernelDied(room: Room, killed: boolean): void {
    const tier = this.tier.get(room.id)
    if (!killed || !tier?.project || !isWaiting(room.record)) return
    const { breaker, record } = tier.project
    if (breaker.death())
      this.context.log.warn({ project: record.name }, 'its standbys keep being killed: no more are started')
  }

  peersChanged(room: Room): void {
    const tier = this.tier.get(room.id)
    if (!tier) return
    this.drafts.peersChanged(tier)
    // A cold claim starts no kernel; the first who comes does.
    if (room.record.state === 'draft' && room.peers.size > 0) this.startFor(tier)
  }

  leavingDraft(record: RoomRecord): Statement[] {
    const tier = this.tier.get(record.notebook_id)
    if (!tier) return []
    const now = this.context.clock.now()
    const { project, workspace } = tier
    workspace.leaseUntil = null
    const touched = project ? { ...project.record, usedAt: now } : null
    if (project) project.record.usedAt = now
    return [updateWorkspace(workspace), ...(touched ? [updateProject(touched)] : [])]
  }

  graduated(room: Room): void {
    this.drafts.graduated(room.id)
    this.tier.graduated(room.id)
  }

  listChanged(notebook_id: NotebookId): void {
    this.context.tell({ type: 'rooms_changed', notebook_id })
  }

  async readyRoom(spec: KernelSpecSummary): Promise<Room | null> {
    return (await this.generic.take(spec))?.room ?? null
  }

  leaveReady(room: Room): Statement[] {
    const tier = this.tier.get(room.id)
    return tier ? this.generic.leave(tier) : []
  }

  async dropReady(room: Room, reason: string): Promise<void> {
    const tier = this.tier.get(room.id)
    if (tier) await this.generic.discard(tier, reason)
  }

  /** The room is somebody's now. */
  readyTaken(room: Room): void {
    this.tier.graduated(room.id)
    this.#noteUse(room.record.kernel_name ?? room.presentKernel?.name ?? '')
  }

  moveKernel(room: Room, working_dir: string): Promise<void> {
    return this.generic.move(room, working_dir)
  }

  async begin(rooms: RoomRegistry): Promise<void> {
    this.#rooms = rooms
    this.context.deputies.endOrphans()
    this.#retired = await retireRows(this.context)
    for (const record of readProjects(this.context.store)) this.#keep(record)
    serveProjects(this, rooms)
  }

  async ready(): Promise<void> {
    await clearRetired(this.context, this.tier, this.#retired)
    await removeStrayFolders(this.context)
    this.#retired = []
    await clearArchivedLeftovers(this.context, this.tier)
    this.#scheduleSweep()
    // Behind everything that waits to be served.
    this.context.clock.after(0, () => void this.#inBackground('warming', () => this.#warmAll()))
  }

  standbys(): MethodResult<'list_kernels'>['standbys'] {
    return this.tier
      .all()
      .filter((tier) => isWaiting(tier.room.record) && tier.standby !== 'missing')
      .map((tier) => ({
        pid: tier.pid,
        name: tier.room.record.kernel_name ?? '',
        ...(tier.project ? { project: tier.project.record.name } : {}),
        notebook_id: tier.id,
        state: tier.standby,
      }))
  }

  whyGone(notebookId: NotebookId): string | null {
    return this.tier.whyGone(notebookId)
  }

  /** Compares with the operating system and repairs. Concurrent calls are one. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = null
    })
    return this.#sweeping
  }

  /** Ends what works for us; kernels go on, and the next daemon retires what nobody has. */
  dispose(): void {
    this.#disposed = true
    this.#cancelSweep()
    this.memory.dispose()
    this.drafts.dispose()
    this.generic.stop()
    for (const { pool } of this.#projects.values()) pool.stop()
    this.context.deputies.dispose()
  }

  // --- within --------------------------------------------------------------------------------------------------------

  async #warmAll(): Promise<void> {
    if (this.#disposed) return
    for (const { project, pool } of [...this.#projects.values()]) {
      // A clone that the last daemon did not finish.
      if (project.record.status === 'cloning') await this.clone(project)
      else pool.ensure()
    }
    await this.generic.recall()
  }

  async #sweep(): Promise<void> {
    await sweepPools({
      context: this.context,
      tier: this.tier,
      gates: this.gates,
      pools: () => this.pools(),
    })
    for (const { project } of this.pools()) {
      if (project.record.status === 'error') await this.clone(project)
    }
    await this.generic.sweep()
    const left = await retireLeftovers(this.context, this.tier)
    await clearArchivedLeftovers(this.context, this.tier)
    if (left > 0) this.context.log.info({ left }, 'retired rooms were cleared away')
  }

  #workspaceOf(notebookId: NotebookId): { project: Project | null; workspace: Workspace } | null {
    const tier = this.tier.get(notebookId)
    if (tier) return tier
    const workspace = readWorkspace(this.context.store, notebookId)
    if (!workspace) return null
    const kept = workspace.projectId === null ? undefined : this.#projects.get(workspace.projectId)
    return { project: kept?.project ?? null, workspace }
  }

  #keep(record: ProjectRecord): Project {
    const project = new Project(this.context, record)
    const pool = new Pool(this.context, project, this.tier, this.gates)
    this.#projects.set(record.id, { project, pool })
    return project
  }

  #poolOf(project: Project): Pool {
    const kept = this.#projects.get(project.record.id)
    if (!kept) throw new RoomdError('not_found', `the project ${project.record.name} was removed`)
    return kept.pool
  }

  #freeName(wanted: string): string {
    const taken = new Set(this.all().map((project) => project.record.name))
    for (let n = 1; ; n++) {
      const name = n === 1 ? wanted : `${wanted}-${n}`
      if (!taken.has(name)) return name
    }
  }

  #kindOf(notebookId: NotebookId): string | null {
    const tier = this.tier.get(notebookId)
    if (!tier) return null
    return tier.project?.record.id ?? `kernelspec ${tier.room.record.kernel_name ?? ''}`
  }

  #standbyEnded(notebookId: NotebookId): void {
    const tier = this.tier.get(notebookId)
    if (tier && tier.project === null)
      void this.#inBackground('discarding a standby', () => this.generic.lost(tier, 'memory was short'))
  }

  #noteUse(kernel: string): void {
    if (kernel === '') return
    this.generic.used(kernel)
    this.context.store
      .write([
        {
          sql: `INSERT INTO kernel_use (name, used_at) VALUES (?, ?)
                ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at`,
          values: [kernel, this.context.clock.now()],
        },
      ])
      .catch((error: unknown) => this.context.log.warn({ reason: messageOf(error) }, 'a use was not noted'))
  }

  #told(project: Project): void {
    this.context.tell({ type: 'projects_changed', project: project.record.id })
  }

  #scheduleSweep(): void {
    this.#cancelSweep = this.context.clock.after(SWEEP_MS, () => {
      void this.#inBackground('the sweep', () => this.sweep()).finally(() => {
        if (!this.#disposed) this.#scheduleSweep()
      })
    })
  }

  async #inBackground(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!this.#disposed) this.context.log.warn({ reason: messageOf(error) }, `${what} failed`)
    }
  }
}

/** Discarded rooms whose clearing had failed. */
async function retireLeftovers(context: ProjectsContext, tier: Tier): Promise<number> {
  const left = (await retireRowsLeft(context)).filter(({ notebookId }) => tier.get(notebookId) === undefined)
  await clearRetired(context, tier, left)
  return left.length
}

async function retireRowsLeft(context: ProjectsContext): Promise<Retired[]> {
  const rows = context.store.all<{ notebook_id: string; working_dir: string; project_id: string | null }>(
    `SELECT notebook_id, working_dir, project_id FROM rooms LEFT JOIN workspaces USING (notebook_id)
     WHERE state = 'discarded'`,
  )
  const rooms = context.rooms().resident
  return rows
    .map(({ notebook_id, working_dir, project_id }) => ({
      notebookId: NotebookId.parse(notebook_id),
      folder: working_dir,
      project: project_id === null ? null : ProjectId.parse(project_id),
      owner: null,
    }))
    .filter(({ notebookId }) => !rooms.has(notebookId))
}
