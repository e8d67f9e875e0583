/**
 * What is started ahead of need, and what is ended for memory, while other things go on: every wait is held and let go by the test, and
 * measurements are its own.
 */
import { expect, test } from 'vitest'
import type { Snapshot } from '../../daemon/projects/memory/measure.ts'
import { YOUNG_MS } from '../../daemon/projects/sweep.ts'
import { DEFAULT_KEEP_ALIVE_MS } from '../../daemon/rooms/kernel-slot.ts'
import type { Room } from '../../daemon/rooms/room.ts'
import { until } from '../support/until.ts'
import { type Seeded, withSeeded } from './seeded.ts'

/** Each kernel that is there at a look has 100 bytes. */
function memory(budget: number, each = { bytes: 100 }) {
  let seeded: Seeded | null = null
  const look = async (): Promise<Snapshot> => {
    const kernels = [...(seeded?.kernels.alive ?? [])].map(({ notebookId }) => ({
      notebookId,
      bytes: each.bytes,
    }))
    return { kernels, total: kernels.length * each.bytes }
  }
  return (use: (seeded: Seeded) => Promise<void>) =>
    withSeeded(
      (given) => {
        seeded = given
        return use(given)
      },
      { memory: { look, budget } },
    )
}

/** Lets go what is held until this is. */
async function heldAt(seeded: Seeded, name: string): Promise<void> {
  await until(name, () => {
    if (seeded.scheduler.names.includes(name)) return true
    if (seeded.scheduler.held > 0) seeded.scheduler.step()
    return false
  })
}

/** A room that somebody has worked in, with a kernel. */
async function worked(
  seeded: Seeded,
  project: Parameters<Seeded['claim']>[0],
): Promise<{ room: Room; leave: () => void }> {
  const claim = await seeded.through(seeded.claim(project))
  const attached = await seeded.attach(claim.notebook_id)
  await seeded.edit(attached.room, '1')
  await seeded.through(attached.room.slot.want())
  return attached
}

test('three deaths of standbys for want of memory trip the breaker; only a person lets it go', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', { depth: 1 })
    await seeded.fill(project)
    const pool = seeded.projects.list.poolOf(project)
    const [tier] = pool.pooled
    if (!tier) throw new Error('no room is warm')
    const death = async () => {
      seeded.kernels.of(tier.id)?.die()
      if (!project.breaker.tripped) await seeded.through(pool.boot(tier))
    }
    await death()
    await death()
    // Too long ago: they do not count any more.
    seeded.clock.advance(300_000)
    await death()
    await death()
    expect(project.breaker.tripped).toBe(false)
    await death()
    expect(project.breaker.tripped).toBe(true)
    const starts = seeded.kernels.starts.length
    seeded.clock.advance(3_600_000)
    await seeded.through(seeded.projects.sweep())
    // A room waits, without a kernel that would only be killed again.
    expect(pool.status()).toMatchObject({ slots: [{ state: 'pooled', standby: 'missing' }] })
    expect(pool.status().reason).toContain('want of memory')
    expect(seeded.kernels.starts).toHaveLength(starts)
    await seeded.through(seeded.projects.list.trust(project, true))
    expect(project.breaker.tripped).toBe(false)
    await seeded.through(until('another room with a kernel', () => pool.pooled[0]?.standby === 'ready'))
  }))

