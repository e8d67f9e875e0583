import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { WRITE_RETRY_MS } from '../../daemon/rooms/room.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
/** What the store answers to writes. */
let failing: RoomdError | null = null

beforeEach(async () => {
  // No turn of the loop is ever too long, however busy the machine is: a picture is made in one.
  vi.spyOn(performance, 'now').mockReturnValue(0)
  failing = null
  fixture = await makeRooms((store) => ({
    all: (sql, ...values) => store.all(sql, ...values),
    get: (sql, ...values) => store.get(sql, ...values),
    write: (unit) => (failing ? Promise.reject(failing) : store.write(unit)),
    writeShared: (unit, packed) => (failing ? Promise.reject(failing) : store.writeShared(unit, packed)),
    settled: () => store.settled(),
    health: () => store.health(),
    close: () => store.close(),
  }))
})

afterEach(async () => {
  await fixture.dispose()
  vi.restoreAllMocks()
})

const addCell = (source: string) => ({ operations: [{ op: 'create_cell', source, cell_type: 'code' }] })

test('a failed commit takes back what was pending, says so, and the room writes again when it can', async () => {
  const path = fixture.notebook('a.ipynb', ['1'])
  const channel = new RememberingChannel()
  const peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
  await peer.request('edit', addCell('kept'), fixture.context())
  channel.told.length = 0

  failing = new RoomdError('storage_full', 'no space left on the device')
  const refused = [1, 2, 3].map((n) => peer.request('edit', addCell(`lost ${n}`), fixture.context()))
  for (const request of refused) await expect(request).rejects.toMatchObject({ code: 'storage_full' })
  expect(channel.of(FrameType.EVENT)).toMatchObject([{ event: { type: 'gap' } }])
  const page = channel.of(FrameType.PROJECTION)[1] as { cells: { source: string }[]; doc_seq: number }
  expect(page.cells.map((cell) => cell.source)).toEqual(['1', 'kept'])
  expect(page.doc_seq).toBe(1)

  await expect(peer.request('edit', addCell('too early'), fixture.context())).rejects.toMatchObject({
    code: 'storage_full',
  })
  const reading = (await peer.request('get_cells', { start: 0, count: 10 }, fixture.context())) as {
    total: number
  }
  expect(reading.total).toBe(2)

  failing = null
  fixture.clock.advance(WRITE_RETRY_MS)
  await fixture.store.settled()
  const answer = await peer.request('edit', addCell('again'), fixture.context())
  expect(answer).toMatchObject({ doc_seq: 2 })
})

test('texts that were set together are taken back together, and what came with them is refused', async () => {
  const path = fixture.notebook('d.ipynb', ['1', '2'])
  const channel = new RememberingChannel()
  const peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
  const read = () =>
    peer.request('get_cells', { start: 0, count: 10 }, fixture.context()) as Promise<{
      cells: { cell_id: string; source: string }[]
      doc_seq: number
    }>
  const { cells } = await read()
  channel.told.length = 0
  failing = new RoomdError('storage_full', 'no space left on the device')
  const refused = cells.map(({ cell_id }) =>
    peer.request('edit', { operations: [{ op: 'set_source', cell_id, source: 'lost' }] }, fixture.context()),
  )
  for (const request of refused) await expect(request).rejects.toMatchObject({ code: 'storage_full' })
  const after = await read()
  expect(after.cells.map(({ source }) => source)).toEqual(['1', '2'])
  expect(after.doc_seq).toBe(0)
  expect(channel.of(FrameType.EVENT)).toMatchObject([{ event: { type: 'gap' } }])
})

test('a change that builds on a failed one is not stored without it', async () => {
  const path = fixture.notebook('b.ipynb', ['1'])
  const channel = new RememberingChannel()
  const peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
  failing = new RoomdError('storage_failed', 'one bad write')
  const first = peer.request('edit', addCell('fails'), fixture.context())
  failing = null
  const second = peer.request('edit', addCell('builds on it'), fixture.context())
  await expect(first).rejects.toMatchObject({ code: 'storage_failed' })
  await expect(second).rejects.toMatchObject({ code: 'storage_failed' })
  Object.assign(fixture, { rooms: fixture.again() })
  const after = await fixture.rooms.attach(
    opening({ path }, 'open'),
    fixture.context(),
    new RememberingChannel(),
  )
  expect(await after.request('get_cells', { start: 0, count: 10 }, fixture.context())).toMatchObject({
    total: 1,
    doc_seq: 0,
  })
})

test('stopping is refused, naming why, while a room cannot be made durable', async () => {
  const path = fixture.notebook('c.ipynb', ['1'])
  const peer = await fixture.rooms.attach(
    opening({ path }, 'open'),
    fixture.context(),
    new RememberingChannel(),
  )
  failing = new RoomdError('storage_full', 'no space left on the device')
  await expect(peer.request('edit', addCell('x'), fixture.context())).rejects.toThrow()
  await expect(fixture.rooms.shutdown({ kernels: false })).rejects.toMatchObject({ code: 'storage_failed' })
})
