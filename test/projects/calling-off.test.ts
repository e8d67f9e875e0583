/** A claim that is called off, at whatever of its waits, leaves everything as it was. */
import { expect, test } from 'vitest'
import type { Project } from '../../daemon/projects/project.ts'
import type { Claim } from '../../protocol/projects.ts'
import { until } from '../support/until.ts'
import { type Bench, withProjects } from './fixture.ts'

/** What must be the same before and after something that was called off. */
function holdings(bench: Bench, project: Project): unknown {
  return {
    pooled: bench.projects.poolOf(project).pooled.length,
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

test('a claim of a pooled room that is called off at any of its waits leaves pool and disk as before', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': 'a' })
    const project = await bench.add(repository, { depth: 1 })
    await bench.pooled(project)
    const tried = await callOffEverywhere(
      bench,
      project,
      async (signal) => {
        // The project has moved on each time, so that the room has to be brought up to date.
        repository.commit({ 'a.txt': `${Math.random()}` })
        return bench.claim(project, {}, { signal })
      },
      async () => {
        await bench.projects.poolOf(project).settled()
        await bench.pooled(project)
      },
    )
    for (const step of ['take', 'fetch', 'move', 'compare', 'save', 'uncommitted', 'notes']) {
      expect(tried).toContain(`before ${step}`)
      expect(tried).toContain(`after ${step}`)
    }
  }))

test('a claim that joins and is called off leaves pool and disk as before', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 1 })
    await bench.pooled(project)
    const pool = bench.projects.poolOf(project)
    const tried = await callOffEverywhere(
      bench,
      project,
      async (signal) => {
        // The pool is empty and being filled.
        await Promise.all(
          pool.pooled.map((tier) => bench.projects.tier.discard(tier, 'the test empties the pool')),
        )
        for (const tier of pool.rooms) pool.forget(tier)
        pool.ensure()
        return bench.claim(project, {}, { signal })
      },
      async () => {
        pool.ensure()
        await pool.settled()
        await bench.pooled(project)
        // One that was called off goes back while its kernel is still booting.
        await until('the standby', () => pool.pooled.every((tier) => tier.standby === 'ready'), {
          timeout: 40_000,
        })
      },
    )
    expect(tried).toContain('after join')
    expect(tried).toContain('after take')
  }))

test('a claim by an own draft that is called off leaves the draft to its owner', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    const draft = await bench.claim(project, { interactive: true })
    const tried = await callOffEverywhere(
      bench,
      project,
      (signal) => bench.claim(project, { interactive: true }, { signal }),
      async () => {},
    )
    expect(tried.length).toBeGreaterThan(3)
    expect((await bench.claim(project, { interactive: true })).notebook_id).toBe(draft.notebook_id)
  }))
