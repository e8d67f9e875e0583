/** Edits of one turn: made as one update, told and answered one by one. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import type { TransientEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import { makeRooms, mutation, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

type CellsEvent = Extract<TransientEvent, { type: 'cells' }>
interface Read {
  cells: { cell_id: string; source: string }[]
  doc_seq: number
}

let fixture: RoomsFixture
let path: string
let peer: AttachedPeer
let channel: RememberingChannel
let ids: string[]

beforeEach(async () => {
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['one', 'two', 'three', 'four'])
  channel = new RememberingChannel()
  peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
  ids = (await read()).cells.map((cell) => cell.cell_id)
})

afterEach(() => fixture.dispose())

async function read(of = peer): Promise<Read> {
  return (await of.request('get_cells', { start: 0, count: 100 }, fixture.context())) as Read
}

const set = (cell: number, source: string, more: object = {}) => ({
  operations: [{ op: 'set_source', cell_id: ids[cell] ?? 'none', source, ...more }],
})

const edit = (args: object, context = fixture.context()) =>
  peer.request('edit', args, context) as Promise<{ doc_seq: number }>

const told = (): CellsEvent[] =>
  channel
    .of(FrameType.EVENT)
    .map((frame) => (frame as { event: TransientEvent }).event)
    .filter((event): event is CellsEvent => event.type === 'cells')

const rows = (): { doc_seq: number }[] =>
  fixture.store.all<{ doc_seq: number }>('SELECT doc_seq FROM doc_updates ORDER BY doc_seq')

test('texts set at once in different cells are one update, each with its own number, event and answer', async () => {
  const before = rows().length
  const answers = await Promise.all([0, 1, 2, 3].map((cell) => edit(set(cell, `new ${cell}`))))
  expect(answers.map(({ doc_seq }) => doc_seq)).toEqual([1, 2, 3, 4])
  expect(told().map(({ doc_seq, changes }) => [doc_seq, changes.map(({ cell_id }) => cell_id)])).toEqual(
    ids.map((id, index) => [index + 1, [id]]),
  )
  expect(rows().slice(before)).toEqual([{ doc_seq: 4 }])
  expect((await read()).cells.map(({ source }) => source)).toEqual(['new 0', 'new 1', 'new 2', 'new 3'])
})

test('one that is refused changes nothing and stops no other; one that changes nothing takes no number', async () => {
  const [first, refused, same, last] = await Promise.allSettled([
    edit(set(0, 'changed')),
    edit(set(1, 'never', { expect_source_hash: 'of another text' })),
    edit(set(2, 'three')),
    edit(set(3, 'changed too')),
  ])
  expect(first).toMatchObject({ status: 'fulfilled', value: { doc_seq: 1 } })
  expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'conflict' } })
  expect(same).toMatchObject({ status: 'fulfilled', value: { doc_seq: 1 } })
  expect(last).toMatchObject({ status: 'fulfilled', value: { doc_seq: 2 } })
  expect((await read()).cells.map(({ source }) => source)).toEqual(['changed', 'two', 'three', 'changed too'])
})

test('an edit that expects the number before is refused once another of the same turn changed something', async () => {
  const expecting = fixture.context('test-instance', { expect: { doc_seq: 0 } })
  const [first, second] = await Promise.allSettled([
    edit(set(0, 'changed'), expecting),
    edit(set(1, 'changed'), expecting),
  ])
  expect(first.status).toBe('fulfilled')
  expect(second).toMatchObject({ status: 'rejected', reason: { code: 'conflict' } })
})

test('one cell set twice, cells made and deleted in the same turn: all in the order of the calls', async () => {
  const answers = await Promise.all([
    edit(set(0, 'first')),
    edit(set(0, 'first, then second')),
    edit({ operations: [{ op: 'create_cell', source: 'made', cell_type: 'code', cell_id: 'made' }] }),
    edit({ operations: [{ op: 'set_source', cell_id: 'made', source: 'made and set' }] }),
    edit({ operations: [{ op: 'delete_cell', cell_id: ids[1] }] }),
    edit(set(2, 'three!')),
  ])
  expect(answers.map(({ doc_seq }) => doc_seq)).toEqual([1, 2, 3, 4, 5, 6])
  expect(told().map(({ doc_seq }) => doc_seq)).toEqual([1, 2, 3, 4, 5, 6])
  const sources = (await read()).cells.map(({ source }) => source)
  expect(sources).toEqual(['first, then second', 'three!', 'four', 'made and set'])
})

test('what is read or run in the same turn sees the edits before it', async () => {
  const pending = edit(set(0, 'changed'))
  const seen = await read()
  expect(seen.cells[0]?.source).toBe('changed')
  expect(seen.doc_seq).toBe(1)
  await pending
})

test('edits of one turn survive a restart, and sent again they are answered as before', async () => {
  const contexts = [1, 2, 3].map((n) => fixture.context('test-instance', { mutationId: mutation(n) }))
  const send = (of: AttachedPeer) =>
    Promise.all(contexts.map((context, cell) => of.request('edit', set(cell, `new ${cell}`), context)))
  const answers = await send(peer)
  Object.assign(fixture, { rooms: fixture.again() })
  const after = await fixture.rooms.attach(
    opening({ path }, 'open'),
    fixture.context(),
    new RememberingChannel(),
  )
  expect(await send(after)).toEqual(answers)
  const { cells, doc_seq } = await read(after)
  expect(doc_seq).toBe(3)
  expect(cells.map(({ source }) => source)).toEqual(['new 0', 'new 1', 'new 2', 'four'])
})
