/**
 * Projects whose every wait is ordered by a test: claims, warming, cancelling and sweeping at once, on a real store and real rooms.
 * Made up are only git and kernels (made-up.ts). After every commit the invariants of room states are looked at.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { DocumentWorker } from '../../daemon/documents/document-worker.ts'
import { openBlobs } from '../../daemon/executions/blobs.ts'
import type { ClaimRequest } from '../../daemon/projects/claims.ts'
import { Deputies } from '../../daemon/projects/deputies.ts'
import type { Project } from '../../daemon/projects/project.ts'
import { Projects, type ProjectsOptions } from '../../daemon/projects/projects.ts'
import type { OwnSettings } from '../../daemon/projects/settings.ts'
import type { NamedSource } from '../../daemon/projects/source.ts'
import { createRooms } from '../../daemon/rooms/recovery.ts'
import type { RoomRegistry } from '../../daemon/rooms/registry.ts'
import type { Room } from '../../daemon/rooms/room.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { Open } from '../../protocol/channels.ts'
import { ClientInstance } from '../../protocol/ids.ts'
import { type MethodParams, methods, type RoomMethod } from '../../protocol/methods.ts'
import type { Claim, DaemonEvent } from '../../protocol/projects.ts'
import { RememberingChannel } from '../rooms/fixture.ts'
import { createHome } from '../support/home.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { GitWorld, MadeUpGit, MadeUpKernels } from './made-up.ts'
import { Life, Scheduler } from './scheduler.ts'

/** What takes more steps than any has needed does not end. */
const STEPS = 5_000

/** A peer of a room. */
export interface Attached {
  readonly room: Room
  readonly channel: RememberingChannel
  /** As the room's own request, with what the protocol fills in. */
  request<M extends RoomMethod>(method: M, params: MethodParams<M>): Promise<unknown>
  leave(): void
}

export interface Seeded {
  readonly scheduler: Scheduler
  readonly projects: Projects
  readonly rooms: RoomRegistry
  readonly store: Store
  readonly clock: ManualClock
  readonly kernels: MadeUpKernels
  readonly git: GitWorld
  readonly events: DaemonEvent[]
  /** A working copy with one commit; `move` makes another. */
  source(name: string): { named: NamedSource; move: () => void }
  /** A project of such a working copy, cloned and trusted. */
  add(name: string, own?: OwnSettings, trusted?: boolean): Promise<{ project: Project; move: () => void }>
  claim(
    project: Project,
    request?: Partial<ClaimRequest>,
    more?: { owner?: string; signal?: AbortSignal },
  ): Promise<Claim>
  attach(notebookId: string, owner?: string): Promise<Attached>
  /** Appends a cell, as a peer would. */
  edit(room: Room, source: string): Promise<void>
  /** Lets everything that can go on without a step go on. */
  quiet(): Promise<void>
  /** Lets go whatever is held until the work is done. */
  through<T>(work: Promise<T>): Promise<T>
  /** Lets go whatever is held until the pool has `depth` rooms and nothing of it is under way. */
  fill(project: Project, depth?: number): Promise<void>
  /** As after a daemon's death: what was in memory is dropped, kernels go on. What is held then is never let go. */
  restart(): Promise<void>
  /** What was wrong after a commit; empty if nothing. */
  readonly faults: string[]
  /** Names of workspaces on disk. */
  workspaces(): string[]
  /** States of all rows. */
  states(): string[]
}

