/**
 * Projects on a real store, real git and real kernels in this very process, with a clock that the test moves and steps that it can
 * hold, order and cancel. For races: what takes real time (git, kernels) is waited for by condition, what takes clock time is moved.
 */
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { DocumentWorker } from '../../daemon/documents/document-worker.ts'
import { openBlobs } from '../../daemon/executions/blobs.ts'
import type { Variables } from '../../daemon/kernels/environment.ts'
import { createKernelProvider } from '../../daemon/kernels/provider.ts'
import type { ClaimRequest } from '../../daemon/projects/claims.ts'
import type { Project } from '../../daemon/projects/project.ts'
import { Projects, type ProjectsOptions } from '../../daemon/projects/projects.ts'
import type { OwnSettings } from '../../daemon/projects/settings.ts'
import { findSource } from '../../daemon/projects/source.ts'
import type { Steps } from '../../daemon/projects/steps.ts'
import { createRooms } from '../../daemon/rooms/recovery.ts'
import type { RoomRegistry } from '../../daemon/rooms/registry.ts'
import type { Room } from '../../daemon/rooms/room.ts'
import type { RequestContext } from '../../daemon/rooms/seam.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { Open } from '../../protocol/channels.ts'
import { systemClock } from '../../protocol/clock.ts'
import { BootId, ClientInstance, NotebookId } from '../../protocol/ids.ts'
import type { Claim, DaemonEvent } from '../../protocol/projects.ts'
import { RememberingChannel } from '../rooms/fixture.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'
import { Repository } from './repository.ts'

/** Waits of claims and warming by name: a test may look at each, hold it, or do something at it. */
export class WatchedSteps implements Steps {
  readonly seen: string[] = []
  /** Called before the work of each wait. */
  before: (name: string) => Promise<void> | void = () => {}
  /** Called after it. */
  after: (name: string) => Promise<void> | void = () => {}

  async wait<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.seen.push(name)
    await this.before(name)
    const value = await work()
    await this.after(name)
    return value
  }
}

export interface Bench {
  readonly home: TestHome
  readonly store: Store
  readonly clock: ManualClock
  readonly steps: WatchedSteps
  readonly events: DaemonEvent[]
  projects: Projects
  rooms: RoomRegistry
  /** A repository in the home, with one commit of these files. */
  repository(files?: Record<string, string>, name?: string): Repository
  /** Adds it as a project and clones it. Nothing is warmed unless the settings say so: depth is 0 by default. */
  add(repository: Repository | string, own?: OwnSettings, trusted?: boolean): Promise<Project>
  claim(
    project: Project,
    request?: Partial<ClaimRequest>,
    more?: { owner?: string; signal?: AbortSignal },
  ): Promise<Claim>
  /** Makes a notebook as a client would. */
  create(wanted?: Wanted): Promise<{ room: Room; leave: () => void }>
  /** Opens a notebook file. */
  openFile(path: string): Promise<{ room: Room; leave: () => void }>
  /** Attaches a peer to the room. */
  attach(
    notebookId: string,
    owner?: string,
  ): Promise<{ room: Room; leave: () => void; channel: RememberingChannel }>
  /** Appends a cell, as a peer would. */
  edit(room: Room, source: string): Promise<void>
  /** Runs code to its end; its outputs as text. */
  run(room: Room, code: string): Promise<string>
  /** Names of workspaces on disk. */
  workspaces(): string[]
  /** States of all rows. */
  states(): string[]
  pooled(project: Project): Promise<void>
  /** As after a daemon's death: everything in memory is dropped, kernels go on. */
  restart(): Promise<void>
}

type Wanted = Extract<Open['target'], { create: unknown }>['create']

const kernelless: OwnSettings = { depth: 0, kernel: 'javascript' }

