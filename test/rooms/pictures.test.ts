import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { KEPT_EVENTS } from '../../daemon/rooms/event-log.ts'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import type { Opened, Projection } from '../../protocol/channels.ts'
import type { EventEnvelope } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let path: string

beforeEach(async () => {
  // No turn of the loop is ever too long, however busy the machine is: a picture is made in one.
  vi.spyOn(performance, 'now').mockReturnValue(0)
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['1', '2', '3'])
})

afterEach(async () => {
  await fixture.dispose()
  vi.restoreAllMocks()
})

async function attach(channel: RememberingChannel, more: object = {}): Promise<AttachedPeer> {
  return fixture.rooms.attach(opening({ path }, 'open', more), fixture.context(), channel)
}

const opened = (channel: RememberingChannel): Opened => channel.of(FrameType.OPENED)[0] as Opened
/** Pages of cells, and replays. */
const pages = (channel: RememberingChannel): Projection[] =>
  (channel.of(FrameType.PROJECTION) as Projection[]).filter((page) => page.kind !== 'comms')
const events = (channel: RememberingChannel): EventEnvelope[] =>
  channel.of(FrameType.EVENT) as EventEnvelope[]
const numbered = (channel: RememberingChannel): (number | undefined)[] =>
  events(channel)
    .map((e) => e.event_seq)
    .filter((n) => n !== undefined)

/** A durable event that needs no kernel. */
function clear(peer: AttachedPeer): Promise<void> {
  const room = fixture.rooms.resident.get(peer.notebookId)
  if (!room) throw new Error('the room is not in memory')
  return room.commit({ statements: [], events: [{ type: 'cells_cleared', cell_ids: [] }] })
}

const edit = (peer: AttachedPeer, source: string): Promise<unknown> =>
  peer.request('edit', { operations: [{ op: 'set_source', cell_id: 'cell-0', source }] }, fixture.context())

test('a first attach gets OPENED, then pages, then live events', async () => {
  const channel = new RememberingChannel()
  const peer = await attach(channel)
  expect(channel.told[0]?.type).toBe(FrameType.OPENED)
  expect(opened(channel)).toMatchObject({ picture: 'projection', pages: true, cell_count: 3, peers_total: 1 })
  const page = pages(channel)[0]
  expect(page).toMatchObject({ kind: 'cells', start: 0, total: 3, last: true })
  await edit(peer, 'changed')
  expect(channel.told.at(-1)?.value).toMatchObject({ event: { type: 'cells', doc_seq: 1 } })
})

test('OPENED tells empty peers, queue and cells as data', async () => {
  const empty = fixture.notebook('empty.ipynb', [])
  const channel = new RememberingChannel()
  await fixture.rooms.attach(opening({ path: empty }, 'open'), fixture.context(), channel)
  expect(opened(channel)).toMatchObject({
    queued: [],
    queued_total: 0,
    running: null,
    kernel: null,
    cell_count: 0,
  })
  expect(pages(channel)).toMatchObject([{ kind: 'cells', total: 0, cells: [], last: true }])
})

test('resuming gives each missed event once, in order, also from a new daemon', async () => {
  const peer = await attach(new RememberingChannel())
  for (let i = 0; i < 5; i++) await clear(peer)
  Object.assign(fixture, { rooms: fixture.again() })
  const channel = new RememberingChannel()
  await attach(channel, { resume: { event_seq: 2, doc_seq: 0 } })
  expect(opened(channel)).toMatchObject({ picture: 'events', pages: false, event_seq: 5 })
  expect(numbered(channel)).toEqual([3, 4, 5])
  expect(pages(channel)).toEqual([])
})

test('resuming with nothing missed is current; with a changed document it gets pages and no gap', async () => {
  const peer = await attach(new RememberingChannel())
  await clear(peer)
  const same = new RememberingChannel()
  await attach(same, { resume: { event_seq: 1, doc_seq: 0 } })
  expect(opened(same)).toMatchObject({ picture: 'current', pages: false })
  await edit(peer, 'new text')
  const changed = new RememberingChannel()
  await attach(changed, { resume: { event_seq: 1, doc_seq: 0 } })
  expect(opened(changed)).toMatchObject({ picture: 'current', pages: true, doc_seq: 1 })
  const page = pages(changed)[0]
  expect(page?.kind === 'cells' && page.cells[0]?.source).toBe('new text')
  expect(events(changed).some((e) => e.event.type === 'gap')).toBe(false)
})

test('resuming from before what is kept gets one gap and a fresh projection', async () => {
  const peer = await attach(new RememberingChannel())
  const more = KEPT_EVENTS + 1_000
  const pending: Promise<unknown>[] = []
  for (let i = 0; i < more; i++) pending.push(clear(peer))
  await Promise.all(pending)
  const channel = new RememberingChannel()
  await attach(channel, { resume: { event_seq: 1, doc_seq: 0 } })
  expect(opened(channel).picture).toBe('projection')
  const gaps = events(channel).filter((e) => e.event.type === 'gap')
  expect(gaps).toMatchObject([{ event: { from: 2, to: more } }])
  expect(pages(channel).length).toBe(1)
  const late = new RememberingChannel()
  await attach(late, { resume: { event_seq: more - 100, doc_seq: 0 } })
  expect(numbered(late).length).toBe(100)
  const rows = fixture.store.get<{ n: number }>('SELECT count(*) AS n FROM events')
  expect(rows?.n).toBeLessThan(KEPT_EVENTS + 600)
})

test('a peer that reads too slowly is stale, and gets a gap and a fresh picture when it reads again', async () => {
  const slow = new RememberingChannel()
  const peer = await attach(slow)
  slow.told.length = 0
  slow.room = 1
  for (let i = 0; i < 4; i++) await clear(peer)
  await attach(new RememberingChannel())
  expect(numbered(slow)).toEqual([1])
  slow.room = Number.POSITIVE_INFINITY
  slow.writable()
  const shown = slow.told.slice(1).map(({ type }) => type)
  expect(shown.slice(0, 3)).toEqual([FrameType.OPENED, FrameType.EVENT, FrameType.PROJECTION])
  // It was never told of the other one.
  expect(opened(slow)).toMatchObject({ picture: 'projection', pages: true, event_seq: 4, peers_total: 2 })
  expect(events(slow).at(-1)?.event).toMatchObject({ type: 'gap', from: 2, to: 4 })
  expect(pages(slow).length).toBe(1)
  await clear(peer)
  expect(numbered(slow)).toEqual([1, 5])
})

test('what happens while pages are being sent comes behind them, once each', async () => {
  const slow = new RememberingChannel()
  slow.room = 0
  const peer = await attach(slow)
  expect(slow.told.map((t) => t.type)).toEqual([FrameType.OPENED])
  await clear(peer)
  await edit(peer, 'later')
  slow.room = Number.POSITIVE_INFINITY
  slow.writable()
  const order = slow.told.filter((t) => t.type !== FrameType.OPENED)
  expect(order[0]?.type).toBe(FrameType.PROJECTION)
  const page = pages(slow)[0]
  expect(page?.kind === 'cells' && page.cells[0]?.source).toBe('1')
  expect(numbered(slow)).toEqual([1])
  expect(events(slow).filter((e) => e.event.type === 'cells').length).toBe(1)
})