export async function withSeeded(
  use: (seeded: Seeded) => Promise<void>,
  more: Partial<ProjectsOptions> = {},
): Promise<void> {
  const home = createHome()
  mkdirSync(home.places.data, { recursive: true })
  mkdirSync(home.places.state, { recursive: true })
  const log = pino({ level: process.env.ROOMD_LOG_LEVEL ?? 'silent' })
  const file = join(home.places.data, 'roomd.db')
  const store = await openStore({ file, log })
  const worker = new DocumentWorker(file)
  const scheduler = new Scheduler()
  const clock = new ManualClock()
  const kernels = new MadeUpKernels(scheduler)
  const faults: string[] = []
  const events: DaemonEvent[] = []
  const seenBy = (life: Life): Store =>
    new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        if (name !== 'write') return value.bind(target)
        return async (unit: Parameters<Store['write']>[0]) => {
          if (life.over) await new Promise(() => {})
          await target.write(unit)
          faults.push(...brokenInvariants(target, kernels))
        }
      },
    })
  const git = new GitWorld()
  const start = async () => {
    const life = new Life(scheduler)
    const watched = seenBy(life)
    const provider = kernels.seenBy(life)
    const deputies = new Deputies(join(home.places.state, 'none'))
    const projects = new Projects({
      store: watched,
      places: home.places,
      clock,
      log,
      kernels: provider,
      settings: { generic: false, memory: null, enabled: true },
      tell: (event) => events.push(event),
      steps: life,
      rewarmPauseMs: 0,
      git: new MadeUpGit(scheduler, life, git, deputies),
      memory: { look: async () => ({ kernels: [], total: 0 }), budget: 2 ** 50 },
      ...more,
    })
    const rooms = await createRooms({
      store: watched,
      blobs: openBlobs(join(home.places.data, 'blobs')),
      kernels: provider,
      places: home.places,
      clock,
      log,
      worker,
      hooks: projects.hooks,
    })
    return { projects, rooms, life }
  }
  let running = await start()
  const end = () => {
    running.projects.dispose()
    for (const room of running.rooms.resident.values()) room.dispose('the test is over')
  }
  const seeded: Seeded = {
    get projects() {
      return running.projects
    },
    get rooms() {
      return running.rooms
    },
    scheduler,
    store,
    clock,
    kernels,
    git,
    events,
    faults,
    source(name) {
      const folder = join(home.work, name)
      const gitDir = join(folder, '.git')
      mkdirSync(join(gitDir, 'refs', 'heads'), { recursive: true })
      writeFileSync(join(gitDir, 'HEAD'), 'ref: refs/heads/main\n')
      let commits = 0
      const move = () =>
        writeFileSync(join(gitDir, 'refs', 'heads', 'main'), `${String(++commits).padStart(40, '0')}\n`)
      move()
      return { named: { source: { kind: 'local', folder, gitDir, bare: false }, key: folder, name }, move }
    },
    async add(name, own = {}, trusted = true) {
      const { named, move } = seeded.source(name)
      const project = await running.projects.list.add(
        named,
        { depth: 0, kernel: 'javascript', ...own },
        { trusted },
      )
      await seeded.through(running.projects.list.clone(project))
      return { project, move }
    },
    claim(project, request = {}, { owner = 'client-one', signal = new AbortController().signal } = {}) {
      const plain = {
        interactive: false,
        force_fetch: false,
        skip_warm: false,
        exclude: [],
        settings: {},
      }
      return running.projects.claims.claim(
        project,
        ClientInstance.parse(owner),
        { ...plain, ...request },
        signal,
      )
    },
    async attach(notebookId, owner = 'client-one') {
      const identity = {
        connectionId: '1',
        clientInstance: ClientInstance.parse(owner),
        label: 'Tester',
        kind: 'editor' as const,
        scope: 'owner' as const,
      }
      const context = { identity, signal: new AbortController().signal }
      const channel = new RememberingChannel()
      const target = Open.parse({ target: { notebook_id: notebookId }, mode: 'attach' })
      const peer = await running.rooms.attach(target, context, channel)
      const room = await running.rooms.byId(peer.notebookId)
      return {
        room,
        channel,
        request: (method, params) => peer.request(method, methods[method]?.params.parse(params), context),
        leave: () => peer.detach('the test leaves'),
      }
    },
    async edit(room, source) {
      const { change } = room.document.apply([{ op: 'create_cell', source, cell_type: 'code' }])
      if (!change) throw new Error('nothing was changed')
      await room.commit({ statements: [], document: { change, by: 'Tester' } })
    },
    async quiet() {
      for (let i = 0; i < 3; i++) {
        await store.settled()
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
    async through(work) {
      let over = false
      const done = work.finally(() => {
        over = true
      })
      done.catch(() => undefined) // told by the return below
      for (let n = 0; !over; n++) {
        if (n > STEPS) throw new Error(`it does not end; held: ${scheduler.names.join(', ')}`)
        await seeded.quiet()
        if (over) break
        if (scheduler.held > 0) scheduler.step()
        else await new Promise((resolve) => setTimeout(resolve, 1)) // a file is being written or removed
      }
      return done
    },
    async fill(project, depth = 1) {
      const pool = running.projects.list.poolOf(project)
      const leaving = () => running.projects.tier.of(project.record.id).some((tier) => tier.leaving)
      const filled = async () => {
        for (;;) {
          await pool.settled()
          if (pool.pooled.length === depth && !pool.warming && !leaving()) return
          if (!pool.warming) {
            // What was called off has no back-off, what failed before has.
            clock.advance(1_000)
            pool.ensure()
          }
          await new Promise((resolve) => setTimeout(resolve, 1))
        }
      }
      await seeded.through(filled())
    },
    async restart() {
      running.life.end()
      await store.settled()
      end()
      scheduler.forget()
      await store.settled()
      running = await seeded.through(start())
    },
    workspaces: () => {
      const folder = running.projects.context.places.workspaces
      return existsSync(folder) ? readdirSync(folder).sort() : []
    },
    states: () =>
      store
        .all<{ state: string }>('SELECT state FROM rooms ORDER BY created_at, notebook_id')
        .map(({ state }) => state),
  }
  try {
    await use(seeded)
  } finally {
    end()
    await store.settled()
    await worker.dispose()
    await store.close()
    await home.dispose()
  }
}

/** What must hold after every commit. */
function brokenInvariants(store: Store, kernels: MadeUpKernels): string[] {
  const broken: string[] = []
  const shared = store.all<{ slot: string }>(
    'SELECT slot FROM workspaces WHERE slot IS NOT NULL GROUP BY slot HAVING count(*) > 1',
  )
  for (const { slot } of shared) broken.push(`two rooms in slot ${slot}`)
  const loose = store.all<{ notebook_id: string }>(
    "SELECT notebook_id FROM rooms JOIN workspaces USING (notebook_id) WHERE state = 'pooled' AND slot IS NULL",
  )
  for (const { notebook_id } of loose) broken.push(`${notebook_id} is pooled in no slot`)
  const owned = store.all<{ notebook_id: string }>(
    "SELECT notebook_id FROM rooms JOIN workspaces USING (notebook_id) WHERE state IN ('warming', 'pooled') AND owner IS NOT NULL",
  )
  for (const { notebook_id } of owned) broken.push(`${notebook_id} waits and is owned`)
  const changed = store.all<{ notebook_id: string }>(
    `SELECT notebook_id FROM rooms WHERE state IN ('warming', 'pooled', 'draft') AND (
       EXISTS (SELECT 1 FROM doc_updates WHERE doc_updates.notebook_id = rooms.notebook_id) OR
       EXISTS (SELECT 1 FROM executions WHERE executions.notebook_id = rooms.notebook_id))`,
  )
  for (const { notebook_id } of changed) broken.push(`${notebook_id} holds work and is no room yet`)
  const seen = new Set<string>()
  for (const { notebookId } of kernels.alive) {
    if (seen.has(notebookId)) broken.push(`${notebookId} has two kernels`)
    seen.add(notebookId)
  }
  return broken
}
