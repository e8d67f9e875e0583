/** Edits of one turn: made as one update, told and answered one by one. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { eachEdit } from '../../client/sdk/room-events.ts'
import type { DocumentCellView } from '../../daemon/rooms/parts.ts'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import type { EventEnvelope, TransientEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import { Mirror } from '../documents/mirror.ts'
import { makeRooms, mutation, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

type CellsEvent = Extract<TransientEvent, { type: 'cells' }>
interface Read {
  cells: (DocumentCellView & { outputs?: unknown; execution?: unknown })[]
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

test('who reads several edits in one event is told of them in one, in parts that say what each changed', async () => {
  const together = new RememberingChannel()
  const context = fixture.context()
  const reader = { ...context, identity: { ...context.identity, editsTogether: true } }
  await fixture.rooms.attach(opening({ path }, 'open'), reader, together)
  const two = { operations: [...set(1, 'new 1').operations, ...set(2, 'new 2').operations] }
  await Promise.all([edit(set(0, 'new 0')), edit(two), edit(set(3, 'new 3'))])
  await edit(set(0, 'alone'))
  const [joint, alone, ...more] = together
    .of(FrameType.EVENT)
    .map((frame) => frame as EventEnvelope)
    .filter(({ event }) => event.type === 'cells')
  expect(joint?.event).toMatchObject({ doc_seq: 3, parts: [1, 2, 1], delta: [] })
  expect([...eachEdit(joint as EventEnvelope)].map(({ event }) => event)).toEqual(told().slice(0, 3))
  expect(alone?.event).toEqual(told()[3])
  expect(alone?.event).not.toHaveProperty('parts')
  expect(more).toEqual([])
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

const text = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '😀'), maxLength: 8 })
/** Which cell, as a number that is taken modulo how many there are. */
const cell = fc.nat(7)
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ op: fc.constant('set_source' as const), cell, source: text }) },
  fc.record({ op: fc.constant('create_cell' as const), cell, source: text }),
  fc.record({ op: fc.constant('delete_cell' as const), cell }),
  fc.record({ op: fc.constant('move_cell' as const), cell, after: cell }),
  fc.record({ op: fc.constant('wait' as const) }),
)

type Step = typeof step extends fc.Arbitrary<infer T> ? Exclude<T, { op: 'wait' }> : never

/** Every id that was ever used may be meant, also that of a cell which is gone. */
function operation(one: Step, names: string[]): object {
  const id = (n: number): string => names[n % names.length] ?? 'none'
  switch (one.op) {
    case 'set_source':
      return { op: one.op, cell_id: id(one.cell), source: one.source }
    case 'create_cell': {
      const made = { op: one.op, cell_type: 'code', source: one.source, cell_id: `made-${randomUUID()}` }
      const after_cell_id = id(one.cell)
      names.push(made.cell_id)
      return { ...made, after_cell_id }
    }
    case 'delete_cell':
      return { op: one.op, cell_id: id(one.cell) }
    case 'move_cell':
      return { op: one.op, cell_id: id(one.cell), after_cell_id: id(one.after) }
  }
}

/** What was read, as a document. */
const shown = ({ cells }: Read) => ({
  cells: () => cells.map(({ outputs: _, execution: __, ...view }) => view),
  cellCount: cells.length,
  metadata: {},
})

test('whatever comes together, who follows the events has what the room has, and every number once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const before = await read()
      channel.told.length = 0
      const names = before.cells.map(({ cell_id }) => cell_id as string)
      const mirror = new Mirror(shown(before))
      const asked: Promise<unknown>[] = []
      for (const one of steps) {
        if (one.op === 'wait') await asked.at(-1)?.catch(() => undefined)
        else {
          const asking = edit({ operations: [operation(one, names)] })
          // Looked at below; one that is refused meanwhile is no defect of the test.
          asking.catch(() => undefined)
          asked.push(asking)
        }
      }
      const outcomes = await Promise.allSettled(asked)
      for (const { delta, changes } of told()) mirror.take({ delta, changes })
      const after = await read()
      expect(mirror.cells).toEqual(new Mirror(shown(after)).cells)
      expect(told().map(({ doc_seq }) => doc_seq)).toEqual(
        Array.from({ length: after.doc_seq - before.doc_seq }, (_, i) => before.doc_seq + 1 + i),
      )
      // Only cells that are gone, or a move behind itself, are refused.
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          expect(['not_found', 'invalid_argument']).toContain(outcome.reason.code)
    }),
    { numRuns: 40 },
  )
})
