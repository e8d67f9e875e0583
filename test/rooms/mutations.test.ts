import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { FrameType } from '../../protocol/frames.ts'
import { makeRooms, mutation, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let path: string

beforeEach(async () => {
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['1'])
})

afterEach(() => fixture.dispose())

const addCell = { operations: [{ op: 'create_cell', source: 'x', cell_type: 'code' }] }

async function attach(channel = new RememberingChannel()): Promise<AttachedPeer> {
  return fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
}

async function cells(peer: AttachedPeer): Promise<number> {
  const { total } = (await peer.request('get_cells', { start: 0, count: 100 }, fixture.context())) as {
    total: number
  }
  return total
}

test('a mutation sent again takes effect once and gets the same answer, at once, later, and after a restart', async () => {
  const peer = await attach()
  const context = fixture.context('test-instance', { mutationId: mutation(7) })
  const [first, together] = await Promise.all([
    peer.request('edit', addCell, context),
    peer.request('edit', addCell, context),
  ])
  expect(together).toEqual(first)
  expect(await peer.request('edit', addCell, context)).toEqual(first)
  expect(await cells(peer)).toBe(2)

  Object.assign(fixture, { rooms: fixture.again() })
  const after = await attach()
  expect(await after.request('edit', addCell, context)).toEqual(first)
  expect(await cells(after)).toBe(2)
})

test('two client instances may use the same mutation id', async () => {
  const peer = await attach()
  await peer.request('edit', addCell, fixture.context('instance-one', { mutationId: mutation(1) }))
  await peer.request('edit', addCell, fixture.context('instance-two', { mutationId: mutation(1) }))
  expect(await cells(peer)).toBe(3)
})

test('an id below the watermark is outcome_unknown and is not run', async () => {
  const peer = await attach()
  const settled = fixture.context('test-instance', { mutationId: mutation(5), watermark: 5 })
  await peer.request('edit', addCell, settled)
  const forgotten = fixture.context('test-instance', { mutationId: mutation(4), watermark: 5 })
  await expect(peer.request('edit', addCell, forgotten)).rejects.toMatchObject({ code: 'outcome_unknown' })
  expect(await cells(peer)).toBe(2)
})

test('an id that was used for one method is refused for another', async () => {
  const peer = await attach()
  const context = fixture.context('test-instance', { mutationId: mutation(2) })
  await peer.request('edit', addCell, context)
  await expect(peer.request('clear_outputs', {}, context)).rejects.toMatchObject({ code: 'conflict' })
})

test('results older than 24 hours are forgotten, and never run again', async () => {
  const peer = await attach()
  const context = fixture.context('test-instance', { mutationId: mutation(3) })
  await peer.request('edit', addCell, context)
  fixture.clock.advance(25 * 3_600_000)
  await fixture.rooms.mutations.forgetOld()
  await expect(peer.request('edit', addCell, context)).rejects.toMatchObject({ code: 'outcome_unknown' })
  expect(fixture.rooms.instance(context.identity.clientInstance).mutation_id).toBeGreaterThanOrEqual(3)
})

test('an older activation generation is refused, and the newest is told to a new process', async () => {
  const context = fixture.context('generations')
  const open = (generation: number) => opening({ path }, 'open', { activation_generation: generation })
  await fixture.rooms.attach(open(4), context, new RememberingChannel())
  await expect(fixture.rooms.attach(open(3), context, new RememberingChannel())).rejects.toMatchObject({
    code: 'session_superseded',
  })
  expect(fixture.again().instance(context.identity.clientInstance).activation_generation).toBe(4)
})

test('an edit is told before it is answered, and to all in the same order', async () => {
  const channels = [new RememberingChannel(), new RememberingChannel()]
  const [a, b] = await Promise.all(channels.map((channel) => attach(channel)))
  if (!a || !b) throw new Error('no peers')
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => (i % 2 ? a : b).request('edit', addCell, fixture.context())),
  )
  const seen = channels.map((channel) =>
    channel
      .of(FrameType.EVENT)
      .map((e) => (e as { event: { type: string; doc_seq?: number } }).event)
      .filter((event) => event.type === 'cells')
      .map((event) => event.doc_seq),
  )
  expect(seen[0]).toEqual(Array.from({ length: 20 }, (_, i) => i + 1))
  expect(seen[1]).toEqual(seen[0])
  expect(answers.map((answer) => (answer as { doc_seq: number }).doc_seq)).toEqual(seen[0])
})
