/**
 * Claims, cancels, warming, sweeps, leases, visits, deaths of kernels, trust and removal at once, in orders that seeds give.
 * `ROOMD_TEST_ROUNDS` sets how many; `ROOMD_TEST_SEED` tries one again.
 */
import { expect, test } from 'vitest'
import { LEASE_MS } from '../../daemon/projects/drafts.ts'
import type { Project } from '../../daemon/projects/project.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { ClientInstance } from '../../protocol/ids.ts'
import type { Claim } from '../../protocol/projects.ts'
import { numbers } from './scheduler.ts'
import { type Seeded, withSeeded } from './seeded.ts'

const ROUNDS = Number(process.env.ROOMD_TEST_ROUNDS ?? 20)
const ONE = process.env.ROOMD_TEST_SEED
const seeds = ONE === undefined ? Array.from({ length: ROUNDS }, (_, n) => n + 1) : [Number(ONE)]

test('in any order of claims, cancels, warmings, sweeps and leases every commit keeps the invariants, and nothing is left over', () =>
  withSeeded(async (seeded) => {
    for (const seed of seeds) {
      try {
        await round(seeded, seed)
      } catch (error) {
        throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, {
          cause: error,
        })
      }
    }
  }))

async function round(seeded: Seeded, seed: number): Promise<void> {
  const { scheduler, projects, clock, store } = seeded
  const random = numbers(seed)
  scheduler.random = random
  scheduler.failing = 0
  const { named, move } = seeded.source(`project-${seed}`)
  const depth = 1 + Math.floor(random() * 2)
  const project = await projects.list.add(named, { depth, kernel: 'javascript' }, { trusted: true })
  await seeded.through(projects.list.clone(project))

  scheduler.failing = random() < 0.5 ? 0.1 : 0
  const claims = new Claiming(seeded, project)
  let waiting: Promise<unknown>[] = []
  const begin = (work: Promise<unknown>) => {
    waiting.push(work.catch(() => undefined)) // what failed was made up to fail; what is left of it is looked at
  }
  for (let n = 0; n < 14; n++) {
    const what = random()
    if (what < 0.5) begin(claims.claim(random))
    else if (what < 0.62) claims.cancelOne(random)
    else if (what < 0.7) begin(projects.sweep())
    else if (what < 0.75) move()
    else if (what < 0.81) clock.advance(random() < 0.5 ? LEASE_MS : 1_000)
    else if (what < 0.88) begin(projects.list.change(project, { ...project.record.own, setup: [] }))
    else if (what < 0.91) begin(projects.list.trust(project, random() < 0.5))
    else if (what < 0.94) killOne(seeded, random)
    else if (what < 0.98) begin(claims.visit(random))
    else projects.list.poolOf(project).ensure()
    for (let steps = Math.floor(random() * 8); steps > 0; steps--) {
      await seeded.quiet()
      scheduler.step()
    }
  }
  await seeded.through(Promise.all(waiting))
  waiting = []
  expect(seeded.faults).toEqual([])
  // What was made up to fail may fail; nothing fails because two wanted one place.
  const refused = seeded.events.filter(
    (event) => event.type === 'project_warm_failed' && event.reason.includes('could not be written'),
  )
  expect(refused).toEqual([])

  // Claims that were called off hold nothing; each that was not has a room of its own.
  const given = claims.given.map(({ notebook_id }) => notebook_id)
  const drafts = store.all<{ notebook_id: string }>(
    "SELECT notebook_id FROM rooms JOIN workspaces USING (notebook_id) WHERE state = 'draft' AND project_id = ?",
    project.record.id,
  )
  for (const { notebook_id } of drafts) expect(given).toContain(notebook_id)
  expect(claims.wrong).toEqual([])

  // Without failures the pool fills up, and no room is half made.
  scheduler.failing = 0
  await seeded.through(projects.list.trust(project, true))
  clock.advance(10 * 60_000)
  projects.list.poolOf(project).ensure()
  await seeded.fill(project, depth)
  const rows = store.all<{ notebook_id: string; state: string }>('SELECT notebook_id, state FROM rooms')
  expect(rows.filter(({ state }) => state === 'warming' || state === 'discarded')).toEqual([])
  expect(rows.filter(({ state }) => state === 'pooled')).toHaveLength(depth)
  expect(seeded.workspaces().sort()).toEqual(rows.map(({ notebook_id }) => notebook_id).sort())
  const known = new Set<string>(rows.map(({ notebook_id }) => notebook_id))
  expect([...seeded.kernels.alive].filter(({ notebookId }) => !known.has(notebookId))).toEqual([])

  // What somebody worked in stays, and nothing else.
  await seeded.through(projects.list.remove(project))
  const left = store.all<{ notebook_id: string; state: string }>('SELECT notebook_id, state FROM rooms')
  expect(left.filter(({ state }) => state !== 'active')).toEqual([])
  expect(seeded.workspaces()).toEqual(left.map(({ notebook_id }) => notebook_id).sort())
  const worked = new Set<string>(left.map(({ notebook_id }) => notebook_id))
  expect([...seeded.kernels.alive].filter(({ notebookId }) => !worked.has(notebookId))).toEqual([])
  expect(seeded.faults).toEqual([])
}

