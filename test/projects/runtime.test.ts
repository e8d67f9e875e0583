/**
 * The runtime of a room of a project: who may run, what waits, who is told, and when it is ended. Kernels are made up and end a cell when
 * the test says so; peers, rooms and the store are real, and time is the test's.
 */
import { expect, test } from 'vitest'
import { LEASE_MS } from '../../daemon/projects/drafts.ts'
import type { Project } from '../../daemon/projects/project.ts'
import { DEFAULT_KEEP_ALIVE_MS } from '../../daemon/rooms/kernel-slot.ts'
import { RESIDENT_MS } from '../../daemon/rooms/upkeep.ts'
import type { RoomEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { until } from '../support/until.ts'
import type { MadeUp } from './made-up.ts'
import { type Attached, type Seeded, withSeeded } from './seeded.ts'

/** A claimed room with its kernel, and who is in it. */
async function opened(seeded: Seeded, project: Project): Promise<Attached & { kernel: MadeUp }> {
  const { notebook_id } = await seeded.through(seeded.claim(project, { skip_warm: true }))
  const attached = await seeded.attach(notebook_id)
  await seeded.through(attached.room.slot.want())
  const kernel = seeded.kernels.of(notebook_id)
  if (!kernel) throw new Error('the kernel did not start')
  return { ...attached, kernel }
}

const statuses = (room: Attached['room']) =>
  room.store
    .all<{ status: string }>(
      'SELECT status FROM executions WHERE notebook_id = ? ORDER BY queued_at',
      room.id,
    )
    .map(({ status }) => status)

/** What a peer was told of executions. */
const told = ({ channel }: Attached): string[] =>
  (channel.of(FrameType.EVENT) as { event: RoomEvent }[]).flatMap(({ event }) => {
    if (event.type === 'execution_queued') return [`queued ${event.execution.execution_id}`]
    if (event.type === 'execution_started') return ['started']
    return event.type === 'execution_finished' ? [`finished ${event.execution.status}`] : []
  })

async function execute(peer: Attached, code: string): Promise<string> {
  const { execution } = (await peer.request('execute', { code })) as { execution: { execution_id: string } }
  return execution.execution_id
}

async function begin(seeded: Seeded, kernel: MadeUp): Promise<void> {
  kernel.beginNext()
  // What a kernel says is joined by the room's clock.
  seeded.clock.advance(60)
  await seeded.quiet()
}

async function finish(seeded: Seeded, { room, kernel }: { room: Attached['room']; kernel: MadeUp }) {
  const before = statuses(room).filter((status) => status === 'done').length
  kernel.finish()
  await until('the end of a cell', async () => {
    seeded.clock.advance(60)
    await seeded.quiet()
    return statuses(room).filter((status) => status === 'done').length > before
  })
}

test('a cell starts at once where nothing runs, and waits behind one that does; every peer is told, in the same order; then the room is idle', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const first = await opened(seeded, project)
    const { room, kernel } = first
    const second = await seeded.attach(room.id, 'client-two')
    expect(room.executions.idle).toBe(true)
    const ids: string[] = []
    for (const code of ['a', 'b', 'c']) ids.push(await execute(first, code))
    await seeded.quiet()
    expect(kernel.sent.map(({ content }) => content.code)).toEqual(['a'])
    await begin(seeded, kernel)
    expect(room.kernelSummary()?.state).toBe('busy')
    expect(room.executions.running?.execution_id).toBe(ids[0])
    expect(room.executions.queued.map(({ execution_id }) => execution_id)).toEqual(ids.slice(1))
    // One that comes now is told what runs and what waits, as the queue is.
    const late = await seeded.attach(room.id, 'client-three')
    await seeded.quiet()
    const [picture] = late.channel.of(FrameType.OPENED) as {
      queued: unknown[]
      queued_total: number
      running: unknown
    }[]
    expect(picture?.running).not.toBeNull()
    expect([picture?.queued.length, picture?.queued_total]).toEqual([2, 2])
    await finish(seeded, first)
    expect(room.executions.idle).toBe(false)
    expect(kernel.sent.map(({ content }) => content.code)).toEqual(['a', 'b'])
    await finish(seeded, first)
    await finish(seeded, first)
    expect(room.executions.idle).toBe(true)
    expect(room.kernelSummary()?.state).toBe('idle')
    expect(told(first)).toEqual([
      ...ids.map((id) => `queued ${id}`),
      ...ids.flatMap(() => ['started', 'finished done']),
    ])
    expect(told(second)).toEqual(told(first))
  }))

test('what is not trusted is refused before anything is queued: the draft stays one', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', {}, false)
    const { notebook_id } = await seeded.through(seeded.claim(project))
    const peer = await seeded.attach(notebook_id)
    await expect(peer.request('execute', { code: '1' })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(peer.request('run_all', {})).rejects.toMatchObject({ code: 'forbidden' })
    expect(statuses(peer.room)).toEqual([])
    expect(peer.room.record.state).toBe('draft')
    expect(seeded.kernels.starts).toEqual([])
  }))

test('closing ends what runs and drops what waits, pinned or not, with every peer; whoever comes after that gets a fresh one', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const peer = await opened(seeded, project)
    const { room } = peer
    await peer.request('set_keep_alive', { keep_alive: 'pinned' })
    for (const code of ['a', 'b']) await peer.request('execute', { code })
    await seeded.quiet()
    expect(await seeded.through(seeded.rooms.close(room.id))).toBe(true)
    expect(statuses(room)).toEqual(['interrupted', 'cancelled'])
    expect(seeded.kernels.alive.size).toBe(0)
    expect(seeded.rooms.resident.has(room.id)).toBe(false)
    expect(peer.channel.closed).toBe('closed')
    expect(seeded.rooms.counts()).toMatchObject({ peers: 0, kernels: 0 })
    const again = await seeded.attach(room.id)
    expect(again.room).not.toBe(room)
    expect(again.room.peers.size).toBe(1)
    expect(again.room.executions.idle).toBe(true)
    await again.request('execute', { code: 'c' })
    await seeded.through(until('a kernel', () => seeded.kernels.of(room.id)?.sent.length === 1))
  }))

