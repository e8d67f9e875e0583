import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let path: string
let peer: AttachedPeer

beforeEach(async () => {
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['1'])
  peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), new RememberingChannel())
  await ask('edit', { operations: [{ op: 'create_cell', source: 'of the room', cell_type: 'code' }] })
})

afterEach(() => fixture.dispose())

const ask = (method: Parameters<AttachedPeer['request']>[0], args: unknown) =>
  peer.request(method, args, fixture.context())
const sources = () =>
  (JSON.parse(readFileSync(path, 'utf8')) as { cells: { source: string | string[] }[] }).cells.map(
    ({ source }) => [source].flat().join(''),
  )

test('a file that was deleted while open: the first save says so, the next writes it anew', async () => {
  rmSync(path)
  await expect(ask('save', {})).rejects.toMatchObject({
    code: 'source_conflict',
    message: expect.stringContaining('save again'),
  })
  expect(await ask('source_status', {})).toMatchObject({ source_state: 'missing' })
  expect(existsSync(path)).toBe(false)
  expect(await ask('save', {})).toMatchObject({ outcome: 'saved' })
  expect(sources()).toEqual(['1', 'of the room'])
  expect(await ask('source_status', {})).toMatchObject({ source_state: 'ready' })
})

test('a deleted file is not written anew by itself', async () => {
  rmSync(path)
  fixture.clock.advance(60_000)
  await ask('reconcile_source', { keep: 'room' }).catch(() => {})
  fixture.clock.advance(60_000)
  await ask('edit', { operations: [{ op: 'create_cell', source: 'more', cell_type: 'code' }] })
  fixture.clock.advance(60_000)
  expect(await ask('source_status', {})).toMatchObject({ source_state: 'missing' })
  expect(existsSync(path)).toBe(false)
})

test.each(['room', 'disk', 'both'] as const)(
  'a file that was in conflict and then deleted: reconciling with %s says so, and saving writes it anew',
  async (keep) => {
    await ask('edit', { operations: [{ op: 'set_source', cell_id: 'cell-0', source: '1 here' }] })
    writeFileSync(path, readFileSync(path, 'utf8').replace('"1"', '"1 there"'))
    await expect(ask('save', {})).rejects.toMatchObject({ code: 'source_conflict' })
    rmSync(path)
    await expect(ask('reconcile_source', { keep })).rejects.toMatchObject({ code: 'not_found' })
    expect(await ask('source_status', {})).toMatchObject({ source_state: 'missing' })
    expect(await ask('save', {})).toMatchObject({ outcome: 'saved' })
    expect(sources()).toEqual(['1 here', 'of the room'])
    expect(await ask('source_status', {})).toMatchObject({ source_state: 'ready', conflicts: [] })
  },
)

test('a file that comes back as it was is in order again', async () => {
  const before = readFileSync(path)
  rmSync(path)
  await expect(ask('save', {})).rejects.toMatchObject({ code: 'source_conflict' })
  writeFileSync(path, before)
  expect(await ask('save', {})).toMatchObject({ outcome: 'saved' })
  expect(sources()).toEqual(['1', 'of the room'])
})