export async function withProjects(
  use: (bench: Bench) => Promise<void>,
  more: Partial<ProjectsOptions> = {},
): Promise<void> {
  const home = createHome()
  mkdirSync(home.places.data, { recursive: true })
  mkdirSync(home.places.state, { recursive: true })
  const log = pino({ level: process.env.ROOMD_LOG_LEVEL ?? 'silent' })
  const file = join(home.places.data, 'roomd.db')
  const store = await openStore({ file, log })
  const clock = new ManualClock()
  const worker = new DocumentWorker(file)
  const blobs = openBlobs(join(home.places.data, 'blobs'))
  const steps = new WatchedSteps()
  const events: DaemonEvent[] = []
  const start = async () => {
    const kernels = createKernelProvider({
      store,
      places: home.places,
      log,
      clock: systemClock,
      bootId: BootId.parse(randomUUID()),
      environment: () => Promise.resolve(home.env as Variables),
    })
    const projects = new Projects({
      store,
      places: home.places,
      clock,
      log,
      kernels,
      settings: { generic: false, memory: null, enabled: true },
      tell: (event) => events.push(event),
      steps,
      rewarmPauseMs: 0,
      ...more,
    })
    const rooms = await createRooms({
      store,
      blobs,
      kernels,
      places: home.places,
      clock,
      log,
      worker,
      hooks: projects.hooks,
    })
    return { kernels, projects, rooms }
  }
  const open = async (request: Open, owner: string) => {
    const channel = new RememberingChannel()
    const context: RequestContext = {
      identity: {
        connectionId: '1',
        clientInstance: ClientInstance.parse(owner),
        label: 'Tester',
        kind: 'editor',
        scope: 'owner',
      },
      signal: new AbortController().signal,
    }
    const peer = await bench.rooms.attach(Open.parse(request), context, channel)
    const room = await bench.rooms.byId(peer.notebookId)
    return { room, channel, leave: () => peer.detach('the test leaves') }
  }
  let running = await start()
  const bench: Bench = {
    home,
    store,
    clock,
    steps,
    events,
    projects: running.projects,
    rooms: running.rooms,
    repository(files = { 'README.md': 'hello\n' }, name = 'repository') {
      const made = new Repository(join(home.work, name))
      made.commit(files, 'first')
      return made
    },
    async add(repository, own = {}, trusted = true) {
      const place = typeof repository === 'string' ? repository : repository.folder
      const named = await findSource(bench.projects.context.git, place)
      const project = await bench.projects.list.add(named, { ...kernelless, ...own }, { trusted })
      await bench.projects.list.clone(project)
      return project
    },
    claim(project, request = {}, { owner = 'client-one', signal = new AbortController().signal } = {}) {
      return bench.projects.claims.claim(
        project,
        ClientInstance.parse(owner),
        {
          interactive: false,
          force_fetch: false,
          skip_warm: false,
          exclude: [],
          settings: {},
          ...request,
        },
        signal,
      )
    },
    async attach(notebookId, owner = 'client-one') {
      return open({ target: { notebook_id: NotebookId.parse(notebookId) }, mode: 'attach' }, owner)
    },
    async openFile(path) {
      return open({ target: { path }, mode: 'open' }, 'client-one')
    },
    async create(wanted = {}) {
      return open({ target: { create: wanted }, mode: 'create' }, 'client-one')
    },
    async edit(room, source) {
      const { change } = room.document.apply([{ op: 'create_cell', source, cell_type: 'code' }])
      if (!change) throw new Error('nothing was changed')
      await room.commit({ statements: [], document: { change, by: 'Tester' } })
    },
    async run(room, code) {
      const queued = room.executions.execute({ code, on_error: 'stop', allow_stdin: false, by: 'Tester' })
      const { execution_id } = queued.execution
      await room.commit({ statements: queued.statements, events: queued.events, code }, () =>
        room.executions.admitted([execution_id]),
      )
      const done = await until(
        `the end of ${code}`,
        () => {
          // Outputs are joined by the room's clock.
          clock.advance(60)
          const execution = room.executions.get(execution_id)
          return execution?.finished_at ? execution : undefined
        },
        { timeout: 40_000 },
      )
      const outputs = room.executions.outputs(execution_id)
      return `${done.status} ${outputs
        .map((output) => {
          if (output.output_type === 'stream') return String(output.text)
          if (output.output_type === 'error') return `${output.ename}: ${output.evalue}`
          return String((output.data as Record<string, unknown>)['text/plain'] ?? '')
        })
        .join('')}`.trim()
    },
    workspaces: () => {
      const folder = bench.projects.context.places.workspaces
      return existsSync(folder) ? readdirSync(folder).sort() : []
    },
    states: () =>
      store
        .all<{ state: string }>('SELECT state FROM rooms ORDER BY created_at, notebook_id')
        .map(({ state }) => state),
    pooled: (project) =>
      until(
        'a pooled room',
        () =>
          bench.projects.list.poolOf(project).pooled.length > 0 &&
          !bench.projects.list.poolOf(project).warming,
        {
          timeout: 40_000,
          detail: () => JSON.stringify(bench.projects.list.poolOf(project).status()),
        },
      ).then(() => undefined),
    async restart() {
      // A daemon that died writes nothing more.
      await store.settled()
      for (const room of bench.rooms.resident.values()) room.dispose('the test ends this daemon')
      running.projects.dispose()
      running.kernels.dispose()
      running = await start()
      bench.projects = running.projects
      bench.rooms = running.rooms
    },
  }
  try {
    await use(bench)
  } finally {
    steps.before = () => {}
    steps.after = () => {}
    running.projects.dispose()
    for (const { pool } of running.projects.list.pools()) await pool.settled()
    for (const room of running.rooms.resident.values()) room.dispose('the test is over')
    await Promise.all(running.kernels.running().map((kernel) => kernel.shutdown(200)))
    running.kernels.dispose()
    await store.settled()
    await worker.dispose()
    await store.close()
    await home.dispose()
  }
}
