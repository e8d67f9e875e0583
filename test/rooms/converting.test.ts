import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { FrameType } from '../../protocol/frames.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture
beforeEach(async () => {
  fixture = await makeRooms()
})
afterEach(() => fixture.dispose())

const old = JSON.stringify({
  nbformat: 3,
  nbformat_minor: 0,
  metadata: { name: 'Old' },
  worksheets: [
    {
      metadata: {},
      cells: [
        { cell_type: 'heading', level: 1, source: 'Title', metadata: {} },
        {
          cell_type: 'code',
          language: 'python',
          input: '1 + 1',
          prompt_number: 3,
          metadata: {},
          collapsed: false,
          outputs: [{ output_type: 'pyout', prompt_number: 3, text: '2', metadata: {} }],
        },
      ],
    },
  ],
})

async function open(
  target: object,
  mode: 'open' | 'create' = 'open',
  more: object = {},
): Promise<AttachedPeer> {
  return fixture.rooms.attach(opening(target, mode, more), fixture.context(), new RememberingChannel())
}
const ask = <T = unknown>(
  peer: AttachedPeer,
  method: Parameters<AttachedPeer['request']>[0],
  args: unknown = {},
) => peer.request(method, args, fixture.context()) as Promise<T>
const cells = async (peer: AttachedPeer) =>
  (
    await ask<{ cells: { cell_id: string; source: string; outputs: unknown[] }[] }>(peer, 'get_cells', {
      start: 0,
      count: 100,
    })
  ).cells

test('an old file is read-only until it is converted; cells and outputs are the same ones before and after', async () => {
  const path = join(fixture.folder, 'old.ipynb')
  writeFileSync(path, old)
  const peer = await open({ path })
  expect(await ask(peer, 'source_status')).toMatchObject({ source_state: 'read_only', reason: 'nbformat 3' })
  await expect(
    ask(peer, 'edit', { operations: [{ op: 'create_cell', source: '', cell_type: 'code' }] }),
  ).rejects.toMatchObject({ code: 'source_degraded' })
  await expect(ask(peer, 'save')).rejects.toMatchObject({ code: 'source_degraded' })
  const before = await cells(peer)
  expect(before.map(({ source }) => source)).toEqual(['# Title', '1 + 1'])
  expect(readFileSync(path, 'utf8')).toBe(old)

  const again = await open({ path, convert: true })
  expect(again.notebookId).toBe(peer.notebookId)
  expect(await ask(peer, 'source_status')).toMatchObject({ source_state: 'ready' })
  expect(await cells(again)).toEqual(before)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: {},
    cells: [
      { id: before[0]?.cell_id },
      { id: before[1]?.cell_id, outputs: [{ output_type: 'execute_result' }] },
    ],
  })
  await ask(again, 'edit', {
    operations: [{ op: 'set_source', cell_id: before[1]?.cell_id, source: '2 + 2' }],
  })
  expect(await ask(again, 'save')).toMatchObject({ outcome: 'saved' })
})

test('converting needs an owner, and changes nothing of a file that is of format 4', async () => {
  const path = join(fixture.folder, 'old.ipynb')
  writeFileSync(path, old)
  await expect(open({ path, convert: true }, 'open', { scope: 'viewer' })).rejects.toMatchObject({
    code: 'forbidden',
  })
  expect(readFileSync(path, 'utf8')).toBe(old)
  const four = fixture.notebook('four.ipynb', ['1'])
  const bytes = readFileSync(four, 'utf8')
  await open({ path: four, convert: true })
  expect(readFileSync(four, 'utf8')).toBe(bytes)
})

