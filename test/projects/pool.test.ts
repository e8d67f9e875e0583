/** Warming: what waits in the pool, when it is replaced, what keeps it from being made, and that the sweep finds what nobody told. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test as one } from 'vitest'
import type { Project } from '../../daemon/projects/project.ts'
import { YOUNG_MS } from '../../daemon/projects/sweep.ts'
import { needs } from '../support/machine.ts'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type Bench, withProjects } from './fixture.ts'

/** Each has a home of its own, and waits for processes most of the time: they run side by side. */
const test = one.concurrent

function poolOf(bench: Bench, project: Project) {
  return bench.projects.list.poolOf(project)
}

async function onlyRoom(bench: Bench, project: Project) {
  await bench.pooled(project)
  const [tier] = poolOf(bench, project).pooled
  if (!tier) throw new Error('no room is pooled')
  await until('its kernel', () => tier.standby === 'ready')
  return tier
}

test('setup commands run in the workspace as they were given, before the kernel, and once', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), {
      depth: 1,
      setup: ['echo "one $X" >> setup.txt', 'printf "%s" "two  spaces" >> setup.txt'],
      env: { X: 'x y' },
    })
    const tier = await onlyRoom(bench, project)
    const file = join(tier.workspace.folder, 'setup.txt')
    expect(readFileSync(file, 'utf8')).toBe('one x y\ntwo  spaces')
    expect(bench.steps.seen.indexOf('setup')).toBeLessThan(bench.steps.seen.indexOf('preload'))
    // The same commit, the same everything: the stamp holds over a claim and a restart of the kernel.
    const claim = await bench.claim(project)
    const { room } = await bench.attach(claim.notebook_id)
    await room.slot.end('restarted', 'the test restarts it')
    await room.slot.want()
    expect(readFileSync(file, 'utf8')).toBe('one x y\ntwo  spaces')
    expect(await bench.run(room, 'process.env.X')).toContain('x y')
    expect(existsSync(join(tier.workspace.folder, '.git/roomd/setup'))).toBe(true)
  }))

test('a setup command that fails is told with its last lines, leaves no room, and is tried again after growing pauses', () =>
  withProjects(async (bench) => {
    const repository = bench.repository()
    const project = await bench.add(repository, { depth: 1, setup: ['echo no such package; exit 3'] })
    await poolOf(bench, project).settled()
    const failed = () => bench.events.filter((event) => event.type === 'project_warm_failed')
    expect(failed()).toHaveLength(1)
    expect(failed()[0]).toMatchObject({ retry_in_ms: 1000, project: project.record.id })
    expect(poolOf(bench, project).status()).toMatchObject({ slots: [], warming: false, retry_in_ms: 1000 })
    expect(poolOf(bench, project).status().reason).toMatch(/exit code 3[\s\S]*no such package/)
    expect([bench.states(), bench.workspaces()]).toEqual([[], []])
    // Asking does not shorten the pause.
    poolOf(bench, project).ensure()
    expect(poolOf(bench, project).warming).toBe(false)
    for (const pause of [1_000, 2_000, 4_000]) {
      bench.clock.advance(pause)
      await poolOf(bench, project).settled()
    }
    expect(failed().map((event) => 'retry_in_ms' in event && event.retry_in_ms)).toEqual([
      1000, 2000, 4000, 8000,
    ])
    // A claim is cold meanwhile, and its room says why no kernel starts.
    const claim = await bench.claim(project)
    expect(claim.claim).toBe('cold')
    const { room } = await bench.attach(claim.notebook_id)
    expect(await bench.run(room, '1')).toContain('error')
    expect([bench.states(), bench.workspaces().length]).toEqual([['active'], 1])
  }))

test('a warming that fails in the middle of its clone leaves no row and no folder', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    bench.steps.after = (name) => {
      if (name === 'clone') throw new Error('the disk is away')
    }
    project.record.own = { ...project.record.own, depth: 1 }
    poolOf(bench, project).ensure()
    await poolOf(bench, project).settled()
    bench.steps.after = () => {}
    expect([bench.states(), bench.workspaces()]).toEqual([[], []])
    expect(poolOf(bench, project).status().reason).toContain('the disk is away')
    expect((await bench.claim(project)).claim).toBe('cold')
  }))

