/** Claims: in which order a room is found, what a claim answers, and that one which is called off leaves everything as it was. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test as one } from 'vitest'
import { until } from '../support/until.ts'
import { withProjects } from './fixture.ts'

/** Each has a home of its own, and waits for processes most of the time: they run side by side. */
const test = one.concurrent

async function refusal(work: Promise<unknown>): Promise<{ code: unknown; message: string }> {
  const error = (await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )) as { code?: unknown; message?: string } | null
  if (error === null) throw new Error('expected a refusal')
  return { code: error.code, message: String(error.message) }
}

test('a claim of a project that is unknown, still cloning or in error, or with a kernel that there is not, says so and claims nothing', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    project.record.status = 'cloning'
    expect(await refusal(bench.claim(project))).toMatchObject({ code: 'project_not_ready' })
    project.record.status = 'error'
    project.record.reason = 'no way there'
    expect((await refusal(bench.claim(project))).message).toContain('no way there')
    const context = { identity: {} as never, signal: new AbortController().signal }
    const unknown = bench.rooms.request('claim_room', { project: 'nobody', interactive: false }, context)
    expect(await refusal(unknown)).toMatchObject({ code: 'not_found' })
    project.record.status = 'ready'
    const kernelless = bench.claim(project, { settings: { kernel: 'no-such-kernel' } })
    expect(await refusal(kernelless)).toMatchObject({ code: 'kernel_not_found' })
    expect([bench.states(), bench.workspaces()]).toEqual([[], []])
  }))

test('with an empty pool a room is made at once, hidden until somebody works in it, and starts no kernel', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository({ 'a.txt': 'a' }))
    const claim = await bench.claim(project)
    expect(claim).toMatchObject({ claim: 'cold', standby: 'missing', uncommitted: 0, notes: [] })
    expect(existsSync(join(claim.workspace, 'a.txt'))).toBe(true)
    expect(bench.states()).toEqual(['draft'])
    expect(bench.rooms.context.kernels.running()).toEqual([])
    const listed = await bench.rooms.request(
      'list_rooms',
      { inactive: true, limit: 10 },
      { identity: {} as never, signal: new AbortController().signal },
    )
    expect(listed).toEqual({ rooms: [] })
    // The first who comes starts it.
    const { room } = await bench.attach(claim.notebook_id)
    await until('the kernel', () => room.presentKernel !== null)
    expect(await bench.run(room, 'process.cwd()')).toContain(claim.notebook_id)
  }))

test('a claim whose clone fails is refused with the reason, and leaves no row and no folder; the project counts as used', () =>
  withProjects(async (bench) => {
    const repository = bench.repository()
    const project = await bench.add(repository)
    bench.clock.advance(46 * 86_400_000)
    rmSync(project.cache.folder, { recursive: true })
    rmSync(repository.folder, { recursive: true })
    let usedAt = 0
    bench.steps.before = (name) => {
      if (name === 'fetch') usedAt = project.record.usedAt
    }
    expect((await refusal(bench.claim(project))).code).toBe('git_failed')
    expect(usedAt).toBe(bench.clock.now())
    expect(bench.states()).toEqual([])
    expect(bench.workspaces()).toEqual([])
  }))

test('a pooled room is given with its kernel, and another is made', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 1 })
    await bench.pooled(project)
    const [pooled] = bench.projects.list.poolOf(project).pooled
    const pid = pooled?.pid
    expect(bench.states()).toEqual(['pooled'])
    bench.clock.advance(1_000)
    const before = bench.clock.now()
    const claim = await bench.claim(project)
    expect(claim).toMatchObject({ claim: 'warm', standby: 'ready', notebook_id: pooled?.id })
    expect(bench.store.get('SELECT used_at FROM projects')).toEqual({ used_at: before })
    const { room } = await bench.attach(claim.notebook_id)
    expect(room.record.created_at).toBeGreaterThanOrEqual(before)
    expect(room.presentKernel?.summary().pid).toBe(pid)
    expect(bench.store.get('SELECT slot FROM workspaces WHERE notebook_id = ?', room.id)).toEqual({
      slot: null,
    })
    // A standby no more, whatever it was born as.
    expect(bench.projects.hooks.standbys().map(({ notebook_id }) => notebook_id)).not.toContain(room.id)
    expect(bench.store.get('SELECT born_standby FROM kernels WHERE notebook_id = ?', room.id)).toEqual({
      born_standby: 1,
    })
    await bench.pooled(project)
    expect(bench.projects.list.poolOf(project).pooled[0]?.id).not.toBe(room.id)
    expect(await bench.run(room, '6 * 7')).toBe('done 42')
  }))

test('a pooled room whose cache was deleted meanwhile is still a checkout', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository({ 'a.txt': 'a\n' }), { depth: 1 })
    await bench.pooled(project)
    rmSync(project.cache.folder, { recursive: true })
    const claim = await bench.claim(project)
    expect(claim.claim).toBe('warm')
    expect(readFileSync(join(claim.workspace, 'a.txt'), 'utf8')).toBe('a\n')
  }))

