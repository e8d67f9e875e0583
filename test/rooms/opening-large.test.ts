import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import type { Opened } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Cell, Readiness } from '../../protocol/notebook.ts'
import { until } from '../support/until.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
/** Until it resolves, nothing of large notebooks is written. */
let gate: Promise<void>
let openGate: () => void
/** The disk is full: nothing is written. */
let full: boolean

beforeEach(async () => {
  gate = Promise.resolve()
  full = false
  fixture = await makeRooms((store) => ({
    all: (sql, ...values) => store.all(sql, ...values),
    get: (sql, ...values) => store.get(sql, ...values),
    write: (unit) => (full ? Promise.reject(new RoomdError('storage_full', 'no space')) : store.write(unit)),
    writeShared: async (unit, packed) => {
      await gate
      if (full) throw new RoomdError('storage_full', 'no space')
      await store.writeShared(unit, packed)
    },
    settled: () => store.settled(),
    health: () => store.health(),
    close: () => store.close(),
  }))
})
afterEach(() => fixture.dispose())

function closeGate(): void {
  gate = new Promise((resolve) => {
    openGate = resolve
  })
}

const CELLS = 500
/** Cells that show a picture, which becomes a blob: one of the first page, one far behind it. */
const PICTURES = [3, 400]
const source = (i: number): string => `print(${i}) # ${'x'.repeat(300)}`

function largeFile(change: (text: string) => string = (text) => text): string {
  const path = join(fixture.folder, 'large.ipynb')
  const cells = Array.from({ length: CELLS }, (_, i) => ({
    cell_type: 'code',
    execution_count: i,
    id: `cell-${i}`,
    metadata: {},
    outputs: PICTURES.includes(i)
      ? [{ output_type: 'display_data', data: { 'image/png': 'iVBORw0K'.repeat(2000) }, metadata: {} }]
      : [{ name: 'stdout', output_type: 'stream', text: [`${i}\n`] }],
    source: source(i),
  }))
  writeFileSync(path, change(JSON.stringify({ cells, metadata: { a: 1 }, nbformat: 4, nbformat_minor: 5 })))
  return path
}

interface Page {
  readonly start: number
  readonly cells: Cell[]
  readonly total: number
  readonly doc_seq: number
  readonly last: boolean
}

const pages = (channel: RememberingChannel): Page[] =>
  channel.of(FrameType.PROJECTION).filter((page) => (page as { kind: string }).kind === 'cells') as Page[]
const openedOf = (channel: RememberingChannel): Opened => channel.of(FrameType.OPENED)[0] as Opened
const readiness = (channel: RememberingChannel): Readiness[] => channel.of(FrameType.READINESS) as Readiness[]
const rooms = () => fixture.store.all<{ path: string | null }>('SELECT path FROM rooms')

async function attach(target: object, mode: 'open' | 'attach' = 'open', registry = fixture.rooms) {
  const channel = new RememberingChannel()
  const peer = await registry.attach(opening(target, mode), fixture.context(), channel)
  return { channel, peer }
}

const edit = (peer: AttachedPeer, cell_id: string, text: string) =>
  peer.request('edit', { operations: [{ op: 'set_source', cell_id, source: text }] }, fixture.context())

/** The picture that begins anew when the room is there. */
async function wholePicture(channel: RememberingChannel): Promise<Cell[]> {
  await until('the whole picture', () => pages(channel).some((page) => page.last))
  const all = pages(channel)
  const begin = all.findLastIndex((page) => page.start === 0)
  return all.slice(begin).flatMap((page) => page.cells)
}

