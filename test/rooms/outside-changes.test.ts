import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { FrameType } from '../../protocol/frames.ts'
import { until } from '../support/until.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let path: string
let peer: AttachedPeer
let channel: RememberingChannel

beforeEach(async () => {
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['one', 'two', 'three'])
  await attach()
})

afterEach(() => fixture.dispose())

async function attach(rooms = fixture.rooms): Promise<void> {
  channel = new RememberingChannel()
  peer = await rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
}

const ask = <T = unknown>(method: Parameters<AttachedPeer['request']>[0], args: unknown = {}) =>
  peer.request(method, args, fixture.context()) as Promise<T>
const set = (cell_id: string, source: string) =>
  ask('edit', { operations: [{ op: 'set_source', cell_id, source }] })
const status = () =>
  ask<{ source_state: string; reason?: string; conflicts: unknown[]; warnings?: string[] }>('source_status')
const shown = async (): Promise<string[]> =>
  (await ask<{ cells: { source: string }[] }>('get_cells', { start: 0, count: 100 })).cells.map(
    ({ source }) => source,
  )
const onDisk = (at = path): string[] =>
  (JSON.parse(readFileSync(at, 'utf8')) as { cells: { source: string | string[] }[] }).cells.map(
    ({ source }) => [source].flat().join(''),
  )
/** Another program replaces a text in the file, as editors do: a new file in place of the old one. */
function outside(from: string, to: string): void {
  const text = readFileSync(path, 'utf8')
  if (!text.includes(from)) throw new Error(`the file has no ${from}`)
  writeFileSync(`${path}.new`, text.replace(from, to))
  renameSync(`${path}.new`, path)
}
const events = (type: string): Record<string, unknown>[] =>
  channel
    .of(FrameType.EVENT)
    .map((frame) => (frame as { event: Record<string, unknown> }).event)
    .filter((event) => event.type === type)
/** Lets the watch's pauses pass until the condition holds. */
const soon = (what: string, condition: () => boolean | Promise<boolean>) =>
  until(what, async () => {
    fixture.clock.advance(600)
    return condition()
  })

describe('a room that is as its file', () => {
  test('takes a change of the file as one edit by disk, and writes nothing', async () => {
    outside('"two"', '"two, by another program"')
    const bytes = readFileSync(path, 'utf8')
    await soon('the change', async () => (await shown())[1] === 'two, by another program')
    expect(events('cells').map(({ by }) => by)).toEqual(['disk'])
    expect(await status()).toMatchObject({ source_state: 'ready', conflicts: [] })
    fixture.clock.advance(60_000)
    expect(await ask('save')).toMatchObject({ outcome: 'already_current' })
    expect(readFileSync(path, 'utf8')).toBe(bytes)
  })

  test('hears of nothing when the file was only touched, or changed and changed back', async () => {
    const before = readFileSync(path)
    outside('"two"', '"2"')
    writeFileSync(path, before)
    writeFileSync(path, before)
    await soon('a look', async () => (await ask<{ outcome: string }>('save')).outcome === 'already_current')
    expect(events('cells')).toEqual([])
    expect(events('source')).toEqual([])
  })

  test('its own saves are no changes from outside', async () => {
    for (let n = 0; n < 5; n++) {
      await set('cell-0', `one ${n}`)
      expect(await ask('save')).toMatchObject({ outcome: 'saved' })
      fixture.clock.advance(1_000)
    }
    await ask('save')
    expect(events('cells').filter(({ by }) => by === 'disk')).toEqual([])
    expect(onDisk()).toEqual(['one 4', 'two', 'three'])
  })
})

describe('a room with edits that are not saved', () => {
  test('merges what is apart, line by line, and saves both', async () => {
    await set('cell-0', 'a\nb\nc')
    await ask('save')
    await set('cell-0', 'A\nb\nc')
    await set('cell-2', 'three, here')
    outside('a\\nb\\nc', 'a\\nb\\nC')
    expect(await ask('save')).toMatchObject({ outcome: 'saved' })
    expect(await shown()).toEqual(['A\nb\nC', 'two', 'three, here'])
    expect(onDisk()).toEqual(['A\nb\nC', 'two', 'three, here'])
  })

  test('autosave takes in the change of the file and then writes', async () => {
    await set('cell-0', 'one, here')
    outside('"three"', '"three, there"')
    await soon('autosave', () => onDisk().join() === 'one, here,two,three, there')
    expect(await shown()).toEqual(onDisk())
  })
})