test('an old file can be saved elsewhere in the new format, and stays as it is', async () => {
  const path = join(fixture.folder, 'old.ipynb')
  writeFileSync(path, old)
  const peer = await open({ path })
  const elsewhere = join(fixture.folder, 'new.ipynb')
  await ask(peer, 'save', { path: elsewhere })
  expect(readFileSync(path, 'utf8')).toBe(old)
  expect(JSON.parse(readFileSync(elsewhere, 'utf8'))).toMatchObject({ nbformat: 4, nbformat_minor: 5 })
  expect(await ask(peer, 'source_status')).toMatchObject({ source_state: 'ready', path: elsewhere })
})

test('a file without ids keeps what nobody knows, and its outputs, however often a cell is edited and saved', async () => {
  const path = join(fixture.folder, 'four.ipynb')
  const file = `{"cells": [
  {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [{"output_type": "stream", "name": "stdout", "text": "caf\\u00e9"}], "execution_count": 7, "mine": 1e-05}
 ], "metadata": {}, "nbformat": 4, "nbformat_minor": 2}`
  writeFileSync(path, file)
  const peer = await open({ path })
  const cell_id = (await cells(peer))[0]?.cell_id
  for (const source of ['x = 2', 'x = 3', 'x = 4']) {
    await ask(peer, 'edit', { operations: [{ op: 'set_source', cell_id, source }] })
    await ask(peer, 'save')
    expect(readFileSync(path, 'utf8')).toBe(file.replace('x = 1', source))
  }
  // Also for the next daemon, and when another program edits the very cell.
  const rooms = fixture.again()
  writeFileSync(path, readFileSync(path, 'utf8').replace('x = 4', 'x = 5'))
  const next = await rooms.attach(opening({ path }, 'open'), fixture.context(), new RememberingChannel())
  expect(await cells(next)).toMatchObject([{ cell_id, source: 'x = 5', outputs: [{ text: 'café' }] }])
})

test('a clone has the cells and the metadata of its original, no outputs, and a life of its own', async () => {
  const path = join(fixture.folder, 'four.ipynb')
  writeFileSync(
    path,
    JSON.stringify({
      cells: [
        {
          cell_type: 'code',
          source: 'x',
          metadata: { k: 1 },
          outputs: [{ output_type: 'stream', name: 'stdout', text: '1' }],
          execution_count: 1,
          mine: true,
        },
      ],
      metadata: { kernelspec: { name: 'k', display_name: 'K' }, unknown: { deep: 1 } },
      nbformat: 4,
      nbformat_minor: 4,
      top: 'kept',
    }),
  )
  const original = await open({ path })
  await ask(original, 'edit', {
    operations: [{ op: 'create_cell', source: 'not saved', cell_type: 'markdown' }],
  })
  const copy = join(fixture.folder, 'copy.ipynb')
  const clone = await open({ create: { clone_of: original.notebookId, path: copy } }, 'create')
  expect(clone.notebookId).not.toBe(original.notebookId)
  expect((await cells(clone)).map(({ source, outputs }) => [source, outputs])).toEqual([
    ['x', []],
    ['not saved', []],
  ])
  expect(JSON.parse(readFileSync(copy, 'utf8'))).toMatchObject({
    top: 'kept',
    nbformat_minor: 4,
    metadata: { unknown: { deep: 1 } },
    cells: [{ mine: true, outputs: [], execution_count: null, metadata: { k: 1 } }, {}],
  })
  await ask(clone, 'edit', { operations: [{ op: 'create_cell', source: 'mine', cell_type: 'code' }] })
  expect(await cells(original)).toHaveLength(2)

  const channel = new RememberingChannel()
  await fixture.rooms.attach(
    opening({ create: { clone_of: original.notebookId } }, 'create'),
    fixture.context(),
    channel,
  )
  expect(channel.of(FrameType.OPENED)).toMatchObject([
    { path: null, title: 'Copy of four.ipynb', cell_count: 2 },
  ])
  await expect(
    open({ create: { clone_of: '00000000-0000-4000-8000-000000000000' } }, 'create'),
  ).rejects.toMatchObject({ code: 'notebook_unavailable' })
})
