/** Rooms that nobody uses leave memory, and come back as they were; whatever is not settled stays. */
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { removeUnfinished } from '../../daemon/rooms/storing.ts'
import { RESIDENT_MS, RESIDENT_ROOMS } from '../../daemon/rooms/upkeep.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import { until } from '../support/until.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture

beforeEach(async () => {
  fixture = await makeRooms()
})
afterEach(() => fixture.dispose())

async function attach(target: object, mode: 'open' | 'attach' = 'open') {
  const channel = new RememberingChannel()
  const peer = await fixture.rooms.attach(opening(target, mode), fixture.context(), channel)
  await room(peer)?.settled()
  return { peer, opened: channel.of(FrameType.OPENED)[0] as { doc_seq: number; event_seq: number } }
}

const room = (peer: AttachedPeer) => fixture.rooms.resident.get(peer.notebookId)
const ask = (peer: AttachedPeer, method: Parameters<AttachedPeer['request']>[0], args: unknown) =>
  peer.request(method, args, fixture.context())
const write = (peer: AttachedPeer, source: string) =>
  ask(peer, 'edit', { operations: [{ op: 'set_source', cell_id: 'cell-0', source }] })

const resident = (peer: AttachedPeer): boolean => room(peer) !== undefined

/** A day and a sweep later, once what the clock set off is over. */
async function aDayLater(): Promise<void> {
  fixture.clock.advance(RESIDENT_MS + 1)
  await Promise.all([...fixture.rooms.resident.values()].map((one) => one.source.flush()))
  fixture.rooms.sweep()
}

/** Without autosave: what is not saved stays so. */
async function unsaved(name: string): Promise<{ peer: AttachedPeer; path: string }> {
  const path = fixture.notebook(name, ['one', 'two'])
  const { peer } = await attach({ path })
  await ask(peer, 'set_autosave', { autosave: 'off' })
  await write(peer, 'changed here')
  return { peer, path }
}

test('a room that nobody used for a day is gone from memory, and comes back by path and by id with its counters', async () => {
  const { peer, path } = await unsaved('a.ipynb')
  await ask(peer, 'save', {})
  peer.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(false)
  expect(fixture.rooms.counts()).toMatchObject({ rooms: 0, peers: 0 })

  const byPath = await attach({ path })
  expect(byPath.peer.notebookId).toBe(peer.notebookId)
  const { doc_seq, event_seq } = byPath.opened
  expect(doc_seq).toBe(1)
  await write(byPath.peer, 'changed again')
  expect(room(byPath.peer)?.docSeq).toBe(2)
  await ask(byPath.peer, 'save', {})
  byPath.peer.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(false)

  const byId = await attach({ notebook_id: peer.notebookId }, 'attach')
  expect(byId.opened.doc_seq).toBe(2)
  expect(byId.opened.event_seq).toBeGreaterThanOrEqual(event_seq)
  expect(
    room(byId.peer)
      ?.document.cells(0, 9)
      .map((cell) => cell.source),
  ).toEqual(['changed again', 'two'])
})

test('of rooms used today the newest stay', async () => {
  const peers: AttachedPeer[] = []
  for (let i = 0; i < RESIDENT_ROOMS + 3; i++) {
    fixture.clock.advance(1)
    const { peer } = await attach({ path: fixture.notebook(`${i}.ipynb`, ['x']) })
    peers.push(peer)
    peer.detach('done')
  }
  fixture.rooms.sweep()
  expect(peers.map((peer) => room(peer) !== undefined)).toEqual(peers.map((_, i) => i >= 3))
})

test('a room with a peer stays, and so does one that is between look-up and attach', async () => {
  const { peer } = await attach({ path: fixture.notebook('peer.ipynb', ['x']) })
  const { peer: left } = await attach({ path: fixture.notebook('held.ipynb', ['x']) })
  const release = room(left)?.reserve()
  left.detach('done')
  // Long ago, by what their rows say; the clock stands, so that nobody is silent for too long.
  for (const one of fixture.rooms.resident.values()) one.record.touched_at = 0
  fixture.rooms.sweep()
  expect([peer, left].map(resident)).toEqual([true, true])
  release?.()
  fixture.rooms.sweep()
  expect([peer, left].map(resident)).toEqual([true, false])
})

test('a room whose change is on its way to the store stays until it is there', async () => {
  const { peer, path } = await unsaved('pending.ipynb')
  await ask(peer, 'save', {})
  fixture.clock.advance(RESIDENT_MS + 1)
  const committed = room(peer)?.commit({
    statements: [],
    events: [{ type: 'notice', text: 'something was lost' }],
  })
  const pending = room(peer)?.record
  if (pending) pending.touched_at = 0
  peer.detach('done')
  fixture.rooms.sweep()
  expect(resident(peer)).toBe(true)
  await committed
  // The time that went by had it look at its file, which may not be over yet.
  await until('the room to leave memory', () => {
    const record = room(peer)?.record
    if (record) record.touched_at = 0
    fixture.rooms.sweep()
    return !resident(peer)
  })
  expect(readFileSync(path, 'utf8')).toContain('changed here')
})

test('a room with edits that its file lacks stays until they are saved', async () => {
  const { peer, path } = await unsaved('unsaved.ipynb')
  peer.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(true)
  const { peer: back } = await attach({ path })
  await ask(back, 'save', {})
  back.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(false)
})

