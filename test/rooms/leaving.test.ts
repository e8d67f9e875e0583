import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Store, WriteUnit } from '../../daemon/store/store.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
/** Called at every write and read of the store: the steps of attaching that can be told apart from outside. */
let step: () => void = () => {}
/** What every write waits for before it is made. */
let held: Promise<void> = Promise.resolve()

beforeEach(async () => {
  fixture = await makeRooms(
    (store): Store => ({
      all: (sql, ...values) => {
        step()
        return store.all(sql, ...values)
      },
      get: (sql, ...values) => {
        step()
        return store.get(sql, ...values)
      },
      write: async (unit: WriteUnit) => {
        step()
        await held
        await store.write(unit)
        step()
      },
      writeShared: async (unit, packed) => {
        await held
        await store.writeShared(unit, packed)
      },
      settled: () => store.settled(),
      health: () => store.health(),
      close: () => store.close(),
    }),
  )
})

afterEach(() => fixture.dispose())

/** Attaches and aborts at step `n`; true when attaching had that many steps. */
async function leaveAt(n: number, target: () => { target: object; mode: 'open' | 'attach' | 'create' }) {
  const abort = new AbortController()
  const channel = new RememberingChannel()
  let count = 0
  step = () => {
    if (++count === n) abort.abort()
  }
  const context = fixture.context('leaving-instance', { signal: abort.signal })
  const { target: wanted, mode } = target()
  const open = opening(wanted, mode, { activation_generation: n })
  const peer = await fixture.rooms.attach(open, context, channel).catch(() => null)
  // A server that finds its channel gone detaches what it was given.
  if (peer) {
    if (abort.signal.aborted) peer.detach('the channel is gone')
    else peer.detach('done')
  }
  step = () => {}
  await Promise.all([...fixture.rooms.resident.values()].map((room) => room.settled()))
  expect(fixture.rooms.counts().peers).toBe(0)
  for (const room of fixture.rooms.resident.values()) expect(room.peers.size).toBe(0)
  return n <= count
}

test('leaving at every step of opening a file leaves zero peers', async () => {
  let made = 0
  for (let n = 1; ; n++) {
    const path = fixture.notebook(`n${n}.ipynb`, ['1', '2'])
    if (!(await leaveAt(n, () => ({ target: { path }, mode: 'open' })))) break
    made++
  }
  expect(made).toBeGreaterThan(4)
})

test('leaving at every step of attaching to a room that is not in memory leaves zero peers', async () => {
  const path = fixture.notebook('stored.ipynb', ['1'])
  const peer = await fixture.rooms.attach(
    opening({ path }, 'open'),
    fixture.context(),
    new RememberingChannel(),
  )
  peer.detach('done')
  let made = 0
  for (let n = 1; ; n++) {
    Object.assign(fixture, { rooms: fixture.again() })
    if (!(await leaveAt(n, () => ({ target: { notebook_id: peer.notebookId }, mode: 'attach' })))) break
    made++
  }
  expect(made).toBeGreaterThan(2)
})

test('leaving between attaching and the commit it waits behind shows nothing and leaves zero peers', async () => {
  const path = fixture.notebook('busy.ipynb', ['1'])
  const open = opening({ path }, 'open')
  const editor = await fixture.rooms.attach(open, fixture.context(), new RememberingChannel())
  let release = () => {}
  held = new Promise((resolve) => (release = resolve))
  const edit = editor.request(
    'edit',
    { operations: [{ op: 'create_cell', source: 'x', cell_type: 'code' }] },
    fixture.context(),
  )
  const channel = new RememberingChannel()
  const late = await fixture.rooms.attach(open, fixture.context('second-instance'), channel)
  late.detach('gone before it was shown anything')
  release()
  await edit
  expect(channel.told).toEqual([])
  editor.detach('done')
  expect(fixture.rooms.counts().peers).toBe(0)
})

test('detaching twice releases once', async () => {
  const path = fixture.notebook('twice.ipynb', ['1'])
  const open = opening({ path }, 'open')
  const one = await fixture.rooms.attach(open, fixture.context(), new RememberingChannel())
  const two = await fixture.rooms.attach(open, fixture.context(), new RememberingChannel())
  one.detach('first')
  one.detach('again')
  expect(fixture.rooms.counts().peers).toBe(1)
  two.detach('done')
  expect(fixture.rooms.counts().peers).toBe(0)
})
