import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { MOST_MS, QUIET_MS, RETRY_MS } from '../../daemon/rooms/autosave.ts'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { smallDisk } from '../support/small-disk.ts'
import { until } from '../support/until.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
let path: string
let peer: AttachedPeer

beforeEach(async () => {
  fixture = await makeRooms()
  path = fixture.notebook('a.ipynb', ['0'])
  await attach()
})
afterEach(() => fixture.dispose())

async function attach(): Promise<void> {
  peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), new RememberingChannel())
}
const ask = <T = unknown>(method: Parameters<AttachedPeer['request']>[0], args: unknown = {}) =>
  peer.request(method, args, fixture.context()) as Promise<T>
const set = (source: string) => ask('edit', { operations: [{ op: 'set_source', cell_id: 'cell-0', source }] })
const onDisk = (): string =>
  (JSON.parse(readFileSync(path, 'utf8')) as { cells: { source: string }[] }).cells
    .map((cell) => cell.source)
    .join()
/** Resolves behind everything that autosave has begun. */
const settled = () => fixture.rooms.resident.get(peer.notebookId)?.source.look(false)
const written = (source: string) => until(`the file to say ${source}`, () => onDisk() === source)

describe('autosave', () => {
  test('waits for quiet, and for no more than its most', async () => {
    await set('1')
    fixture.clock.advance(QUIET_MS - 1)
    await settled()
    expect(onDisk()).toBe('0')
    fixture.clock.advance(1)
    await written('1')

    // Somebody types on and on: every second a change.
    for (let n = 0; n < MOST_MS / 1000 - 1; n++) {
      await set(`typing ${n}`)
      fixture.clock.advance(1000)
    }
    await settled()
    expect(onDisk()).toBe('1')
    await set('still typing')
    fixture.clock.advance(1000)
    await written('still typing')
  })

  test('writes nothing when nothing changed', async () => {
    const before = statSync(path)
    fixture.clock.advance(10 * MOST_MS)
    await set('1')
    await set('0')
    fixture.clock.advance(10 * MOST_MS)
    await settled()
    expect(statSync(path)).toMatchObject({ ino: before.ino, mtimeMs: before.mtimeMs })
  })

  test('is off and on as the room says, also for the next daemon', async () => {
    await ask('set_autosave', { autosave: 'off' })
    await set('1')
    fixture.clock.advance(10 * MOST_MS)
    await settled()
    expect(onDisk()).toBe('0')
    expect(await ask('source_status')).toMatchObject({ autosave: 'off', doc_seq: 1, saved_doc_seq: 0 })
    const rooms = fixture.again()
    peer = await rooms.attach(opening({ path }, 'open'), fixture.context(), new RememberingChannel())
    fixture.clock.advance(10 * MOST_MS)
    await rooms.resident.get(peer.notebookId)?.source.look(false)
    expect(onDisk()).toBe('0')
    await ask('set_autosave', { autosave: 'on' })
    fixture.clock.advance(QUIET_MS)
    await written('1')
  })

  test('paused: an edit ends the pause', async () => {
    await ask('set_autosave', { autosave: 'paused' })
    fixture.clock.advance(10 * MOST_MS)
    await set('1')
    fixture.clock.advance(QUIET_MS)
    await written('1')
    expect(await ask('source_status')).toMatchObject({ autosave: 'on' })
  })

  test('a room without a file is not saved, and closing a room saves what is not', async () => {
    peer = await fixture.rooms.attach(
      opening({ create: {} }, 'create'),
      fixture.context(),
      new RememberingChannel(),
    )
    await ask('edit', { operations: [{ op: 'create_cell', source: 'x', cell_type: 'code' }] })
    fixture.clock.advance(10 * MOST_MS)
    await settled()
    expect(await ask('source_status')).toMatchObject({ source_state: 'none', path: null })
    await attach()
    await set('1')
    await fixture.rooms.close(peer.notebookId)
    expect(onDisk()).toBe('1')
  })
})

describe('a file that cannot be written', () => {
  const fails = async (reason: RegExp) => {
    fixture.clock.advance(QUIET_MS)
    await until('autosave to say so', async () =>
      reason.test((await ask<{ reason?: string }>('source_status')).reason ?? ''),
    )
  }

  test('a full disk: file and edits are intact, the reason names path and cause, and it is tried again', async (test) => {
    const disk = smallDisk(2)
    if (disk === null) return test.skip('mounting a small tmpfs needs root')
    writeFileSync(join(disk.path, 'b.ipynb'), readFileSync(path))
    path = join(disk.path, 'b.ipynb')
    await attach()
    const before = readFileSync(path, 'utf8')
    disk.fill()
    await set('x'.repeat(20_000))
    await fails(/b\.ipynb.*disk is full/)
    expect(readFileSync(path, 'utf8')).toBe(before)
    await expect(ask('save')).rejects.toMatchObject({
      code: 'storage_full',
      message: expect.stringContaining(path),
    })
    expect(await ask('source_status')).toMatchObject({ source_state: 'ready', doc_seq: 1 })
    disk.free()
    fixture.clock.advance(RETRY_MS)
    await written('x'.repeat(20_000))
    expect(await ask('source_status')).not.toHaveProperty('reason')
  })

  test('a folder that is gone: the room stays, and is saved elsewhere', async () => {
    await set('1')
    const elsewhere = join(dirname(path), 'elsewhere.ipynb')
    await expect(ask('save', { path: join(dirname(path), 'no', 'folder.ipynb') })).rejects.toMatchObject({
      code: 'not_found',
    })
    await ask('save', { path: elsewhere })
    expect(existsSync(elsewhere)).toBe(true)
  })

  test('a read-only folder: what could not be written is named, and nothing is left behind', async (test) => {
    const folder = dirname(path)
    // Root may write everywhere but into what is marked immutable.
    const asRoot = process.getuid?.() === 0
    const open = (): void => {
      if (asRoot) spawnSync('chattr', ['-i', folder])
      else chmodSync(folder, 0o755)
    }
    onTestFinished(open)
    await set('1')
    if (!asRoot) chmodSync(folder, 0o555)
    else if (spawnSync('chattr', ['+i', folder]).status !== 0)
      return test.skip('root may write everywhere here')
    await fails(/no permission/)
    open()
    expect(onDisk()).toBe('0')
    fixture.clock.advance(RETRY_MS)
    await written('1')
  })
})
