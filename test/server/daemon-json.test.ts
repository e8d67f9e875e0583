import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeDaemonJson, writeDaemonJson } from '../../daemon/server/daemon-json.ts'
import { BootId } from '../../protocol/ids.ts'

const ours = BootId.parse('11111111-1111-4111-8111-111111111111')
const theirs = BootId.parse('22222222-2222-4222-8222-222222222222')
let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-json-'))
  file = join(folder, 'daemon.json')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const content = (boot_id: BootId) => ({
  pid: 7,
  boot_id,
  version: '1',
  socket: '/s',
  http: null,
  http_port: null,
  started_at: 5,
})

test('it replaces what was there and leaves nothing else behind', () => {
  writeFileSync(file, 'torn {')
  writeDaemonJson(file, content(ours))
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(content(ours))
  expect(readdirSync(folder)).toEqual(['daemon.json'])
  expect(statSync(file).mode & 0o777).toBe(0o600)
})

test('it is removed by the daemon it tells of and by no other', () => {
  writeDaemonJson(file, content(theirs))
  removeDaemonJson(file, ours)
  expect(existsSync(file)).toBe(true)
  removeDaemonJson(file, theirs)
  expect(existsSync(file)).toBe(false)
  removeDaemonJson(file, theirs)
})
