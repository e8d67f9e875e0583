/** The sweep: what should be against what the operating system says. Nothing is told of twice, and unknown is not dead. */
import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Project } from '../../daemon/projects/project.ts'
import { YOUNG_MS } from '../../daemon/projects/sweep.ts'
import type { TierRoom } from '../../daemon/projects/tier.ts'
import { LineReader } from '../support/line-reader.ts'
import { until } from '../support/until.ts'
import type { MadeUp } from './made-up.ts'
import { type Seeded, withSeeded } from './seeded.ts'

/** A pid that no process has. */
const NOBODY = 2 ** 22 - 3

async function warm(
  seeded: Seeded,
  name = 'one',
): Promise<{ project: Project; tier: TierRoom; kernel: MadeUp }> {
  const { project } = await seeded.add(name, { depth: 1 })
  await seeded.fill(project)
  const [tier] = seeded.projects.list.poolOf(project).pooled
  const kernel = tier && seeded.kernels.of(tier.id)
  if (!tier || !kernel) throw new Error('no room is warm')
  kernel.pid = process.pid
  return { project, tier, kernel }
}

/** What a sweep did: the rooms for which a kernel was started, and what was waited for. */
async function sweep(seeded: Seeded): Promise<{ starts: string[]; steps: string[] }> {
  const before = seeded.kernels.starts.length
  const steps: string[] = []
  seeded.scheduler.holds = (name) => {
    steps.push(name)
    return true
  }
  await seeded.through(seeded.projects.sweep())
  for (const { pool } of seeded.projects.list.pools()) await seeded.through(pool.settled())
  seeded.scheduler.holds = () => true
  return { starts: seeded.kernels.starts.slice(before).map(({ notebookId }) => notebookId), steps }
}

test('a standby is what the operating system says of its process; of an unknown process it is not dead', () =>
  withSeeded(async (seeded) => {
    const { project, tier, kernel } = await warm(seeded)
    expect(tier.standby).toBe('ready')
    kernel.pid = NOBODY
    expect(tier.standby).toBe('missing')
    kernel.pid = null
    expect(tier.standby).toBe('ready')
    if (process.platform === 'linux') {
      // Its parent has not asked how it ended: it is still there, and dead.
      const parent = spawn('sh', ['-c', 'true & echo $!; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] })
      try {
        kernel.pid = Number(await new LineReader(parent.stdout).next())
        await until('its end', () => tier.standby === 'missing')
      } finally {
        parent.kill('SIGKILL')
      }
    }
    kernel.die()
    expect(tier.standby).toBe('missing')
    // A room without a kernel and without a start under way has none: nothing about that is unknown.
    const booting = seeded.projects.list.poolOf(project).boot(tier)
    await until('the start', () => {
      if (seeded.scheduler.names.includes('kernel start')) return true
      if (seeded.scheduler.held > 0) seeded.scheduler.step()
      return false
    })
    expect(tier.standby).toBe('booting')
    await seeded.through(booting)
    expect(tier.standby).toBe('ready')
  }))

test('a standby that is dead, told or not, is made again for the same room; one that is well, unknown, starting or young is left alone', () =>
  withSeeded(async (seeded) => {
    const { project, tier, kernel } = await warm(seeded)
    const row = () =>
      seeded.store.get('SELECT state, slot, generation FROM rooms JOIN workspaces USING (notebook_id)')
    const before = row()
    kernel.pid = NOBODY
    // Young: it might still be booting.
    expect(await sweep(seeded)).toEqual({ starts: [], steps: [] })
    kernel.pid = process.pid
    seeded.clock.advance(YOUNG_MS)
    await seeded.through(seeded.projects.sweep())
    expect((await sweep(seeded)).starts).toEqual([])
    kernel.pid = null
    expect((await sweep(seeded)).starts).toEqual([])
    kernel.pid = NOBODY
    expect((await sweep(seeded)).starts).toEqual([tier.id])
    expect(seeded.kernels.alive.has(kernel)).toBe(false)
    expect(tier.standby).toBe('ready')
    seeded.kernels.of(tier.id)?.die()
    expect((await sweep(seeded)).starts).toEqual([tier.id])
    expect(row()).toEqual(before)
    expect(seeded.projects.list.poolOf(project).pooled).toEqual([tier])
    // Starting: seen while its kernel is on its way, by one that comes meanwhile.
    seeded.kernels.of(tier.id)?.die()
    const first = seeded.projects.list.poolOf(project).boot(tier)
    await until('the start', () => seeded.scheduler.names.includes('boot'))
    seeded.scheduler.letGo('boot')
    expect(await until('the start', () => tier.standby === 'booting')).toBe(true)
    await sweep(seeded)
    await seeded.through(first)
    expect(seeded.kernels.alive.size).toBe(1)
    expect(seeded.kernels.starts).toHaveLength(4)
  }))

test('an empty pool gets a whole room, not a kernel alone; a project that is not ready gets none, and what is being made is not judged', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const pool = seeded.projects.list.poolOf(project)
    project.record.own = { ...project.record.own, depth: 1 }
    project.record.status = 'cloning'
    expect(await sweep(seeded)).toEqual({ starts: [], steps: [] })
    expect(seeded.states()).toEqual([])
    project.record.status = 'ready'
    const { starts, steps } = await sweep(seeded)
    expect(steps.filter((name) => name === 'warm: row')).toHaveLength(1)
    expect(starts).toEqual([pool.pooled[0]?.id])
    project.record.own = { ...project.record.own, depth: 2 }
    pool.ensure()
    seeded.clock.advance(YOUNG_MS)
    const half = await until('a room that is half made', () => {
      if (seeded.scheduler.names.includes('git clone'))
        return pool.rooms.find((tier) => !pool.pooled.includes(tier))
      if (seeded.scheduler.held > 0) seeded.scheduler.step()
      return null
    })
    // Its folder is not there yet, and it has no kernel: none of that is held against it.
    await seeded.projects.sweep()
    expect(half.room.record.state).toBe('warming')
    expect(half.leaving).toBe(false)
    await seeded.fill(project, 2)
    expect(pool.pooled).toContain(half)
  }))