describe('a conflict', () => {
  beforeEach(async () => {
    await set('cell-1', 'two, here')
    outside('"two"', '"two, there"')
    outside('"three"', '"three, there"')
    await expect(ask('save')).rejects.toMatchObject({
      code: 'source_conflict',
      next: { tool: 'reconcile_source' },
    })
  })

  test('takes what merges, keeps both sides of the rest, and tells all three texts', async () => {
    expect(await shown()).toEqual(['one', 'two, here', 'three, there'])
    expect(await status()).toMatchObject({
      source_state: 'conflict',
      reason: expect.stringContaining('1 cell'),
      conflicts: [{ cell_id: 'cell-1', base: 'two', room: 'two, here', disk: 'two, there' }],
    })
    expect(events('source')).toMatchObject([{ state: 'conflict' }])
    expect(onDisk()).toEqual(['one', 'two, there', 'three, there'])
  })

  test('closes the cell in conflict and autosave, and nothing else', async () => {
    for (const operation of [
      { op: 'set_source', cell_id: 'cell-1', source: 'x' },
      { op: 'delete_cell', cell_id: 'cell-1' },
      { op: 'move_cell', cell_id: 'cell-1', after_cell_id: null },
      { op: 'set_cell_metadata', cell_id: 'cell-1', metadata: { a: 1 } },
    ])
      await expect(ask('edit', { operations: [operation] })).rejects.toMatchObject({
        code: 'source_conflict',
      })
    await set('cell-0', 'one, edited meanwhile')
    fixture.clock.advance(60_000)
    expect(onDisk()).toEqual(['one', 'two, there', 'three, there'])
    const elsewhere = join(fixture.folder, 'b.ipynb')
    expect(await ask('save', { path: elsewhere })).toMatchObject({ outcome: 'saved', path: elsewhere })
    expect(onDisk(elsewhere)).toEqual(['one, edited meanwhile', 'two, here', 'three, there'])
  })

  test('survives a restart', async () => {
    const again = fixture.again()
    await attach(again)
    expect(await status()).toMatchObject({ source_state: 'conflict', conflicts: [{ disk: 'two, there' }] })
    await expect(set('cell-1', 'x')).rejects.toMatchObject({ code: 'source_conflict' })
  })

  test('keep room: the room’s text is written over the file’s', async () => {
    expect(await ask('reconcile_source', { keep: 'room' })).toEqual({ source_state: 'ready', changed: [] })
    await soon('autosave', () => onDisk()[1] === 'two, here')
    await set('cell-1', 'open again')
  })

  test('keep disk: the file’s text comes into the room', async () => {
    expect(await ask('reconcile_source', { keep: 'disk' })).toEqual({
      source_state: 'ready',
      changed: ['cell-1'],
    })
    expect(await shown()).toEqual(['one', 'two, there', 'three, there'])
    expect(await ask('save')).toMatchObject({ outcome: 'already_current' })
  })

  test('keep both: the file’s version follows the room’s, marked', async () => {
    const { changed } = await ask<{ changed: string[] }>('reconcile_source', { keep: 'both' })
    expect(changed).toHaveLength(1)
    expect(await shown()).toEqual(['one', 'two, here', 'two, there', 'three, there'])
    expect(await ask('get_cell', { cell_id: changed[0] })).toMatchObject({
      cell: { metadata: { roomd: { conflict: 'disk' } } },
    })
    await ask('save')
    expect(onDisk()).toEqual(['one', 'two, here', 'two, there', 'three, there'])
  })

  test('ends by itself when the file comes round to what the room has', async () => {
    outside('"two, there"', '"two, here"')
    await soon('the end', async () => (await status()).source_state === 'ready')
    await set('cell-1', 'open again')
  })
})