test('memory is looked at while a standby boots: it is not ended, and its size is counted before another is started', () =>
  memory(150 * 2 ** 20, { bytes: 50 * 2 ** 20 })(async (seeded) => {
    const { project: one } = await seeded.add('one', { depth: 1 })
    const { project: two } = await seeded.add('two')
    // How big a standby of the second is, it has been measured.
    two.record.own = { ...two.record.own, depth: 1 }
    await seeded.fill(one)
    await seeded.fill(two)
    expect(await seeded.projects.memory.pass()).toEqual([])
    const [first] = seeded.projects.list.poolOf(one).pooled
    const [second] = seeded.projects.list.poolOf(two).pooled
    if (!first || !second) throw new Error('the pools are not filled')
    seeded.kernels.of(first.id)?.die()
    seeded.kernels.of(second.id)?.die()
    expect(await seeded.projects.memory.pass()).toEqual([])
    const user = await seeded.add('three')
    const busy = await worked(seeded, user.project)
    expect(await seeded.projects.memory.pass()).toEqual([])

    // 50 of 150 are used: one standby of 50 fits, two do not.
    const booting = seeded.projects.list.poolOf(one).boot(first)
    await heldAt(seeded, 'kernel start')
    await seeded.projects.memory.pass()
    expect(first.standby).toBe('booting')
    expect(seeded.projects.hooks.standbys()).toMatchObject([{ notebook_id: first.id, state: 'booting' }])
    expect(seeded.projects.gates.whyClosed(two)).toContain('not enough memory')
    await seeded.through(booting)
    expect(first.standby).toBe('ready')
    // It has come up since the look, and is counted all the same.
    await seeded.through(seeded.projects.list.poolOf(two).boot(second))
    expect(second.standby).toBe('missing')
    expect(await seeded.projects.memory.pass()).toEqual([])
    expect(busy.room.presentKernel).not.toBeNull()
  }))

test('a kernel that is to be ended is asked again at that very moment: somebody who came meanwhile keeps it', () => {
  const each = { bytes: 100 }
  return memory(
    350,
    each,
  )(async (seeded) => {
    const { project } = await seeded.add('one')
    const rooms: Room[] = []
    for (let n = 0; n < 3; n++) {
      const { room, leave } = await worked(seeded, project)
      leave()
      seeded.clock.advance(1_000)
      rooms.push(room)
    }
    expect(await seeded.projects.memory.pass()).toEqual([])
    each.bytes = 200
    // Two have to go, the longest idle first; while the first ends, somebody comes to the second.
    const pass = seeded.projects.memory.pass()
    await until('the first to end', () => seeded.scheduler.names.includes('kernel end'))
    const came = await seeded.attach(rooms[1]?.id ?? '')
    const ended = await seeded.through(pass)
    expect(ended.map(({ notebookId }) => notebookId)).toEqual([rooms[0]?.id])
    expect(rooms.map((room) => room.presentKernel !== null)).toEqual([false, true, true])
    // When he has left and nobody is there, it may go.
    came.leave()
    const next = await seeded.through(seeded.projects.memory.pass())
    expect(next).toHaveLength(1)
  })
})

test('an idle kernel is ended after its keep-alive; a standby is nobody’s to be idle, however long it waits', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', { depth: 1 })
    await seeded.fill(project)
    const { room, leave } = await worked(seeded, project)
    await seeded.fill(project)
    const [standby] = seeded.projects.list.poolOf(project).pooled
    leave()
    await seeded.quiet()
    seeded.clock.advance(DEFAULT_KEEP_ALIVE_MS + YOUNG_MS)
    await seeded.through(until('the end of the idle kernel', () => room.presentKernel === null))
    expect(standby?.standby).toBe('ready')
    expect(seeded.projects.list.poolOf(project).pooled).toEqual([standby])
  }))

test('without a measurement nothing is ended and nothing kept from starting; a look that fails is no look', () => {
  let look = async (): Promise<Snapshot> => {
    throw new Error('the machine tells nothing')
  }
  return withSeeded(
    async (seeded) => {
      const { project } = await seeded.add('one', { depth: 1 })
      const { room, leave } = await worked(seeded, project)
      leave()
      await expect(seeded.projects.memory.pass()).rejects.toThrow('tells nothing')
      expect([seeded.projects.memory.used, seeded.projects.gates.full()]).toEqual([null, false])
      await seeded.fill(project)
      expect(seeded.projects.list.poolOf(project).pooled[0]?.standby).toBe('ready')
      // The kernels are there and nobody knows how big they are: they are not nothing, and not too much.
      look = async () => ({ kernels: [{ notebookId: room.id, bytes: null }], total: 0 })
      expect(await seeded.projects.memory.pass()).toEqual([])
      look = async () => ({ kernels: [{ notebookId: room.id, bytes: null }], total: 2 ** 40 })
      expect(await seeded.projects.memory.pass()).toEqual([])
      expect(room.presentKernel).not.toBeNull()
    },
    { memory: { look: () => look(), budget: 2 ** 30 } },
  )
})
