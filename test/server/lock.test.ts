import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { takeLock } from '../../daemon/server/lock.ts'
import { LineReader } from '../support/line-reader.ts'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-lock-'))
  file = join(folder, 'daemon.lock')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Another process that takes the lock, says so, and starts a child that outlives it. */
function holder() {
  const script = `
    import Database from 'better-sqlite3'
    import { spawn } from 'node:child_process'
    const database = new Database(${JSON.stringify(file)}, { timeout: 0 })
    database.exec('BEGIN EXCLUSIVE')
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' })
    console.log('held ' + child.pid)
    setInterval(() => {}, 1000)
  `
  return spawn(process.execPath, ['--input-type=module', '-e', script], {
    cwd: join(import.meta.dirname, '../..'),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

test('the lock is had once and can be had again after it was released', () => {
  const lock = takeLock(file)
  expect(lock).not.toBeNull()
  lock?.release()
  lock?.release()
  const again = takeLock(file)
  expect(again).not.toBeNull()
  again?.release()
})

test('a lock that another process holds is not had, until that process is killed, whatever children it left', async () => {
  const process_ = holder()
  const line = await new LineReader(process_.stdout).next(/held/)
  const child = Number(line.split(' ')[1])
  try {
    expect(takeLock(file)).toBeNull()
    signal(process_.pid ?? 0, 'SIGKILL')
    const lock = await until('the lock to be free', () => takeLock(file))
    lock.release()
  } finally {
    signal(child, 'SIGKILL')
    await gone(child)
  }
})

test('a file that is no lock file is refused and left alone', () => {
  writeFileSync(file, 'this is not a database, and long enough to be looked at as one'.repeat(20))
  expect(() => takeLock(file)).toThrow(/cannot lock .*daemon\.lock/)
})