test('what runs or waits keeps kernel and room, however long; once it is over both go', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const peer = await opened(seeded, project)
    const { room, kernel } = peer
    for (const code of ['a', 'b']) await peer.request('execute', { code })
    await seeded.quiet()
    peer.leave()
    seeded.clock.advance(RESIDENT_MS + DEFAULT_KEEP_ALIVE_MS)
    seeded.rooms.sweep()
    await seeded.quiet()
    expect(seeded.kernels.alive.has(kernel)).toBe(true)
    expect(seeded.rooms.resident.get(room.id)).toBe(room)
    await finish(seeded, peer)
    seeded.clock.advance(DEFAULT_KEEP_ALIVE_MS)
    await seeded.quiet()
    expect(seeded.kernels.alive.has(kernel)).toBe(true)
    await finish(seeded, peer)
    seeded.clock.advance(DEFAULT_KEEP_ALIVE_MS)
    await seeded.through(until('the end of the kernel', () => !seeded.kernels.alive.has(kernel)))
    seeded.clock.advance(RESIDENT_MS + 1)
    await seeded.through(
      until('the room to leave memory', () => {
        seeded.rooms.sweep()
        return !seeded.rooms.resident.has(room.id)
      }),
    )
  }))

test('a daemon that stops lets go of every room, whatever runs in it, and of no kernel that somebody has; told so, it ends them all', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', { depth: 1 })
    await seeded.fill(project)
    const busy = await opened(seeded, project)
    await busy.request('execute', { code: 'a' })
    await seeded.quiet()
    await begin(seeded, busy.kernel)
    const rooms = [...seeded.rooms.resident.values()]
    expect(rooms.length).toBe(2)
    const stopped = await seeded.through(seeded.rooms.shutdown({ kernels: false }))
    expect(stopped.rooms).toBe(2)
    expect(seeded.rooms.resident.size).toBe(0)
    // The standby is nobody’s, and the next daemon would only end it.
    expect([...seeded.kernels.alive]).toEqual([busy.kernel])
    expect(statuses(busy.room)).toEqual(['running'])
    await seeded.restart()
    const again = await seeded.rooms.byId(NotebookId.parse(busy.room.id))
    expect(again.presentKernel).toBe(busy.kernel)
    expect(again.executions.running).not.toBeNull()
    await seeded.through(seeded.rooms.shutdown({ kernels: true }))
    expect(seeded.kernels.alive.size).toBe(0)
    expect(statuses(busy.room)).toEqual(['interrupted'])
  }))

test('the lease of a draft runs from when the last peer left, once; whoever comes ends it, and work ends it for good', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const claim = await seeded.through(seeded.claim(project))
    const lease = () =>
      seeded.store.get<{ lease_until: number | null }>(
        'SELECT lease_until FROM workspaces WHERE notebook_id = ?',
        claim.notebook_id,
      )?.lease_until
    /** Time passes, and they are heard of. */
    const stay = async (...peers: Attached[]) => {
      for (let ms = 0; ms < LEASE_MS; ms += LEASE_MS / 5) {
        seeded.clock.advance(LEASE_MS / 5)
        for (const peer of peers) await peer.request('get_cells', {})
      }
    }
    const alive = () => seeded.projects.tier.get(claim.notebook_id)?.leaving === false
    const one = await seeded.attach(claim.notebook_id)
    const two = await seeded.attach(claim.notebook_id)
    expect(one.room.peers.size).toBe(2)
    await stay(one, two)
    one.leave()
    expect(one.room.peers.size).toBe(1)
    await stay(two)
    expect(alive()).toBe(true)
    two.leave()
    two.leave()
    one.leave()
    expect(one.room.peers.size).toBe(0)
    await seeded.quiet()
    expect(lease()).toBe(seeded.clock.now() + LEASE_MS)
    seeded.clock.advance(LEASE_MS - 1)
    // It does not begin again because somebody leaves who has left.
    two.leave()
    expect(alive()).toBe(true)
    const back = await seeded.attach(claim.notebook_id)
    await stay(back)
    expect(alive()).toBe(true)
    await seeded.edit(back.room, '1')
    back.leave()
    seeded.clock.advance(2 * LEASE_MS)
    await seeded.quiet()
    expect(back.room.record.state).toBe('active')
    expect(seeded.workspaces()).toEqual([claim.notebook_id])
    expect(lease()).toBeNull()

    // Nobody comes to another: it goes.
    const other = await seeded.through(seeded.claim(project))
    seeded.clock.advance(LEASE_MS)
    await seeded.through(until('its end', () => !seeded.workspaces().includes(other.notebook_id)))
  }))

test('many who ask for a room at once get the same one; it is listed while it is in work, and not before', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', { depth: 1 })
    await seeded.fill(project)
    const { room, leave } = await opened(seeded, project)
    expect(seeded.rooms.counts()).toMatchObject({ rooms: 0, peers: 1 })
    await seeded.edit(room, '1')
    leave()
    expect(seeded.rooms.counts()).toMatchObject({ rooms: 1, peers: 0 })
    await seeded.through(seeded.rooms.close(room.id))
    const [first, ...others] = await Promise.all([1, 2, 3].map(() => seeded.rooms.byId(room.id)))
    expect(others.every((each) => each === first)).toBe(true)
    expect(first).not.toBe(room)
  }))