test('a room in conflict with its file stays until it is settled which side stays', async () => {
  const { peer, path } = await unsaved('conflict.ipynb')
  writeFileSync(path, readFileSync(path, 'utf8').replace('"one"', '"changed there"'))
  await room(peer)?.source.look(false)
  expect(room(peer)?.record.source.state).toBe('conflict')
  // Also when the counters say that all of the room is in the file.
  const record = room(peer)?.record
  if (record) record.saved_doc_seq = record.doc_seq
  peer.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(true)

  const { peer: back } = await attach({ path })
  await ask(back, 'reconcile_source', { keep: 'both' })
  await ask(back, 'save', {})
  back.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(false)
  const { peer: again } = await attach({ path })
  const sources = room(again)
    ?.document.cells(0, 9)
    .map((cell) => cell.source)
  expect(sources).toEqual(['changed here', 'changed there', 'two'])
})

test('what another program wrote while the room was away is in it when it comes back', async () => {
  const path = fixture.notebook('away.ipynb', ['one', 'two'])
  const { peer } = await attach({ path })
  peer.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(false)
  writeFileSync(path, readFileSync(path, 'utf8').replace('"two"', '"two, elsewhere"'))
  const { peer: back } = await attach({ notebook_id: peer.notebookId }, 'attach')
  expect(back.notebookId).toBe(peer.notebookId)
  expect(
    room(back)
      ?.document.cells(0, 9)
      .map((cell) => cell.source),
  ).toEqual(['one', 'two, elsewhere'])
})

test('many who ask for a room that is away get one room', async () => {
  const path = fixture.notebook('many.ipynb', ['one'])
  const { peer } = await attach({ path })
  peer.detach('done')
  await aDayLater()
  const targets = [{ path }, { notebook_id: peer.notebookId }, { path }, { notebook_id: peer.notebookId }]
  const back = await Promise.all(
    targets.map((target) => attach(target, 'path' in target ? 'open' : 'attach')),
  )
  expect(new Set(back.map((one) => one.peer.notebookId))).toEqual(new Set([peer.notebookId]))
  expect(room(peer)?.peers.size).toBe(4)
})

/** A notebook with so many outputs that its room is stored in several transactions. */
function largeNotebook(): { path: string; sources: string[] } {
  const path = fixture.notebook('large.ipynb', [])
  const cells = Array.from({ length: 400 }, (_, i) => ({
    cell_type: 'code',
    execution_count: i,
    id: `cell-${i}`,
    metadata: {},
    outputs: [{ output_type: 'stream', name: 'stdout', text: `${i}\n` }],
    source: `# ${i} ${'x'.repeat(400)}`,
  }))
  writeFileSync(path, JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 }))
  return { path, sources: cells.map((cell) => cell.source) }
}

async function shown(peer: AttachedPeer): Promise<{ source: string; outputs: unknown[] }[]> {
  const { cells } = (await ask(peer, 'get_cells', { start: 0, count: 1000 })) as {
    cells: { source: string; outputs: unknown[] }[]
  }
  return cells
}

test('a large room comes back with all of its cells and outputs', async () => {
  const { path, sources } = largeNotebook()
  const { peer } = await attach({ path })
  await write(peer, 'changed')
  await ask(peer, 'save', {})
  peer.detach('done')
  await aDayLater()
  expect(resident(peer)).toBe(false)
  const { peer: back } = await attach({ path })
  expect(back.notebookId).toBe(peer.notebookId)
  const cells = await shown(back)
  expect(cells.map((cell) => cell.source)).toEqual(['changed', ...sources.slice(1)])
  expect(cells.every((cell) => cell.outputs.length === 1)).toBe(true)
})

test('a large room whose making fails half way, or was cut short by a crash, leaves nothing', async () => {
  await fixture.dispose()
  let left = 4
  fixture = await makeRooms((store) => ({
    all: (sql, ...values) => store.all(sql, ...values),
    get: (sql, ...values) => store.get(sql, ...values),
    write: (unit) =>
      left-- > 0 ? store.write(unit) : Promise.reject(new RoomdError('storage_full', 'the disk is full')),
    writeShared: (unit, packed) =>
      left-- > 0
        ? store.writeShared(unit, packed)
        : Promise.reject(new RoomdError('storage_full', 'the disk is full')),
    settled: () => store.settled(),
    health: () => store.health(),
    close: () => store.close(),
  }))
  const { path, sources } = largeNotebook()
  // Its first page may be shown before.
  const reading = attach({ path }).then(({ peer }) => ask(peer, 'get_cells', { start: 0, count: 1 }))
  await expect(reading).rejects.toMatchObject({ code: 'storage_full' })
  const rows = () => fixture.store.all<{ path: string | null }>('SELECT path FROM rooms')
  // What could not be removed either names no path, is in no list, and is gone with the next start.
  expect(rows()).toEqual([{ path: null }])
  left = Number.POSITIVE_INFINITY
  const listed = await fixture.rooms.request('list_rooms', { inactive: true, limit: 9 }, fixture.context())
  expect(listed).toEqual({ rooms: [] })
  await removeUnfinished(fixture.store)
  expect(rows()).toEqual([])
  expect(fixture.store.all('SELECT 1 FROM executions')).toEqual([])

  const { peer } = await attach({ path })
  expect((await shown(peer)).map((cell) => cell.source)).toEqual(sources)
  expect(rows()).toEqual([{ path }])
})
