/** A file that gets another name while it is open, or has several: one file is one room, and what is known of it is not forgotten. */
import {
  chownSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { until } from '../support/until.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let folder: string
let path: string

beforeAll(async () => {
  fixture = await makeRooms()
})
afterAll(() => fixture.dispose())
beforeEach((context) => {
  folder = join(fixture.folder, context.task.id)
  mkdirSync(folder)
  path = fixture.notebook(join(context.task.id, `${context.task.id}.ipynb`), ['one', 'two'])
})

const attach = (target: object, mode: 'open' | 'create' = 'open'): Promise<AttachedPeer> =>
  fixture.rooms.attach(opening(target, mode), fixture.context(), new RememberingChannel())
const open = (at = path): Promise<AttachedPeer> => attach({ path: at })
const ask = <T = unknown>(peer: AttachedPeer, method: Parameters<AttachedPeer['request']>[0], args = {}) =>
  peer.request(method, args, fixture.context()) as Promise<T>
const status = (peer: AttachedPeer) =>
  ask<{ source_state: string; path: string; reason?: string; conflicts: unknown[] }>(peer, 'source_status')
const set = (peer: AttachedPeer, source: string) =>
  ask(peer, 'edit', { operations: [{ op: 'set_source', cell_id: 'cell-0', source }] })
const onDisk = (at = path): string => readFileSync(at, 'utf8')
/** Lets the watch's pauses pass until the source is in this state. */
const becomes = (peer: AttachedPeer, state: object) =>
  until(JSON.stringify(state), async () => {
    fixture.clock.advance(600)
    expect(await status(peer)).toMatchObject(state)
    return true
  })

test('a folder that is renamed takes its room along, also two levels up; a kernel would start there', async () => {
  mkdirSync(join(folder, 'project', 'src'), { recursive: true })
  renameSync(path, join(folder, 'project', 'src', 'n.ipynb'))
  const peer = await open(join(folder, 'project', 'src', 'n.ipynb'))
  renameSync(join(folder, 'project'), join(folder, 'renamed'))
  const moved = join(folder, 'renamed', 'src', 'n.ipynb')
  await becomes(peer, { path: moved, source_state: 'ready' })
  const { record } = await fixture.rooms.byId(peer.notebookId)
  expect(record.working_dir).toBe(join(folder, 'renamed', 'src'))
  await set(peer, 'saved there')
  await ask(peer, 'save')
  expect(onDisk(moved)).toContain('saved there')
})

test('a folder that is renamed, with a link in its place: both names are the room that was there', async () => {
  mkdirSync(join(folder, 'project'))
  renameSync(path, join(folder, 'project', 'n.ipynb'))
  const peer = await open(join(folder, 'project', 'n.ipynb'))
  renameSync(join(folder, 'project'), join(folder, 'renamed'))
  symlinkSync('renamed', join(folder, 'project'))
  // Nothing of the file itself changed, so that nothing was noticed yet.
  expect((await open(join(folder, 'renamed', 'n.ipynb'))).notebookId).toBe(peer.notebookId)
  expect((await open(join(folder, 'project', 'n.ipynb'))).notebookId).toBe(peer.notebookId)
  expect(await status(peer)).toMatchObject({ path: join(folder, 'renamed', 'n.ipynb') })
})

test('a file that is moved into a store, with a link in its place, stays the room’s', async () => {
  const peer = await open()
  mkdirSync(join(folder, 'store'))
  renameSync(path, join(folder, 'store', 'x.ipynb'))
  symlinkSync('store/x.ipynb', path)
  expect((await open()).notebookId).toBe(peer.notebookId)
  await set(peer, 'into the store')
  await ask(peer, 'save')
  expect(lstatSync(path).isSymbolicLink()).toBe(true)
  expect(onDisk(join(folder, 'store', 'x.ipynb'))).toContain('into the store')
})

test('a file that is replaced by a link to another room’s file is not written through it; the link away, all goes on', async () => {
  const other = fixture.notebook(`other-${path.split('/').at(-2)}.ipynb`, ['of another room'])
  const theirs = await open(other)
  const peer = await open()
  const bytes = onDisk()
  rmSync(path)
  symlinkSync(other, path)
  await becomes(peer, { path, source_state: 'degraded' })
  expect((await status(peer)).reason).toContain(theirs.notebookId)
  await expect(set(peer, 'no')).rejects.toMatchObject({ code: 'source_degraded' })
  await expect(ask(peer, 'save')).rejects.toMatchObject({ code: 'source_degraded' })
  expect((await open()).notebookId).toBe(theirs.notebookId)
  rmSync(path)
  writeFileSync(path, bytes)
  await becomes(peer, { path, source_state: 'ready' })
})

test('a new notebook at a link to nowhere yet is made where the link points', async () => {
  mkdirSync(join(folder, 'data'))
  symlinkSync('data/real.ipynb', join(folder, 'link.ipynb'))
  const peer = await attach({ create: { path: join(folder, 'link.ipynb') } }, 'create')
  expect(await status(peer)).toMatchObject({ path: join(folder, 'data', 'real.ipynb') })
  expect(lstatSync(join(folder, 'link.ipynb')).isSymbolicLink()).toBe(true)
  expect(JSON.parse(onDisk(join(folder, 'link.ipynb')))).toMatchObject({ cells: [] })
})

test('edits made while the file was away are saved by themselves once it is back', async () => {
  const peer = await open()
  const bytes = onDisk()
  rmSync(path)
  await becomes(peer, { source_state: 'missing' })
  await set(peer, 'made meanwhile')
  fixture.clock.advance(20_000)
  writeFileSync(path, bytes)
  await becomes(peer, { source_state: 'ready' })
  await until('the save', () => {
    fixture.clock.advance(600)
    return onDisk().includes('made meanwhile')
  })
})

test('a conflict goes with a file that moves: nothing is written over either side before it is settled', async () => {
  const peer = await open()
  await set(peer, 'here')
  writeFileSync(path, onDisk().replace('"one"', '"there"'))
  await becomes(peer, { source_state: 'conflict' })
  const moved = join(folder, 'moved.ipynb')
  renameSync(path, moved)
  await becomes(peer, { path: moved, source_state: 'conflict' })
  fixture.clock.advance(60_000)
  await expect(ask(peer, 'save')).rejects.toMatchObject({ code: 'source_conflict' })
  expect(onDisk(moved)).toContain('there')
  expect(await status(peer)).toMatchObject({ conflicts: [{ room: 'here', disk: 'there' }] })
})

test('a file in conflict that turns into no notebook and is given up leaves no cell closed', async () => {
  const peer = await open()
  await set(peer, 'here')
  writeFileSync(path, onDisk().replace('"one"', '"there"'))
  await becomes(peer, { source_state: 'conflict' })
  writeFileSync(path, 'no notebook')
  await becomes(peer, { source_state: 'modified_outside' })
  await ask(peer, 'reconcile_source', { keep: 'room' })
  await set(peer, 'here again')
  await ask(peer, 'save')
  expect(onDisk()).toContain('here again')
})

test('a file of an old format that is away for a while is read-only before, meanwhile and after', async () => {
  const old = { metadata: {}, nbformat: 3, nbformat_minor: 0, worksheets: [{ cells: [], metadata: {} }] }
  writeFileSync(path, JSON.stringify(old))
  const peer = await open()
  const edit = () =>
    ask(peer, 'edit', { operations: [{ op: 'insert_cell', after_cell_id: null, cell: { source: 'x' } }] })
  const bytes = onDisk()
  rmSync(path)
  await becomes(peer, { source_state: 'missing' })
  await expect(edit()).rejects.toMatchObject({ code: 'source_degraded' })
  writeFileSync(path, bytes)
  await becomes(peer, { source_state: 'read_only', reason: 'nbformat 3' })
  await expect(edit()).rejects.toMatchObject({ code: 'source_degraded' })
})

test('a file of somebody else that root saves stays his', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('only root may give files away')
  chownSync(path, 12_345, 23_456)
  const peer = await open()
  await set(peer, 'by root')
  await ask(peer, 'save')
  expect(onDisk()).toContain('by root')
  expect(statSync(path)).toMatchObject({ uid: 12_345, gid: 23_456 })
})

test('cells that lack ids are told until the first save writes them', async () => {
  const text = onDisk().replaceAll(/ *"id": "cell-\d",\n/g, '')
  expect(text).not.toContain('"id"')
  writeFileSync(path, text)
  const peer = await open()
  const warnings = async () => (await ask<{ warnings?: string[] }>(peer, 'source_status')).warnings
  expect(await warnings()).toHaveLength(2)
  await ask(peer, 'save')
  expect(onDisk()).toContain('"id"')
  expect(await warnings()).toBeUndefined()
})