test('a pooled room in which a killed git left its locks is brought to the new commit all the same', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': 'a\n' })
    const project = await bench.add(repository, { depth: 1 })
    await bench.pooled(project)
    const [name = ''] = bench.workspaces()
    const git = join(bench.projects.context.places.workspaces, name, '.git')
    for (const lock of ['index.lock', 'HEAD.lock']) writeFileSync(join(git, lock), '')
    repository.commit({ 'a.txt': 'b\n' }, 'moved')
    const { claim, workspace } = await bench.claim(project)
    expect(claim).toBe('warm')
    expect(readFileSync(join(workspace, 'a.txt'), 'utf8')).toBe('b\n')
  }))

test('ten parallel claims are ten different rooms, each usable, and one is pooled afterwards', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository({ 'a.txt': 'a\n' }), { depth: 1 })
    await bench.pooled(project)
    const claims = await Promise.all(
      Array.from({ length: 10 }, (_, i) => bench.claim(project, {}, { owner: `client-${i}` })),
    )
    expect(new Set(claims.map(({ notebook_id }) => notebook_id)).size).toBe(10)
    expect(claims[0]?.claim).toBe('warm')
    for (const { workspace } of claims) expect(readFileSync(join(workspace, 'a.txt'), 'utf8')).toBe('a\n')
    await bench.pooled(project)
    await bench.projects.list.poolOf(project).settled()
    expect(bench.states().sort()).toEqual([...Array<string>(10).fill('draft'), 'pooled'])
    expect(bench.workspaces()).toHaveLength(11)
    for (const [i, { notebook_id }] of claims.entries()) {
      const { room } = await bench.attach(notebook_id, `client-${i}`)
      expect(await bench.run(room, `${i} + 1`)).toBe(`done ${i + 1}`)
    }
  }))

test('a claim joins the room that is being made, and its kernel goes on booting', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    let boot: () => void = () => {}
    const held = new Promise<void>((resolve) => {
      boot = resolve
    })
    bench.steps.before = (name) => (name === 'boot' ? held : undefined)
    project.record.own = { ...project.record.own, depth: 1 }
    const pool = bench.projects.list.poolOf(project)
    pool.ensure()
    const claim = await bench.claim(project)
    expect(claim.claim).toBe('joined')
    const { room } = await bench.attach(claim.notebook_id)
    expect(room.record.state).toBe('draft')
    boot()
    expect(await bench.run(room, '1 + 1')).toBe('done 2')
    // One process, of one room, and no standby.
    const kernels = bench.store.all('SELECT notebook_id FROM kernels WHERE notebook_id = ?', room.id)
    expect(kernels).toHaveLength(1)
    expect(bench.projects.hooks.standbys().some(({ notebook_id }) => notebook_id === room.id)).toBe(false)
  }))

test('claim, work, claim again: another room, and both are usable', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 1 })
    await bench.pooled(project)
    const first = await bench.claim(project, { interactive: true })
    const { room } = await bench.attach(first.notebook_id)
    await bench.edit(room, '# one')
    const second = await bench.claim(project, { interactive: true })
    expect(second.notebook_id).not.toBe(first.notebook_id)
    const other = await bench.attach(second.notebook_id)
    expect(await bench.run(other.room, '1')).toBe('done 1')
    expect(await bench.run(room, '2')).toBe('done 2')
  }))

test('no step of anything leaves a room without its folder, or a folder without its room', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { depth: 2 })
    await Promise.all([bench.claim(project), bench.claim(project), bench.claim(project)])
    const pool = bench.projects.list.poolOf(project)
    await until('two pooled rooms', () => pool.pooled.length === 2 && !pool.warming)
    const rows = bench.store
      .all<{ notebook_id: string }>('SELECT notebook_id FROM rooms')
      .map((row) => row.notebook_id)
    expect(bench.workspaces()).toEqual(rows.sort())
    for (const id of rows)
      expect(statSync(join(bench.projects.context.places.workspaces, id)).isDirectory()).toBe(true)
  }))

test.each([
  ['a cold', 0],
  ['a warm', 1],
])(
  'claims while the project is removed, %s and one behind it: both say so, and nothing is left',
  (_how, depth) =>
    withProjects(async (bench) => {
      const project = await bench.add(bench.repository(), { depth })
      if (depth > 0) await bench.pooled(project)
      const claims = [bench.claim(project), bench.claim(project, {}, { owner: 'client-two' })]
      const ends = Promise.allSettled(claims)
      await bench.projects.list.remove(project)
      for (const end of await ends) {
        expect(end).toMatchObject({ status: 'rejected', reason: { code: 'not_found' } })
        expect(end).toMatchObject({ reason: { message: expect.stringContaining('was removed') } })
      }
      expect([bench.states(), bench.workspaces()]).toEqual([[], []])
      expect(bench.rooms.context.kernels.running()).toEqual([])
    }),
)