function killOne({ kernels }: Seeded, random: () => number): void {
  const alive = [...kernels.alive]
  alive[Math.floor(random() * alive.length)]?.die()
}

/** Claims of three clients, some of which go away. */
class Claiming {
  readonly given: Claim[] = []
  readonly #seeded: Seeded
  readonly #project: Project
  readonly #open = new Set<AbortController>()
  /** Rooms that somebody has, until they go back to the pool. */
  readonly #held = new Set<string>()
  readonly wrong: string[] = []

  constructor(seeded: Seeded, project: Project) {
    this.#seeded = seeded
    this.#project = project
    const { tier } = seeded.projects
    const back = tier.backToPool.bind(tier)
    tier.backToPool = async (room, slot) => {
      await back(room, slot)
      this.#held.delete(room.id)
    }
  }

  async claim(random: () => number): Promise<void> {
    const owner = ['one', 'two', 'three'][Math.floor(random() * 3)] ?? 'one'
    const interactive = random() < 0.4
    const calling = new AbortController()
    this.#open.add(calling)
    try {
      const claim = await this.#seeded.projects.claims.claim(
        this.#project,
        ClientInstance.parse(`client-${owner}`),
        { interactive, force_fetch: random() < 0.3, skip_warm: random() < 0.2, exclude: [], settings: {} },
        calling.signal,
      )
      this.given.push(claim)
      const row = this.#seeded.store.get<{ owner: string | null }>(
        'SELECT owner FROM workspaces WHERE notebook_id = ?',
        claim.notebook_id,
      )
      if (row?.owner !== `client-${owner}`)
        this.wrong.push(`${claim.notebook_id} is not whose it was given to`)
      if (claim.claim === 'draft' && !interactive) this.wrong.push(`${claim.notebook_id} was a draft already`)
      if (claim.claim !== 'draft' && this.#held.has(claim.notebook_id))
        this.wrong.push(`${claim.notebook_id} was given twice`)
      this.#held.add(claim.notebook_id)
    } catch (error) {
      // Called off, or made up to fail; what the store refuses is neither.
      if (error instanceof RoomdError && error.code === 'storage_failed') this.wrong.push(error.message)
      throw error
    } finally {
      this.#open.delete(calling)
    }
  }

  /** Somebody comes to a room that was given, works in it or not, and leaves. */
  async visit(random: () => number): Promise<void> {
    const claim = this.given[Math.floor(random() * this.given.length)]
    if (!claim) return
    const working = random() < 0.5
    const { room, leave } = await this.#seeded.attach(claim.notebook_id)
    await this.#seeded.scheduler.hold('a visit')
    try {
      if (working) await this.#seeded.edit(room, 'work')
    } finally {
      leave()
    }
  }

  cancelOne(random: () => number): void {
    const all = [...this.#open]
    all[Math.floor(random() * all.length)]?.abort(new Error('called off'))
  }
}
