/**
 * Projects whose every wait is ordered by a seed: claims, warming, cancelling and sweeping at once, on a real store and real rooms.
 * Made up are only git and kernels, at the border where processes would be. After every commit the invariants of room states are
 * looked at; a seed that breaks one is said in the error, and gives the same order again.
 */
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pino } from 'pino'
import { DocumentWorker } from '../../daemon/documents/document-worker.ts'
import { openBlobs } from '../../daemon/executions/blobs.ts'
import type { Kernel, KernelProvider, StartRequest } from '../../daemon/kernels/kernel.ts'
import { Deputies, type DeputyEnd } from '../../daemon/projects/deputies.ts'
import { GitError } from '../../daemon/projects/git/errors.ts'
import { Git, type GitOptions } from '../../daemon/projects/git/git.ts'
import { Projects } from '../../daemon/projects/projects.ts'
import type { NamedSource } from '../../daemon/projects/source.ts'
import type { Steps } from '../../daemon/projects/steps.ts'
import { createRooms, type RoomRegistry } from '../../daemon/rooms/registry.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { KernelId } from '../../protocol/ids.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import { createHome } from '../support/home.ts'
import { madeUpKernel } from '../support/made-up-kernel.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** Numbers in [0, 1) that a seed gives, always the same. */
export function numbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Holds whatever waits, and lets one go at a time, by the numbers of a seed. */
export class Scheduler implements Steps {
  random: () => number = Math.random
  /** How likely what is begun at the border fails. */
  failing = 0
  readonly #held: { name: string; go: () => void }[] = []

  async wait<T>(name: string, work: () => Promise<T>): Promise<T> {
    await this.hold(name)
    return work()
  }

  hold(name: string): Promise<void> {
    return new Promise((go) => this.#held.push({ name, go }))
  }

  get held(): number {
    return this.#held.length
  }

  get names(): string[] {
    return this.#held.map(({ name }) => name)
  }

  /** Lets one go. */
  step(): void {
    const [next] = this.#held.splice(Math.floor(this.random() * this.#held.length), 1)
    next?.go()
  }
}

class MadeUpGit extends Git {
  readonly #scheduler: Scheduler

  constructor(scheduler: Scheduler, deputies: Deputies) {
    super(deputies, async () => ({}))
    this.#scheduler = scheduler
  }

  override async end(args: readonly string[], options: GitOptions): Promise<DeputyEnd> {
    const [command = '', ...rest] = args
    await this.#scheduler.hold(`git ${command}`)
    options.signal?.throwIfAborted()
    const done = (code: number, stdout = ''): DeputyEnd => {
      return { code, signal: null, stdout, stderr: '', ended: null, failure: null }
    }
    if (['fetch', 'clone', 'reset'].includes(command) && this.#scheduler.random() < this.#scheduler.failing)
      throw new GitError(options.what, { ...done(1), stderr: 'made up' })
    const last = rest.at(-1) ?? ''
    switch (command) {
      case 'init':
        mkdirSync(last, { recursive: true })
        return done(0)
      case 'fetch': {
        const source = /url = "(.*)"/.exec(readFileSync(join(options.cwd, config(options.cwd)), 'utf8'))?.[1]
        const tip = join(options.cwd, 'refs', 'roomd', 'tip')
        mkdirSync(dirname(tip), { recursive: true })
        if (source) writeFileSync(tip, readFileSync(join(source, '.git', 'refs', 'heads', 'main')))
        return done(0)
      }
      case 'clone':
        mkdirSync(join(last, '.git'), { recursive: true })
        writeFileSync(join(last, '.git', 'config'), '[core]\n')
        return done(0)
      case 'cat-file':
        return done(128)
      case 'config':
        return done(1)
      default:
        return done(0)
    }
  }
}

const config = (cwd: string): string => (existsSync(join(cwd, 'config')) ? 'config' : join('.git', 'config'))

const spec: KernelSpecSummary = {
  name: 'javascript',
  display_name: 'Made up',
  language: 'javascript',
  source: 'embedded',
  path: process.execPath,
  usable: true,
}

class MadeUpKernels implements KernelProvider {
  readonly alive = new Set<Kernel & { readonly notebookId: string }>()
  readonly #scheduler: Scheduler

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler
  }

  specs = async () => [spec]
  environment = async () => ({})
  program = async () => process.execPath
  choose = async () => spec
  adopt = async () => ({ kernels: [], gone: [] })
  running = () => [...this.alive]
  dispose(): void {}

  async start({ notebookId, signal }: StartRequest): Promise<Kernel> {
    await this.#scheduler.hold('kernel start')
    if (signal?.aborted) throw new RoomdError('kernel_start_failed', 'called off')
    if (this.#scheduler.random() < this.#scheduler.failing)
      throw new RoomdError('kernel_start_failed', 'made up')
    const id = KernelId.parse(randomUUID())
    const made = madeUpKernel(id, {
      shutdown: async () => {
        await this.#scheduler.hold('kernel end')
        this.alive.delete(kernel)
      },
      release: () => {},
    })
    const kernel = { ...made, notebookId }
    this.alive.add(kernel)
    return kernel
  }
}

export interface Seeded {
  readonly scheduler: Scheduler
  readonly projects: Projects
  readonly rooms: RoomRegistry
  readonly store: Store
  readonly clock: ManualClock
  readonly kernels: MadeUpKernels
  /** A working copy with one commit; `move` makes another. */
  source(name: string): { named: NamedSource; move: () => void }
  /** Lets everything that can go on without a step go on. */
  quiet(): Promise<void>
  /** What was wrong after a commit; empty if nothing. */
  readonly faults: string[]
  /** Names of workspaces on disk. */
  workspaces(): string[]
}

export async function withSeeded(use: (seeded: Seeded) => Promise<void>): Promise<void> {
  const home = createHome()
  mkdirSync(home.places.data, { recursive: true })
  mkdirSync(home.places.state, { recursive: true })
  const log = pino({ level: 'silent' })
  const file = join(home.places.data, 'roomd.db')
  const store = await openStore({ file, log })
  const worker = new DocumentWorker(file)
  const scheduler = new Scheduler()
  const clock = new ManualClock()
  const kernels = new MadeUpKernels(scheduler)
  const faults: string[] = []
  const watched = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (name !== 'write') return value.bind(target)
      return async (unit: Parameters<Store['write']>[0]) => {
        await target.write(unit)
        faults.push(...brokenInvariants(target, kernels))
      }
    },
  })
  const git = new MadeUpGit(scheduler, new Deputies(join(home.places.state, 'none')))
  const projects = new Projects({
    store: watched,
    places: home.places,
    clock,
    log,
    kernels,
    settings: { generic: false, memory: null, enabled: true },
    tell: () => {},
    steps: scheduler,
    git,
    memory: { look: async () => ({ kernels: [], total: 0 }), budget: 1_000 },
  })
  const rooms = await createRooms({
    store: watched,
    blobs: openBlobs(join(home.places.data, 'blobs')),
    kernels,
    places: home.places,
    clock,
    log,
    worker,
    hooks: projects,
  })
  try {
    await use({
      scheduler,
      projects,
      rooms,
      store,
      clock,
      kernels,
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
      async quiet() {
        for (let i = 0; i < 3; i++) {
          await store.settled()
          await new Promise((resolve) => setImmediate(resolve))
        }
      },
      workspaces: () => {
        const folder = projects.context.places.workspaces
        return existsSync(folder) ? readdirSync(folder) : []
      },
    })
  } finally {
    projects.dispose()
    for (const room of rooms.resident.values()) room.dispose('the test is over')
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
