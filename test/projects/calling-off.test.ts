/**
 * A claim that is called off, at whatever of its waits, leaves everything as it was. A cold one is tried with git itself; the others with
 * every wait held and let go by name, so that each order of claim and warming is the same at every run.
 */
import { expect, test } from 'vitest'
import type { Project } from '../../daemon/projects/project.ts'
import type { Claim } from '../../protocol/projects.ts'
import { until } from '../support/until.ts'
import { type Bench, withProjects } from './fixture.ts'
import { type Seeded, withSeeded } from './seeded.ts'

/** What must be the same before and after something that was called off. */
function holdings(bench: Bench, project: Project): unknown {
  return {
    pooled: bench.projects.list.poolOf(project).pooled.length,
    states: bench.states(),
    workspaces: bench.workspaces().length,
    tier: bench.projects.tier.all().length,
    kernels: bench.rooms.context.kernels.running().length,
  }
}

/** Calls a claim off at each of its waits, before and after, until one runs through; what is held must be the same each time. */
async function callOffEverywhere(
  bench: Bench,
  project: Project,
  claim: (signal: AbortSignal) => Promise<Claim>,
  settle: () => Promise<void>,
): Promise<string[]> {
  const tried: string[] = []
  await settle()
  const before = holdings(bench, project)
  for (let at = 0; ; at++) {
    const calling = new AbortController()
    let waits = 0
    let claiming = true
    let name = ''
    const maybe = (side: string) => (step: string) => {
      if (!claiming || step.startsWith('warm') || step === 'boot') return
      if (waits++ !== at) return
      name = `${side} ${step}`
      calling.abort(new Error('called off'))
    }
    bench.steps.before = maybe('before')
    bench.steps.after = maybe('after')
    const outcome = await claim(calling.signal).then(
      () => 'done',
      (error: Error) => error.message,
    )
    claiming = false
    bench.steps.before = () => {}
    bench.steps.after = () => {}
    if (name === '') {
      expect(outcome).toBe('done')
      return tried
    }
    tried.push(name)
    expect(outcome, name).toBe('called off')
    await settle()
    expect(holdings(bench, project), name).toEqual(before)
  }
}

test('a cold claim that is called off at any of its waits leaves pool and disk as before', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository({ 'a.txt': 'a' }))
    const tried = await callOffEverywhere(
      bench,
      project,
      (signal) => bench.claim(project, { skip_warm: true }, { signal }),
      async () => {},
    )
    for (const step of ['cold: row', 'fetch', 'clone', 'data', 'cold: draft', 'uncommitted']) {
      expect(tried).toContain(`before ${step}`)
      expect(tried).toContain(`after ${step}`)
    }
  }))

/** Which of what is held goes next; undefined: none yet, something else is under way. `gone`: what has gone before. */
type Order = (held: readonly string[], gone: readonly string[]) => string | undefined

/** Waits of a room's own making and of its kernel. */
const makes = (name: string): boolean =>
  /^(?:warm: |(?:boot|fingerprint|setup|preload|kernel start)$)/.test(name)

const fifo: Order = ([first]) => first

/** The claim goes on whenever it can; a kernel that starts meanwhile stands still. */
const claimFirst: Order = (held) => held.find((name) => !makes(name))

/** A claim that waits for the room that is being made: until its workspace is complete all that is held is the making's. */
const joining =
  (then: Order): Order =>
  (held, gone) => {
    if (!gone.includes('join')) return held.find((name) => name === 'join')
    if (gone.includes('take') || held.includes('take')) return then(held, gone)
    return held.find((name) => name !== 'warm: boot')
  }

/** The room that somebody joins has its kernel before the claim goes on; the next one, begun behind it, stands still. */
const makingFirst: Order = (held, gone) => {
  if (gone.includes('warm: pool')) return claimFirst(held, gone)
  // Both look at files: between these two steps it is the kernel's start that does.
  const starting = gone.includes('fingerprint') && !gone.includes('setup')
  return held.find((name) => makes(name) || (starting && name === 'git ls-files'))
}

function held(seeded: Seeded, project: Project): unknown {
  return {
    pooled: seeded.projects.list.poolOf(project).pooled.length,
    states: seeded.states(),
    workspaces: seeded.workspaces().length,
    tier: seeded.projects.tier.all().length,
    kernels: seeded.kernels.alive.size,
  }
}

