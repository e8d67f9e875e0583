/** What a daemon finds of each kernel that the last one started: by its row, its folder, and what the operating system says of both. */
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { kernelFolder } from '../../daemon/kernel-host/folder.ts'
import { identify, type ProcessIdentity } from '../../daemon/kernel-host/process-identity.ts'
import { lookAtRow } from '../../daemon/kernels/adoption.ts'
import type { KernelRow } from '../../daemon/kernels/kernel-rows.ts'
import { KernelId, NotebookId } from '../../protocol/ids.ts'

const BOOT = 'this boot'
const temp = mkdtempSync(join(tmpdir(), 'roomd-adoption-'))
afterAll(() => rmSync(temp, { recursive: true }))

const alive = identify(process.pid)
const parent = identify(process.ppid)
const dead: ProcessIdentity = { pid: 2 ** 22 - 3, started: 1 }
/** Its pid has been given to another process since. */
const reused: ProcessIdentity = { pid: alive.pid, started: (alive.started ?? 0) + 1 }

interface Left {
  readonly host?: ProcessIdentity
  readonly kernel?: ProcessIdentity | null
  /** Of the row: what the daemon knew. */
  readonly row?: ProcessIdentity | null
  readonly boot?: string
  /** Instead of the host's record. */
  readonly text?: string
}

function find({ host, kernel = null, row = null, boot = BOOT, text }: Left) {
  const path = join(temp, randomUUID())
  mkdirSync(path)
  const record = host && { nonce: 'its own', host, kernel, socket: '/s', version: '0' }
  if (record) writeFileSync(kernelFolder(path).host, JSON.stringify(record))
  if (text !== undefined) writeFileSync(kernelFolder(path).host, text)
  const known: KernelRow = {
    kernelId: KernelId.parse(randomUUID()),
    notebookId: NotebookId.parse(randomUUID()),
    name: 'python3',
    language: 'python',
    nonce: 'of the row',
    socket: '/s',
    hostPid: null,
    pid: row?.pid ?? null,
    pidStarted: row?.started ?? null,
    machineBoot: boot,
    consumedSeq: 0,
    startedAt: 0,
  }
  return lookAtRow(known, path, BOOT)
}

test('a kernel whose host lives is taken over, with what the host itself says of both processes', () => {
  expect(find({ host: alive, kernel: parent, row: dead })).toEqual({
    kind: 'adopt',
    target: { process: alive, nonce: 'its own' },
    process: parent,
  })
})

test('a kernel that lives without its host is taken over: its host can be replaced', () => {
  expect(find({ host: dead, kernel: parent })).toMatchObject({ kind: 'adopt', process: parent })
  expect(find({ row: parent })).toMatchObject({
    kind: 'adopt',
    process: parent,
    target: { nonce: 'of the row' },
  })
})

test('processes that have ended, that another boot had, or whose pids are another’s by now, are gone, with the reason', () => {
  const ended = { kind: 'gone', reason: 'the kernel process ended while the daemon was away' }
  expect(find({ host: dead, kernel: dead, row: dead })).toEqual(ended)
  expect(find({ host: reused, kernel: reused })).toEqual(ended)
  expect(find({ host: alive, kernel: alive, boot: 'another boot' })).toEqual({
    kind: 'gone',
    reason: 'the machine was started anew since',
  })
  expect(find({})).toEqual({ kind: 'gone', reason: 'the daemon ended while it was starting the kernel' })
})

test('a host’s record that cannot be read is as good as none: the row is believed as far as its process is there', () => {
  for (const text of ['', '{"nonce": "half', '[]', '{"nonce": 1, "host": {}}']) {
    expect(find({ text, row: parent })).toMatchObject({ kind: 'adopt', process: parent })
    expect(find({ text, row: reused })).toMatchObject({ kind: 'gone' })
    expect(find({ text })).toMatchObject({ kind: 'gone' })
  }
})