test('the first page with its outputs is shown before anything large is stored; what is asked meanwhile waits and is done', async () => {
  closeGate()
  const { channel, peer } = await attach({ path: largeFile() })
  expect(openedOf(channel)).toMatchObject({
    cell_count: CELLS,
    metadata: { a: 1 },
    picture: 'projection',
    peers_total: 1,
    peer_id: peer.peerId,
    readiness: { projection: 'ready', document: 'syncing', source: { state: 'loading' } },
  })
  const [first] = pages(channel)
  expect(first).toMatchObject({ start: 0, total: CELLS, last: false, doc_seq: 0 })
  expect(first?.cells[7]).toMatchObject({
    cell_id: 'cell-7',
    source: source(7),
    execution: { execution_count: 7, status: 'done' },
    outputs: [{ text: '7\n' }],
  })
  const picture = { data: { 'image/png': { blob: expect.any(String), size: 12_000 } } }
  expect(first?.cells[3]?.outputs).toMatchObject([picture])
  expect(rooms()).toEqual([{ path: null }])
  expect(fixture.rooms.counts()).toMatchObject({ peers: 1 })

  const edited = edit(peer, 'cell-2', 'changed')
  let answered = false
  edited.then(() => {
    answered = true
  })
  const again = await attach({ path: largeFile() })
  expect(again.peer.notebookId).toBe(peer.notebookId)
  expect(answered).toBe(false)

  openGate()
  expect(await edited).toMatchObject({ doc_seq: 1 })
  expect(readiness(channel)[0]).toMatchObject({ document: 'interactive', source: { state: 'ready' } })
  const cells = await wholePicture(channel)
  expect(cells.map((cell) => cell.source)).toEqual(Array.from({ length: CELLS }, (_, i) => source(i)))
  expect(cells.map((cell) => cell.outputs.length)).toEqual(Array.from({ length: CELLS }, () => 1))
  for (const i of PICTURES) expect(cells[i]?.outputs).toMatchObject([picture])
  // What was shown early has the names under which it is stored.
  const shown = first?.cells.map((cell) => cell.execution?.execution_id)
  expect(cells.slice(0, shown?.length).map((cell) => cell.execution?.execution_id)).toEqual(shown)
  // What waited behind the picture comes with the next turn of the loop.
  const edits = () =>
    (channel.of(FrameType.EVENT) as { event: { type: string } }[]).filter(
      ({ event }) => event.type === 'cells',
    )
  await until('the edit', () => edits().length > 0)
  expect(edits()).toHaveLength(1)
  expect(rooms()).toEqual([{ path: again.peer && openedOf(channel).path }])
  expect(fixture.rooms.resident.get(peer.notebookId)?.peers.size).toBe(2)
})

test('a file that turns out to be broken behind its first page is refused with the place, and leaves no room', async () => {
  const path = largeFile((text) => text.replace('"id":"cell-450"', '"id":cell-450'))
  const before = readFileSync(path, 'utf8')
  const { channel, peer } = await attach({ path })
  expect(pages(channel)[0]?.cells[0]?.source).toBe(source(0))
  const reading = peer.request('get_cells', { start: 0, count: 1 }, fixture.context())
  await expect(reading).rejects.toMatchObject({
    code: 'invalid_argument',
    detail: { path, at: 'cells[450].id' },
  })
  expect(channel.closed).toBe('invalid_argument')
  await until('its row to go', () => rooms().length === 0)
  expect(fixture.store.all('SELECT 1 FROM executions')).toEqual([])
  expect(fixture.rooms.counts()).toMatchObject({ rooms: 0, peers: 0 })
  expect(readFileSync(path, 'utf8')).toBe(before)

  const next = await attach({ path: largeFile() })
  expect(await wholePicture(next.channel)).toHaveLength(CELLS)
})