test('one warming at a time, however often it is asked for; depth says how many rooms wait', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    project.record.own = { ...project.record.own, depth: 2 }
    const pool = poolOf(bench, project)
    for (let i = 0; i < 5; i++) pool.ensure()
    await until('two rooms', () => pool.pooled.length === 2 && !pool.warming)
    expect(bench.states()).toEqual(['pooled', 'pooled'])
    expect(bench.steps.seen.filter((name) => name === 'warm: row')).toHaveLength(2)
    expect(bench.events.filter((event) => event.type === 'project_warm_ready')).toHaveLength(2)
  }))

test('documentation moves: the workspace follows, the standby stays; a lock file moves: the standby is replaced', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'README.md': '1\n', 'package-lock.json': '{}\n' })
    const project = await bench.add(repository, { depth: 1, setup: ['true'] })
    const first = await onlyRoom(bench, project)
    const { pid, workspace } = first
    repository.commit({ 'README.md': '2\n' })
    const docs = await bench.claim(project)
    expect(docs).toMatchObject({ claim: 'warm', standby: 'ready', notebook_id: first.id })
    expect(first.pid).toBe(pid)
    expect(readFileSync(join(workspace.folder, 'README.md'), 'utf8')).toBe('2\n')
    // The commit is part of the stamp.
    expect(existsSync(join(workspace.folder, '.git/roomd/setup'))).toBe(false)
    const second = await onlyRoom(bench, project)
    const before = second.pid
    repository.commit({ 'package-lock.json': '{"x": 1}\n' })
    const lock = await bench.claim(project)
    expect(lock).toMatchObject({ claim: 'warm', notebook_id: second.id })
    expect(lock.standby).not.toBe('ready')
    await until('another kernel', () => second.pid !== null && second.pid !== before)
  }))

test('a module of the project that preload has loaded moves: the standby is replaced; one that it has not: it stays', (context) => {
  needs(context, 'Python kernel')
  return withProjects(async (bench) => {
    const repository = bench.repository({ 'used.py': 'x = 1\n', 'unused.py': 'y = 1\n' })
    const project = await bench.add(repository, {
      depth: 1,
      kernel: 'python3',
      preload: ['import used', 'import json'],
    })
    const first = await onlyRoom(bench, project)
    expect(first.workspace.detail.files).toEqual(['used.py'])
    repository.commit({ 'unused.py': 'y = 2\n' })
    const kept = await bench.claim(project)
    expect(kept).toMatchObject({ claim: 'warm', standby: 'ready' })
    const { room } = await bench.attach(kept.notebook_id)
    // Loaded already, and the count of the user’s cells starts at one.
    expect(await bench.run(room, 'used.x, "json" in dir()')).toBe('done (1, True)')
    const second = await onlyRoom(bench, project)
    repository.commit({ 'used.py': 'x = 2\n' })
    const replaced = await bench.claim(project)
    expect(replaced.standby).not.toBe('ready')
    const other = await bench.attach(second.id)
    expect(await bench.run(other.room, 'used.x')).toBe('done 2')
  })
})

test('preload that fails is a note, and the room is warm all the same', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), {
      depth: 1,
      preload: ['globalThis.a = 1', 'require("no-such-thing")'],
    })
    await onlyRoom(bench, project)
    const claim = await bench.claim(project)
    expect(claim.notes.join()).toMatch(/preload .*no-such-thing/)
    const { room } = await bench.attach(claim.notebook_id)
    expect(await bench.run(room, 'a')).toBe('done 1')
  }))

