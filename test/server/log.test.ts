import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type DaemonLog, openLog } from '../../daemon/server/log.ts'

let folder: string
let file: string
let log: DaemonLog | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-log-'))
  file = join(folder, 'daemon.log')
})
afterEach(() => {
  log?.close()
  log = undefined
  rmSync(folder, { recursive: true, force: true })
})
const open = (level = 'info') => {
  log = openLog(file, level)
  return log.logger
}

test('lines are there when the call returns', () => {
  open().info({ room: 7 }, 'hello')
  const line = JSON.parse(readFileSync(file, 'utf8'))
  expect(line).toMatchObject({ level: 'info', room: 7, msg: 'hello', pid: process.pid })
})

test('secrets are masked: as fields, in nested fields, in texts and in errors', () => {
  const logger = open()
  logger.info(
    { env: { GITHUB_TOKEN: 'abc1', list: [{ api_key: 'abc2' }] }, password: 'abc3', NAME: 'shown' },
    'x',
  )
  logger.warn('started with AWS_SECRET_ACCESS_KEY=abc4 and GET /?token=abc5&x=1')
  logger.error({ err: new Error('DB_PASSWORD=abc6 is wrong') }, 'failed')
  const text = readFileSync(file, 'utf8')
  expect(text).not.toMatch(/abc\d/)
  expect(text).toContain('shown')
  expect(text).toContain('x=1')
  expect(text).toContain('log.test.ts')
})

test('a large log becomes an old one at the next start, and three old ones are kept', () => {
  for (const name of ['daemon.log.1', 'daemon.log.2', 'daemon.log.3']) writeFileSync(join(folder, name), name)
  writeFileSync(file, 'old')
  truncateSync(file, 9 * 1024 * 1024)
  open().info('new')
  expect(readdirSync(folder).sort()).toEqual(['daemon.log', 'daemon.log.1', 'daemon.log.2', 'daemon.log.3'])
  expect(readFileSync(file, 'utf8')).toContain('new')
  expect(readFileSync(join(folder, 'daemon.log.3'), 'utf8')).toBe('daemon.log.2')
})

test('levels below the asked one are left out', () => {
  const logger = open('warn')
  logger.info('quiet')
  logger.warn('loud')
  expect(readFileSync(file, 'utf8')).not.toContain('quiet')
})