test('a file of which only the whole can be read is opened all the same, and nothing of it is there twice', async () => {
  const { channel } = await attach({ path: largeFile((text) => text.replace('"id":"cell-450",', '')) })
  const cells = await wholePicture(channel)
  expect(cells.map((cell) => cell.source)).toEqual(Array.from({ length: CELLS }, (_, i) => source(i)))
  expect(cells.map((cell) => cell.outputs.length)).toEqual(Array.from({ length: CELLS }, () => 1))
  expect(cells.filter((cell) => !/^cell-\d+$/.test(cell.cell_id))).toHaveLength(1)
  expect(fixture.store.all('SELECT 1 FROM executions')).toHaveLength(CELLS)
  expect(readiness(channel)[0]).toMatchObject({ document: 'interactive', source: { state: 'ready' } })
})

test('what a full disk keeps from being removed of a failed making is removed later, and what is being made is left alone', async () => {
  closeGate()
  const { channel, peer } = await attach({ path: largeFile() })
  full = true
  openGate()
  await until('it to fail', () => channel.closed !== null)
  expect(channel.closed).toBe('storage_full')
  await until('its end', () => fixture.rooms.counts().peers === 0)
  expect(rooms()).toEqual([{ path: null }])
  const gone = attach({ notebook_id: peer.notebookId }, 'attach')
  await expect(gone).rejects.toMatchObject({ code: 'notebook_unavailable' })
  full = false

  closeGate()
  const path = largeFile()
  const next = await attach({ path })
  await until('its row', () => rooms().length === 2)
  await fixture.rooms.forgetOld()
  expect(rooms()).toEqual([{ path: null }])
  openGate()
  expect(await wholePicture(next.channel)).toHaveLength(CELLS)
  expect(rooms()).toEqual([{ path: openedOf(next.channel).path }])
})

test('who leaves while it loads is nobody in the room', async () => {
  closeGate()
  const path = largeFile()
  const [stays, leaves] = [await attach({ path }), await attach({ path })]
  const asked = edit(leaves.peer, 'cell-1', 'never')
  leaves.peer.detach('gone')
  leaves.peer.detach('gone')
  await expect(asked).rejects.toMatchObject({ code: 'outcome_unknown' })
  expect(fixture.rooms.counts()).toMatchObject({ peers: 1 })
  openGate()
  const cells = await wholePicture(stays.channel)
  expect(cells[1]?.source).toBe(source(1))
  expect(fixture.rooms.counts()).toMatchObject({ rooms: 1, peers: 1 })
  stays.peer.detach('gone')
  expect(fixture.rooms.counts()).toMatchObject({ peers: 0 })
})

test('what is called off while it loads is not done', async () => {
  closeGate()
  const { channel, peer } = await attach({ path: largeFile() })
  const aborted = new AbortController()
  const operations = [{ op: 'set_source', cell_id: 'cell-1', source: 'never' }]
  const asked = peer.request(
    'edit',
    { operations },
    fixture.context('test-instance', { signal: aborted.signal }),
  )
  aborted.abort(new Error('called off'))
  openGate()
  await expect(asked).rejects.toThrow('called off')
  expect((await wholePicture(channel))[1]?.source).toBe(source(1))
})

test('who asks by its id or path while it is stored, and until it is in memory, gets the same room', async () => {
  closeGate()
  const path = largeFile()
  const { channel, peer } = await attach({ path })
  const { notebookId } = peer
  const found = fixture.rooms.findRecord(path)
  const byId = await attach({ notebook_id: notebookId }, 'attach')
  const resuming = new RememberingChannel()
  const open = opening({ notebook_id: notebookId }, 'attach', { resume: { event_seq: 0, doc_seq: 0 } })
  const resumed = fixture.rooms.attach(open, fixture.context(), resuming)
  openGate()
  // Asked for in every turn of the loop until it is there; on a slow machine those are very many.
  let there = false
  until('the whole picture', () => pages(channel).some((page) => page.last)).finally(() => {
    there = true
  })
  const asked: ReturnType<typeof attach>[] = []
  for (; !there; await new Promise<void>((resolve) => setImmediate(resolve)))
    if (asked.length < 300) asked.push(attach({ notebook_id: notebookId }, 'attach'))
  const channels = [channel, byId.channel, resuming, ...(await Promise.all(asked)).map((one) => one.channel)]
  await resumed
  expect((await found).notebook_id).toBe(notebookId)
  expect(fixture.rooms.counts()).toMatchObject({ rooms: 1, peers: channels.length })
  await edit(peer, 'cell-1', 'seen by all')
  const told = (one: RememberingChannel): boolean =>
    one.of(FrameType.EVENT).some((event) => (event as { event: { type: string } }).event.type === 'cells')
  await until('all to be told', () => channels.every(told))
})