/** Calls a claim off at each wait of the world while it is under way, until one runs through. Returns where it was called off. */
async function callOffAtEach(
  seeded: Seeded,
  project: Project,
  { order, begin }: { order: Order; begin: (signal: AbortSignal) => Promise<Claim> },
): Promise<string[]> {
  const { scheduler } = seeded
  const tried: string[] = []
  for (;;) {
    await settled(seeded, project)
    const before = held(seeded, project)
    const calling = new AbortController()
    let outcome = ''
    const claiming = begin(calling.signal).then(
      () => {
        outcome = 'done'
      },
      (error: Error) => {
        outcome = error.message
      },
    )
    const gone: string[] = []
    let calledOffAt: string | null = null
    while (outcome === '') {
      const next = await until(
        `what follows ${gone.join(', ')}`,
        () => {
          const wanted = calledOffAt === null ? order : fifo
          return outcome === '' ? wanted(scheduler.names, gone) : 'over'
        },
        { detail: () => `held: ${scheduler.names.join(', ')}` },
      )
      if (next === 'over') break
      if (calledOffAt === null && gone.length === tried.length) {
        calledOffAt = next
        calling.abort(new Error('called off'))
        // It may be over at once, without anything more.
        await seeded.quiet()
        continue
      }
      gone.push(next)
      scheduler.letGo(next)
    }
    await claiming
    if (calledOffAt === null) {
      expect(outcome).toBe('done')
      expect(seeded.faults).toEqual([])
      return tried
    }
    tried.push(calledOffAt)
    expect(outcome, calledOffAt).toBe('called off')
    await settled(seeded, project)
    expect(held(seeded, project), `called off at ${calledOffAt}`).toEqual(before)
  }
}

/** The pool is full, every room in it has its kernel, and nothing is under way. */
async function settled(seeded: Seeded, project: Project): Promise<void> {
  const { depth } = project.settings
  await seeded.fill(project, depth)
  const { pooled } = seeded.projects.list.poolOf(project)
  await seeded.through(
    until(
      'the standbys',
      () => seeded.scheduler.held === 0 && pooled.every((tier) => tier.standby === 'ready'),
    ),
  )
}

test('a claim of a pooled room that is called off at any of its waits leaves pool and disk as before', () =>
  withSeeded(async (seeded) => {
    const { project, move } = await seeded.add('one', { depth: 1 })
    const tried = await callOffAtEach(seeded, project, {
      order: claimFirst,
      begin: (signal) => {
        // The project has moved on each time, so that the room has to be brought up to date.
        move()
        return seeded.claim(project, {}, { signal })
      },
    })
    for (const step of ['take', 'fetch', 'move', 'git reset', 'compare', 'save', 'uncommitted', 'notes'])
      expect(tried).toContain(step)
  }))

test('a claim whose standby has to be replaced and that is called off leaves pool and disk as before', () =>
  withSeeded(async (seeded) => {
    const { project, move } = await seeded.add('one', { depth: 1 })
    seeded.git.changes = ['package-lock.json']
    const tried = await callOffAtEach(seeded, project, {
      order: claimFirst,
      begin: (signal) => {
        move()
        return seeded.claim(project, {}, { signal })
      },
    })
    for (const step of ['end standby', 'kernel end', 'uncommitted', 'notes']) expect(tried).toContain(step)
  }))

test.each([
  ['and goes on while the kernel starts', claimFirst],
  ['and goes on when the kernel runs', makingFirst],
])(
  'a claim that joins %s, called off at any wait of it or of the making, leaves pool and disk as before',
  (_how, order) =>
    withSeeded(async (seeded) => {
      const { project } = await seeded.add('one', { depth: 1 })
      const pool = seeded.projects.list.poolOf(project)
      const empty = async () => {
        const { rooms } = pool
        for (const tier of rooms) pool.forget(tier)
        await Promise.all(
          rooms.map((tier) => seeded.projects.tier.discard(tier, 'the test empties the pool')),
        )
      }
      const tried = await callOffAtEach(seeded, project, {
        order: joining(order),
        begin: async (signal) => {
          // The pool is empty and being filled.
          await seeded.through(empty())
          pool.ensure()
          return seeded.claim(project, {}, { signal })
        },
      })
      const making = ['join', 'warm: kernelspec', 'warm: row', 'warm: fetch', 'clone', 'git clone', 'data']
      for (const step of [...making, 'warm: save', 'take', 'fetch', 'uncommitted', 'notes'])
        expect(tried).toContain(step)
      if (order === makingFirst)
        for (const step of ['warm: boot', 'boot', 'setup', 'kernel start', 'preload', 'warm: pool'])
          expect(tried).toContain(step)
    }),
)

test('a claim by an own draft that is called off leaves the draft to its owner', () =>
  withSeeded(async (seeded) => {
    const { project, move } = await seeded.add('one')
    const draft = await seeded.through(seeded.claim(project, { interactive: true }))
    const tried = await callOffAtEach(seeded, project, {
      order: fifo,
      begin: (signal) => {
        move()
        return seeded.claim(project, { interactive: true }, { signal })
      },
    })
    expect(tried.length).toBeGreaterThan(3)
    const again = await seeded.through(seeded.claim(project, { interactive: true }))
    expect(again).toMatchObject({ claim: 'draft', notebook_id: draft.notebook_id })
  }))
