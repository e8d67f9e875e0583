import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture

beforeEach(async () => {
  fixture = await makeRooms()
})

afterEach(() => fixture.dispose())

const create = (wanted: object): Promise<AttachedPeer> =>
  fixture.rooms.attach(opening({ create: wanted }, 'create'), fixture.context(), new RememberingChannel())

test('creating at a path writes an empty notebook there, once for a repeated mutation', async () => {
  const path = join(fixture.folder, 'new.ipynb')
  const first = await create({ path, mutation_id: 1 })
  const text = readFileSync(path, 'utf8')
  expect(JSON.parse(text)).toMatchObject({ nbformat: 4, nbformat_minor: 5, cells: [] })
  Object.assign(fixture, { rooms: fixture.again() })
  const again = await create({ path, mutation_id: 1 })
  expect(again.notebookId).toBe(first.notebookId)
  expect(readFileSync(path, 'utf8')).toBe(text)
})

test('creating where a file or a room is already is a conflict, names the call that helps, and changes nothing', async () => {
  const path = fixture.notebook('there.ipynb', ['1'])
  const before = readFileSync(path, 'utf8')
  await expect(create({ path })).rejects.toMatchObject({
    code: 'conflict',
    next: { tool: 'connect_notebook', arguments: { path } },
  })
  expect(readFileSync(path, 'utf8')).toBe(before)

  const gone = join(fixture.folder, 'gone.ipynb')
  const room = await create({ path: gone })
  rmSync(gone)
  await expect(create({ path: gone })).rejects.toMatchObject({
    code: 'conflict',
    next: { tool: 'connect_notebook', arguments: { notebook_id: room.notebookId } },
  })
  expect(existsSync(gone)).toBe(false)
})

test('creating in a folder that does not exist makes no room', async () => {
  await expect(create({ path: join(fixture.folder, 'no', 'such', 'a.ipynb') })).rejects.toMatchObject({
    code: 'not_found',
  })
  expect(fixture.store.get<{ n: number }>('SELECT count(*) AS n FROM rooms')?.n).toBe(0)
})

test('of many who create at one path at once one makes it, and the others are told that it is there', async () => {
  const path = join(fixture.folder, 'new.ipynb')
  const ended = await Promise.allSettled(Array.from({ length: 10 }, () => create({ path })))
  expect(ended.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const each of ended)
    if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'conflict' })
  expect(existsSync(path)).toBe(true)
  expect(fixture.store.all('SELECT 1 FROM rooms WHERE path = ?', path)).toHaveLength(1)
})