test('what OPENED of a loading room told and is no more so comes with a second OPENED', async () => {
  const made = await attach({ path: largeFile() })
  await wholePicture(made.channel)
  made.peer.detach('done')
  await fixture.rooms.shutdown({ kernels: false })
  const path = largeFile((text) => text.replace('"metadata":{"a":1}', '"metadata":{"a":2}'))

  const again = fixture.again()
  const leaves = await attach({ path }, 'open', again)
  const { channel, peer } = await attach({ path }, 'open', again)
  leaves.peer.detach('gone')
  await wholePicture(channel)
  expect(channel.of(FrameType.OPENED)).toMatchObject([
    { metadata: { a: 1 }, peer_id: peer.peerId, peers_total: 2, readiness: { source: { state: 'loading' } } },
    { metadata: { a: 2 }, peer_id: peer.peerId, peers_total: 1, readiness: { source: { state: 'ready' } } },
  ])
  expect((channel.of(FrameType.OPENED)[1] as Opened).peers.map((one) => one.peer_id)).toEqual([peer.peerId])
})

test('from the store the first page comes from the snapshot, and the picture behind it has what was edited since', async () => {
  const made = await attach({ path: largeFile() })
  await edit(made.peer, 'cell-2', 'changed')
  made.peer.detach('done')
  await fixture.rooms.shutdown({ kernels: false })

  const { channel, peer } = await attach({ notebook_id: made.peer.notebookId }, 'attach', fixture.again())
  expect(openedOf(channel)).toMatchObject({ doc_seq: 1, readiness: { source: { state: 'loading' } } })
  expect(pages(channel)[0]).toMatchObject({ doc_seq: 0, total: CELLS, last: false })
  expect(pages(channel)[0]?.cells[3]?.outputs).toHaveLength(1)
  const cells = await wholePicture(channel)
  expect(cells[2]).toMatchObject({ source: 'changed' })
  expect(cells.map((cell) => cell.outputs.length)).toEqual(Array.from({ length: CELLS }, () => 1))
  expect(await edit(peer, 'cell-3', 'too')).toMatchObject({ doc_seq: 2 })
})

test('a large document that was folded is loaded in slices of its new snapshot', async () => {
  const made = await attach({ path: largeFile() })
  const long = (i: number): string => String.fromCharCode(97 + i).repeat(700_000)
  for (let i = 0; i < 5; i++) await edit(made.peer, 'cell-49', long(i))
  const slices = () =>
    fixture.store.get<{ doc_seq: number; slices: number }>(
      'SELECT doc_seq, (SELECT count(*) FROM doc_slices) AS slices FROM doc_snapshots',
    )
  // The first one that is due is small enough to be written whole; a later one is not.
  await until('the snapshot in slices', () => (slices()?.doc_seq ?? 0) > 2 && (slices()?.slices ?? 0) > 5)
  made.peer.detach('done')
  await fixture.rooms.shutdown({ kernels: false })

  const { channel } = await attach({ notebook_id: made.peer.notebookId }, 'attach', fixture.again())
  const [first] = pages(channel)
  expect(first?.doc_seq).toBeGreaterThan(0)
  const cells = await wholePicture(channel)
  expect(cells).toHaveLength(CELLS)
  expect(cells[49]?.source).toBe(long(4))
  expect(cells[50]?.source).toBe(source(50))
})