test('a cell deleted here and changed there: both ways back', async () => {
  const conflict = async () => {
    await ask('edit', { operations: [{ op: 'delete_cell', cell_id: 'cell-1' }] })
    outside('"two"', '"two, there"')
    await expect(ask('save')).rejects.toMatchObject({ code: 'source_conflict' })
    expect((await status()).conflicts).toEqual([
      { cell_id: 'cell-1', base: 'two', room: null, disk: 'two, there' },
    ])
  }
  await conflict()
  await ask('reconcile_source', { keep: 'disk' })
  expect(await shown()).toEqual(['one', 'two, there', 'three'])
  outside('"two, there"', '"two"')
  await ask('save')
  await conflict()
  await ask('reconcile_source', { keep: 'room' })
  await ask('save')
  expect(onDisk()).toEqual(['one', 'three'])
})

describe('a file that is no notebook just now', () => {
  test('is waited for; edits go on, saving does not, and once it is one again all is merged', async () => {
    const before = readFileSync(path, 'utf8')
    writeFileSync(path, `<<<<<<< HEAD\n${before}`)
    await soon('the state', async () => (await status()).source_state === 'modified_outside')
    expect((await status()).reason).toContain('line 1')
    await set('cell-0', 'one, here')
    await expect(ask('save')).rejects.toMatchObject({ code: 'source_conflict' })
    fixture.clock.advance(60_000)
    expect(readFileSync(path, 'utf8')).toContain('<<<<<<<')
    writeFileSync(path, before.replace('"three"', '"three, there"'))
    await soon('the merge', () => onDisk().join() === 'one, here,two,three, there')
    expect(await status()).toMatchObject({ source_state: 'ready' })
  })

  test('may be given up: keep room writes over it', async () => {
    writeFileSync(path, 'no notebook')
    await expect(ask('save')).rejects.toMatchObject({ code: 'source_conflict' })
    await expect(ask('reconcile_source', { keep: 'disk' })).rejects.toMatchObject({ code: 'source_conflict' })
    expect(await ask('reconcile_source', { keep: 'room' })).toMatchObject({ source_state: 'ready' })
    await soon('autosave', () => readFileSync(path, 'utf8') !== 'no notebook')
    expect(onDisk()).toEqual(['one', 'two', 'three'])
  })
})

describe('a file that moves', () => {
  test('is followed within its folder and to one nearby', async () => {
    const room = (await status()) as unknown as { notebook_id: string }
    const renamed = join(dirname(path), 'renamed.ipynb')
    renameSync(path, renamed)
    await soon('the new name', () => events('source').some((event) => event.path === renamed))
    const moved = join(dirname(path), 'below', 'renamed.ipynb')
    mkdirSync(dirname(moved))
    renameSync(renamed, moved)
    await soon('the new folder', () => events('source').some((event) => event.path === moved))
    await set('cell-0', 'one, moved')
    await ask('save')
    expect(onDisk(moved)).toEqual(['one, moved', 'two', 'three'])
    expect(readdirSync(dirname(path)).filter((name) => name.endsWith('.ipynb'))).toEqual([])
    path = moved
    await attach()
    expect(await status()).toMatchObject({
      notebook_id: room.notebook_id,
      path: moved,
      source_state: 'ready',
    })
  })

  test('is not taken for another that stands in its place', async () => {
    const other = fixture.notebook('other.ipynb', ['one', 'two', 'three'])
    rmSync(path)
    await soon('the loss', async () => (await status()).source_state === 'missing')
    expect(await status()).toMatchObject({ path })
    expect(onDisk(other)).toEqual(['one', 'two', 'three'])
  })
})

test('a file without write permission is read-only, says so, and opens up with it', async () => {
  chmodSync(path, 0o444)
  await expect(ask('save')).rejects.toMatchObject({ code: 'source_degraded' })
  expect(await status()).toMatchObject({ source_state: 'read_only' })
  await expect(set('cell-0', 'x')).rejects.toMatchObject({ code: 'source_degraded' })
  chmodSync(path, 0o644)
  await soon('permission', async () => (await status()).source_state === 'ready')
  await set('cell-0', 'x')
  await ask('save')
  expect(onDisk()).toEqual(['x', 'two', 'three'])
  expect(statSync(path).mode & 0o777).toBe(0o644)
})

test('what happened while no daemon ran is merged when the room is loaded', async () => {
  await set('cell-0', 'one, here')
  await fixture.rooms.shutdown({ kernels: false })
  expect(onDisk()[0]).toBe('one, here')
  outside('"three"', '"three, there"')
  await attach(fixture.again())
  expect(await shown()).toEqual(['one, here', 'two', 'three, there'])
})