test('a kernel that dies while it is prepared is known at once: no room is left, and the reason is told', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), {
      depth: 1,
      preload: ['process.kill(process.pid, "SIGKILL"); new Promise(() => {})'],
    })
    await poolOf(bench, project).settled()
    expect([bench.states(), bench.workspaces()]).toEqual([[], []])
    expect(poolOf(bench, project).status()).toMatchObject({ slots: [], warming: false, retry_in_ms: 1000 })
    expect(poolOf(bench, project).status().reason).toMatch(/SIGKILL|died|ended/)
    expect(bench.rooms.context.kernels.running()).toEqual([])
  }))

test('a standby that dies is noticed at once and made again by the sweep; one that is dead is never given as ready', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 1 })
    const tier = await onlyRoom(bench, project)
    const { pid } = tier
    signal(pid ?? 0, 'SIGKILL')
    await until('its death to be known', () => tier.standby === 'missing')
    // Young: it might still be booting.
    await bench.projects.sweep()
    expect(tier.standby).toBe('missing')
    bench.clock.advance(YOUNG_MS)
    await bench.projects.sweep()
    await until('another kernel', () => tier.standby === 'ready' && tier.pid !== pid)
    expect(poolOf(bench, project).pooled[0]?.id).toBe(tier.id)
    signal(tier.pid ?? 0, 'SIGKILL')
    await until('its death', () => tier.standby === 'missing')
    const claim = await bench.claim(project)
    expect(claim).toMatchObject({ claim: 'warm', notebook_id: tier.id })
    expect(claim.standby).not.toBe('ready')
    const { room } = await bench.attach(claim.notebook_id)
    expect(await bench.run(room, '1')).toBe('done 1')
  }))

test('a standby that dies while it is claimed is not called ready; one that dies right after that leaves a room that can be used', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 2 })
    const pool = poolOf(bench, project)
    const both = () => pool.pooled.length === 2 && pool.pooled.every((tier) => tier.standby === 'ready')
    await until('two warm rooms', both)
    project.record.own = { ...project.record.own, depth: 0 }
    const [first, second] = pool.pooled.map((tier) => ({ tier, pid: tier.pid ?? 0 }))
    // In the last wait of the claim, behind every look at it.
    bench.steps.before = async (name) => {
      if (name !== 'notes') return
      signal(first?.pid ?? 0, 'SIGKILL')
      await gone(first?.pid ?? 0)
    }
    const claim = await bench.claim(project)
    bench.steps.before = () => {}
    expect(claim).toMatchObject({ notebook_id: first?.tier.id, claim: 'warm', standby: 'missing' })
    const { room } = await bench.attach(claim.notebook_id)
    expect(await bench.run(room, '1 + 1')).toBe('done 2')

    const late = await bench.claim(project)
    signal(second?.pid ?? 0, 'SIGKILL')
    expect(late).toMatchObject({ notebook_id: second?.tier.id, standby: 'ready' })
    const other = await bench.attach(late.notebook_id)
    // Its first cell finds the next kernel, or is told of the death.
    expect(await bench.run(other.room, '1 + 1')).toMatch(/^done 2$|died|killed|SIGKILL|lost/)
    expect(await bench.run(other.room, '2 + 2')).toBe('done 4')
  }))

test('project delete ends its standby and takes its rooms without work away; rooms with work stay', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 1 })
    const tier = await onlyRoom(bench, project)
    const draft = await bench.claim(project, { skip_warm: true })
    const worked = await bench.claim(project, { skip_warm: true })
    const { room } = await bench.attach(worked.notebook_id)
    await until('its kernel', () => room.presentKernel !== null)
    await bench.edit(room, '1')
    expect(await bench.projects.list.remove(project)).toBe(1)
    expect(bench.states()).toEqual(['active'])
    expect(bench.workspaces()).toEqual([worked.notebook_id])
    expect(existsSync(project.cache.folder)).toBe(false)
    expect(
      bench.rooms.context.kernels.running().filter((kernel) => kernel.id !== room.presentKernel?.id),
    ).toEqual([])
    expect(bench.projects.tier.get(tier.id)).toBeUndefined()
    await expect(bench.rooms.byId(draft.notebook_id)).rejects.toMatchObject({ code: 'notebook_unavailable' })
    expect(await bench.run(room, '2')).toBe('done 2')
  }))
