/**
 * Projects and everything that is warm: owns the list of projects with their pools, the tier of rooms without work, drafts and their
 * leases, generic standbys, memory and the sweep, from the start of the daemon to its end. What rooms ask is in room-hooks.ts, what
 * people and agents ask in requests.ts, what changes a project in project-list.ts.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Settings } from '../../protocol/config.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { Places } from '../../protocol/places.ts'
import type { DaemonEvent } from '../../protocol/projects.ts'
import type { KernelProvider } from '../kernels/kernel.ts'
import type { RoomHooks } from '../rooms/hooks.ts'
import type { RoomRegistry } from '../rooms/registry.ts'
import type { Store } from '../store/store.ts'
import { clearArchivedLeftovers } from './archive.ts'
import { inBackground } from './background.ts'
import { Claims } from './claims.ts'
import type { ProjectsContext } from './context.ts'
import { Deputies } from './deputies.ts'
import { Drafts } from './drafts.ts'
import { projectPlaces } from './folders.ts'
import { Gates } from './gates.ts'
import { GenericPool } from './generic.ts'
import { Git } from './git/git.ts'
import { MemoryKeeper } from './memory/keeper.ts'
import { ProjectList } from './project-list.ts'
import { serveProjects } from './requests.ts'
import { clearRetired, listFolders, type Retired, retireLeftovers, retireRows } from './restart.ts'
import { ProjectHooks } from './room-hooks.ts'
import { plainSteps, type Steps } from './steps.ts'
import { SWEEP_MS, sweepPools } from './sweep.ts'
import { Tier } from './tier.ts'

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

export class Projects {
  readonly context: ProjectsContext
  readonly hooks: RoomHooks
  readonly list: ProjectList
  readonly tier: Tier
  readonly drafts: Drafts
  readonly claims: Claims
  readonly gates: Gates
  readonly memory: MemoryKeeper
  readonly generic: GenericPool
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
      ended: () => this.#disposed,
      rooms: () => {
        if (!this.#rooms) throw new RoomdError('internal', 'projects were asked before rooms were there')
        return this.#rooms
      },
    }
    this.tier = new Tier(this.context)
    this.memory = new MemoryKeeper({
      context: this.context,
      tier: this.tier,
      ...options.memory,
      kindOf: (notebookId) => this.#kindOf(notebookId),
      standbyEnded: (notebookId) => this.#standbyEnded(notebookId),
    })
    this.gates = new Gates(this.context, this.memory)
    this.list = new ProjectList(this.context, this.tier, this.gates)
    this.drafts = new Drafts(this.context, this.tier, (project) => this.list.poolOf(project))
    this.generic = new GenericPool({ context: this.context, tier: this.tier, gates: this.gates })
    this.claims = new Claims({
      context: this.context,
      tier: this.tier,
      drafts: this.drafts,
      poolOf: (project) => this.list.poolOf(project),
    })
    this.hooks = new ProjectHooks({
      context: this.context,
      list: this.list,
      tier: this.tier,
      drafts: this.drafts,
      generic: this.generic,
      begin: (rooms) => this.#begin(rooms),
      ready: () => this.#ready(),
      dispose: () => this.dispose(),
    })
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
    for (const { pool } of this.list.pools()) pool.stop()
    this.context.deputies.dispose()
  }

  async #begin(rooms: RoomRegistry): Promise<void> {
    this.#rooms = rooms
    this.context.deputies.endOrphans()
    this.#retired = await retireRows(this.context)
    this.list.read()
    serveProjects(this, rooms)
  }

  async #ready(): Promise<void> {
    await clearRetired(this.context, this.tier, this.#retired)
    this.#retired = []
    const removeStrays = await listFolders(this.context)
    await clearArchivedLeftovers(this.context, this.tier)
    this.#scheduleSweep()
    // Behind everything that waits to be served.
    this.context.clock.after(0, () => {
      void inBackground(this.context, 'removing folders of no room', removeStrays)
      void inBackground(this.context, 'warming', () => this.#warmAll())
    })
  }

  async #warmAll(): Promise<void> {
    if (this.#disposed) return
    for (const { project, pool } of this.list.pools()) {
      // A clone that the last daemon did not finish.
      if (project.record.status === 'cloning') await this.list.clone(project)
      else pool.ensure()
    }
    await this.generic.recall()
  }

  async #sweep(): Promise<void> {
    await sweepPools({
      context: this.context,
      tier: this.tier,
      gates: this.gates,
      pools: () => this.list.pools(),
    })
    for (const { project } of this.list.pools()) {
      if (project.record.status === 'error') await this.list.clone(project)
    }
    await this.generic.sweep()
    const left = await retireLeftovers(this.context, this.tier)
    await clearArchivedLeftovers(this.context, this.tier)
    if (left > 0) this.context.log.info({ left }, 'retired rooms were cleared away')
  }

  #kindOf(notebookId: NotebookId): string | null {
    const tier = this.tier.get(notebookId)
    if (!tier) return null
    return tier.project?.record.id ?? `kernelspec ${tier.room.record.kernel_name ?? ''}`
  }

  #standbyEnded(notebookId: NotebookId): void {
    const tier = this.tier.get(notebookId)
    if (tier && tier.project === null)
      void inBackground(this.context, 'discarding a standby', () =>
        this.generic.lost(tier, 'memory was short'),
      )
  }

  #scheduleSweep(): void {
    this.#cancelSweep = this.context.clock.after(SWEEP_MS, () => {
      void inBackground(this.context, 'the sweep', () => this.sweep()).finally(() => {
        if (!this.#disposed) this.#scheduleSweep()
      })
    })
  }
}
