/** A store that was damaged came back without some rows of a room: its file says the rest, and is never written over with less. */
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let path: string
let id: string
let peer: AttachedPeer

beforeEach(async () => {
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['one', 'two'])
  const file = JSON.parse(onDisk())
  file.cells[1].outputs = [{ output_type: 'stream', name: 'stdout', text: ['hello'] }]
  writeFileSync(path, JSON.stringify({ ...file, unknown: { kept: true } }, null, 4))
  await attach(fixture.rooms)
  id = peer.notebookId
  await fixture.rooms.shutdown({ kernels: false })
})
afterEach(() => fixture.dispose())

const onDisk = (): string => readFileSync(path, 'utf8')
const ask = <T = unknown>(method: Parameters<AttachedPeer['request']>[0], args = {}) =>
  peer.request(method, args, fixture.context()) as Promise<T>
const edit = (cell_id: string, source: string) =>
  ask('edit', { operations: [{ op: 'set_source', cell_id, source }] })
async function attach(rooms = fixture.again()): Promise<void> {
  peer = await rooms.attach(opening({ path }, 'open'), fixture.context(), new RememberingChannel())
}
const lose = (...tables: string[]) =>
  fixture.store.write(tables.map((table) => ({ sql: `DELETE FROM ${table}`, values: [] })))

test('without the text last read: of a file that is as it was, everything but the edit stays', async () => {
  await lose('sources')
  const before = onDisk()
  await attach()
  await edit('cell-0', 'edited')
  await ask('save')
  expect(onDisk()).toBe(before.replace('"one"', '"edited"'))
})

test('without the text last read: of a file that changed, what differs is in conflict', async () => {
  await lose('sources')
  writeFileSync(path, onDisk().replace('"two"', '"two, outside"'))
  await attach()
  expect(await ask('source_status')).toMatchObject({
    source_state: 'conflict',
    conflicts: [{ cell_id: 'cell-1', base: null, room: 'two', disk: 'two, outside' }],
  })
  await expect(ask('save')).rejects.toMatchObject({ code: 'source_conflict' })
})

test('without the middle of the document: nothing that the file holds is written over unseen', async () => {
  await attach()
  for (const source of ['onea', 'oneab', 'oneabc']) await edit('cell-0', source)
  await ask('save')
  const before = onDisk()
  expect(before).toContain('oneabc')
  await fixture.rooms.shutdown({ kernels: false })
  await fixture.store.write([{ sql: 'DELETE FROM doc_updates WHERE doc_seq = 2', values: [] }])
  await attach()
  expect(await ask('source_status')).toMatchObject({
    source_state: 'conflict',
    conflicts: [{ cell_id: 'cell-0', room: 'onea', disk: 'oneabc' }],
  })
  await ask('reconcile_source', { keep: 'disk' })
  await edit('cell-1', 'goes on')
  await ask('save')
  expect(onDisk()).toBe(before.replace('"two"', '"goes on"'))
})

test('with updates of a document whose beginning is lost: the room begins anew from its file', async () => {
  await attach()
  await edit('cell-0', 'edited')
  await ask('save')
  const before = onDisk()
  await fixture.rooms.shutdown({ kernels: false })
  await lose('doc_snapshots')
  await attach()
  await edit('cell-1', 'goes on')
  await ask('save')
  expect(onDisk()).toBe(before.replace('"two"', '"goes on"'))
})

test('without the document: the room begins anew from its file, under the same id, with its outputs', async () => {
  await lose('doc_snapshots', 'doc_slices', 'doc_updates', 'sources', 'executions')
  const before = onDisk()
  await attach()
  expect(peer.notebookId).toBe(id)
  const { cells } = await ask<{ cells: object[] }>('get_cells', { start: 0, count: 9 })
  expect(cells).toMatchObject([{ source: 'one' }, { source: 'two', outputs: [{ text: 'hello' }] }])
  expect(await ask('save')).toMatchObject({ outcome: 'already_current' })
  await edit('cell-0', 'edited')
  await ask('save')
  expect(onDisk()).toBe(before.replace('"one"', '"edited"'))
})
