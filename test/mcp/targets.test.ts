import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { MutationBlock } from '../../client/mcp/mutation-block.ts'
import { cellUri, parseUri } from '../../client/mcp/resources/uri.ts'
import { noSessionError } from '../../client/mcp/sessions/drop.ts'
import { MAX_PARKED, type Parked, ParkedSessions } from '../../client/mcp/sessions/parked.ts'
import { keyOf, parseTarget, textOf } from '../../client/mcp/sessions/target.ts'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-targets-')))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const id = '82de1f24-5b6c-4811-9b74-1eb2082fde7c'

test('uuid_and_path_recovery_targets_are_distinct', () => {
  expect(parseTarget(id, folder)).toEqual({ kind: 'id', id })
  expect(parseTarget(id.toUpperCase(), folder)).toEqual({ kind: 'id', id })
  expect(parseTarget(`./${id}`, folder)).toEqual({ kind: 'path', path: join(folder, id) })
})

test('relative paths, symlinks and file URLs name one file', () => {
  mkdirSync(join(folder, 'real'))
  writeFileSync(join(folder, 'real', 'n.ipynb'), '{}')
  symlinkSync(join(folder, 'real'), join(folder, 'link'))
  const keys = [
    'real/n.ipynb',
    'link/n.ipynb',
    './real/../real/n.ipynb',
    `file://${folder}/real/n.ipynb`,
  ].map((text) => keyOf(parseTarget(text, folder)))
  expect(new Set(keys).size).toBe(1)
})

test('a remote target keeps its URL, and its token is no part of which one it is', () => {
  const target = parseTarget(`wss://host:8443/?notebook=${id}&token=secret`, folder)
  expect(textOf(target)).toBe(`wss://host:8443/?notebook=${id}&token=secret`)
  expect(keyOf(target)).toBe(`remote:wss://host:8443/#${id}`)
  expect(() => parseTarget('wss://host/', folder)).toThrow(/names no notebook/)
})

test('parked sessions: at most 8, the least recently used goes first', () => {
  const parked = new ParkedSessions()
  const one = (n: number): Parked => ({
    notebook_id: `n${n}`,
    path: null,
    target: { kind: 'path', path: `/${n}` },
    boot_id: 'b',
    doc_seq: 0,
    event_seq: 0,
    newestQueuedAt: 0,
    open: new Map(),
  })
  for (let n = 0; n < MAX_PARKED; n++) parked.add(one(n))
  parked.add(one(0)) // used again
  parked.add(one(100))
  expect(parked.all.map((entry) => entry.notebook_id)).toEqual([
    'n2',
    'n3',
    'n4',
    'n5',
    'n6',
    'n7',
    'n0',
    'n100',
  ])
})

test('an error without a session names reason, id, path and the call that brings it back', () => {
  const error = noSessionError({
    reason: 'evicted',
    notebook_id: id,
    path: '/a.ipynb',
    target: { kind: 'path', path: '/a.ipynb' },
    message: 'the room was closed',
  })
  expect(error.code).toBe('notebook_unavailable')
  expect(error.message).toContain('the room was closed')
  expect(error.detail).toEqual({ reason: 'evicted', notebook_id: id, path: '/a.ipynb' })
  expect(error.next).toEqual({ tool: 'connect_notebook', arguments: { path: '/a.ipynb' } })
})

test('mutation ids of one call: steps from the bottom, what is outside their order from the top', () => {
  const block = new MutationBlock(640)
  expect([block.next(), block.next(), block.spare()?.id, block.spare()?.id]).toEqual([640, 641, 703, 702])
  const alone = new MutationBlock(undefined)
  expect([alone.next(), alone.spare()]).toEqual([undefined, { id: undefined }])
})

test('resource names survive the way there and back', () => {
  expect(parseUri(cellUri(id, 'a/b c%'))).toEqual({ kind: 'cell', notebookId: id, cellId: 'a/b c%' })
  expect(parseUri('roomd://notebooks')).toEqual({ kind: 'notebooks' })
  expect(parseUri('roomd://executions/e/outputs/2')).toEqual({ kind: 'output', executionId: 'e', index: 2 })
  for (const uri of [
    'roomd://notebooks/x',
    'roomd://executions/e/outputs/x',
    'file:///a',
    'roomd://notebooks/%/cells',
  ])
    expect(parseUri(uri)).toBeNull()
})