test('a room whose workspace is gone is replaced; one project that cannot be looked at does not end the pass', () =>
  withSeeded(async (seeded) => {
    const broken = await warm(seeded, 'broken')
    const { project, tier } = await warm(seeded, 'sound')
    rmSync(tier.workspace.folder, { recursive: true })
    seeded.clock.advance(YOUNG_MS)
    const failing = seeded.projects.list.poolOf(broken.project)
    Object.defineProperty(failing, 'rooms', {
      get() {
        throw new Error('this pool cannot be looked at')
      },
      configurable: true,
    })
    await sweep(seeded)
    await sweep(seeded)
    Reflect.deleteProperty(failing, 'rooms')
    const [next] = seeded.projects.list.poolOf(project).pooled
    expect(next?.id).not.toBe(tier.id)
    expect(seeded.projects.tier.get(tier.id)).toBeUndefined()
    expect(seeded.workspaces()).toEqual([broken.tier.id, next?.id].sort())
  }))

test('a claim that lands while the sweep looks keeps its room, and nothing is done to its kernel', () =>
  withSeeded(async (seeded) => {
    const { project, tier, kernel } = await warm(seeded)
    // Dead as far as anybody can see, so that the sweep wants to make it again.
    kernel.pid = NOBODY
    seeded.clock.advance(YOUNG_MS)
    const sweeping = seeded.projects.sweep()
    await until('the look', () => seeded.scheduler.names.includes('sweep: look'))
    const claiming = seeded.claim(project)
    await until('the claim to take it', () => seeded.scheduler.names.includes('take'))
    seeded.scheduler.letGo('take')
    await until('the draft', () => tier.room.record.state === 'draft')
    kernel.pid = process.pid
    seeded.scheduler.letGo('sweep: look')
    const claim = await seeded.through(claiming)
    await seeded.through(sweeping)
    expect(claim).toMatchObject({ notebook_id: tier.id, standby: 'ready' })
    expect(seeded.kernels.of(tier.id)).toBe(kernel)
    expect(tier.room.record.state).toBe('draft')
  }))

test('at the memory line the sweep makes no standby and no room', () => {
  let total = 0
  return withSeeded(
    async (seeded) => {
      const { tier, kernel } = await warm(seeded)
      const { project: empty } = await seeded.add('empty')
      empty.record.own = { ...empty.record.own, depth: 1 }
      kernel.die()
      total = 100
      await seeded.projects.memory.pass()
      seeded.clock.advance(YOUNG_MS)
      expect(await sweep(seeded)).toEqual({ starts: [], steps: [] })
      expect(tier.standby).toBe('missing')
      expect(seeded.projects.list.poolOf(empty).rooms).toEqual([])
    },
    { memory: { look: async () => ({ kernels: [], total }), budget: 100 } },
  )
})
