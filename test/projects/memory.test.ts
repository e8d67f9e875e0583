/** Who gives memory back, in which order, and what is told. Measurements are the test's; kernels are real where they are ended. */
import { expect, test } from 'vitest'
import { identify } from '../../daemon/kernel-host/process-identity.ts'
import { LOOK_MS } from '../../daemon/projects/memory/keeper.ts'
import { type Candidate, chooseLosses } from '../../daemon/projects/memory/ladder.ts'
import { budgetOf, type KernelProcess, measure, type Snapshot } from '../../daemon/projects/memory/measure.ts'
import type { RoomEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { until } from '../support/until.ts'
import { type Bench, withProjects } from './fixture.ts'

const id = (n: number) => NotebookId.parse(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`)
const candidate = (n: number, given: Partial<Candidate> = {}): Candidate => ({
  notebookId: id(n),
  rung: 'variables',
  idleSince: n,
  pinned: false,
  viewed: false,
  busy: false,
  ...given,
})
/** Each kernel has 100 bytes, or what is said. */
const snapshot = (kernels: readonly Candidate[], bytes: Record<number, number | null> = {}): Snapshot => {
  const measured = kernels.map(({ notebookId }) => {
    const n = Number(notebookId.slice(-12))
    return { notebookId, bytes: n in bytes ? (bytes[n] ?? null) : 100 }
  })
  return { kernels: measured, total: measured.reduce((sum, each) => sum + (each.bytes ?? 0), 0) }
}
const losses = (kernels: readonly Candidate[], budget: number, bytes: Record<number, number | null> = {}) =>
  chooseLosses(kernels, snapshot(kernels, bytes), budget).map(({ notebookId }) =>
    Number(notebookId.slice(-12)),
  )

test('inside the budget nothing is given back, however long idle; at the line neither', () => {
  const kernels = [candidate(1), candidate(2, { rung: 'standby' })]
  expect(losses(kernels, 201)).toEqual([])
  expect(losses(kernels, 200)).toEqual([])
  expect(losses(kernels, 199)).toEqual([2])
})

test('cheapest first: standbys, drafts, kernels nobody used, then the longest idle; it stops when the shortfall is covered', () => {
  const kernels = [
    candidate(5, { idleSince: 9 }),
    candidate(4, { idleSince: 3 }),
    candidate(3, { rung: 'clean', idleSince: 99 }),
    candidate(2, { rung: 'draft', idleSince: 99 }),
    candidate(1, { rung: 'standby', idleSince: 99 }),
  ]
  expect(losses(kernels, 0)).toEqual([1, 2, 3, 4, 5])
  expect(losses(kernels, 399)).toEqual([1, 2])
  expect(losses(kernels, 150)).toEqual([1, 2, 3, 4])
})

test('never one that is pinned, looked at or busy, even alone over the line', () => {
  const kernels = [
    candidate(1, { pinned: true }),
    candidate(2, { viewed: true }),
    candidate(3, { busy: true }),
  ]
  expect(losses(kernels, 1)).toEqual([])
  expect(losses([...kernels, candidate(4)], 1)).toEqual([4])
})

test('a kernel whose memory is not known ends the list, and one that started since the look is not part of it', () => {
  const kernels = [candidate(1), candidate(2), candidate(3)]
  expect(losses(kernels, 0, { 2: null })).toEqual([1])
  expect(chooseLosses([...kernels, candidate(0)], snapshot(kernels), 0)[0]?.notebookId).toBe(id(1))
})

test('the line is half of the machine, what was set, and never more than the machine has; of an unknown machine there is none', () => {
  expect(budgetOf(null, 1_000)).toBe(500)
  expect(budgetOf(300, 1_000)).toBe(300)
  expect(budgetOf(3_000, 1_000)).toBe(1_000)
  expect(budgetOf(null, 0)).toBe(Number.POSITIVE_INFINITY)
})

test('memory is measured of processes that are there, and unknown of those that are gone', async () => {
  const gone: KernelProcess = { notebookId: id(2), process: { pid: 2 ** 22 - 3, started: '1' } as never }
  const { kernels, total } = await measure([{ notebookId: id(1), process: identify(process.pid) }, gone])
  expect(kernels[0]?.bytes).toBeGreaterThan(10 * 1024 * 1024)
  expect(kernels[1]?.bytes).toBeNull()
  expect(total).toBe(kernels[0]?.bytes)
})

test('over the line a standby goes, then the idle kernel with variables; outputs stay, and the next cell starts fresh with a notice', () => {
  let each = 100
  let looks = 0
  const look = async (kernels: readonly KernelProcess[]): Promise<Snapshot> => {
    looks++
    const measured = kernels.map(({ notebookId }) => ({ notebookId, bytes: each }))
    return { kernels: measured, total: measured.length * each }
  }
  return withProjects(
    async (bench) => {
      const project = await bench.add(bench.repository(), { depth: 1 })
      await bench.pooled(project)
      const viewed = await bench.create({ kernel: 'javascript' })
      await bench.run(viewed.room, 'const seen = 1')
      const unseen = await bench.create({ kernel: 'javascript' })
      await bench.run(unseen.room, 'const kept = 42; kept')
      unseen.leave()
      const standby = bench.projects.list.poolOf(project).pooled[0]
      expect(kernels(bench)).toBe(3)

      // At the line: no standby more, and nothing is ended.
      expect(await bench.projects.memory.pass()).toEqual([])
      expect(bench.projects.gates.full()).toBe(true)
      each = 101
      // Two passes at once are one look, acted upon once.
      const [first, second] = await Promise.all([bench.projects.memory.pass(), bench.projects.memory.pass()])
      expect(second).toBe(first)
      expect(first.map(({ rung }) => rung)).toEqual(['standby'])
      expect(looks).toBe(2)
      expect(standby?.standby).toBe('missing')
      expect(standby?.room.record.state).toBe('pooled')
      // Under the line again: nothing more; and the sweep makes no standby where it does not fit.
      expect(await bench.projects.memory.pass()).toEqual([])
      await bench.projects.sweep()
      expect(kernels(bench)).toBe(2)

      each = 200
      const { room } = await bench.attach(unseen.room.id)
      expect(await bench.projects.memory.pass()).toEqual([])
      for (const peer of [...room.peers]) peer.detach('the test leaves')
      // By the clock, without being asked.
      bench.clock.advance(LOOK_MS)
      await until('the idle kernel to be ended', () => room.presentKernel === null)
      expect(viewed.room.presentKernel).not.toBeNull()
      // The pass that ended it may still be under way; the next finds nothing that may go.
      await bench.projects.memory.pass()
      expect(await bench.projects.memory.pass()).toEqual([])
      const stateOf = () =>
        bench.store.get<{ state: string }>('SELECT state FROM rooms WHERE notebook_id = ?', room.id)?.state
      expect(stateOf()).toBe('evicted')
      // The daemon dies before somebody comes back: what was lost is remembered.
      await bench.restart()
      expect(stateOf()).toBe('evicted')
      const back = await bench.attach(room.id)
      const notices = () =>
        (back.channel.of(FrameType.EVENT) as { event: RoomEvent }[]).flatMap(({ event }) =>
          event.type === 'notice' ? [event.text] : [],
        )
      expect(await bench.run(back.room, 'typeof kept')).toContain('undefined')
      expect(notices().at(-1)).toMatch(
        /^a fresh kernel: its kernel was ended because .* its outputs are kept/,
      )
      expect(stateOf()).toBe('active')
      const told = notices().length
      await back.room.slot.end('shutdown', 'the test ends it')
      await bench.run(back.room, '1')
      expect(notices()).toHaveLength(told)
    },
    { memory: { look, budget: 300 } },
  )
})

const kernels = (bench: Bench) => bench.rooms.context.kernels.running().length
