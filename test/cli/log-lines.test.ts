import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { followLines } from '../../client/cli/log-follow.ts'
import { lastLines, readableLogLine } from '../../client/cli/log-lines.ts'
import { until } from '../support/until.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-log-'))
  file = join(folder, 'daemon.log')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('the last lines of a long log are read from its end', () => {
  writeFileSync(file, Array.from({ length: 20_000 }, (_, i) => `line ${i} ${'x'.repeat(20)}\n`).join(''))
  expect(lastLines(file, 2).map((line) => line.slice(0, 10))).toEqual(['line 19998', 'line 19999'])
  expect(lastLines(file, 19_999)).toHaveLength(19_999)
  expect(lastLines(file, 50_000)).toHaveLength(20_000)
  expect(lastLines(file, 0)).toEqual([])
})

test('a log that does not exist has no lines', () => {
  expect(lastLines(file, 5)).toEqual([])
})

test('following shows each line once and goes on through rotation', async () => {
  writeFileSync(file, 'before\n')
  const seen: string[] = []
  const end = new AbortController()
  const following = followLines(file, 7, (line) => seen.push(line), end.signal)
  appendFileSync(file, 'one\ntw')
  await until('the first line', () => seen.length === 1)
  appendFileSync(file, 'o\n')
  await until('the second line', () => seen.length === 2)
  // Rotation: the last line of the old file is written just before the name moves on.
  appendFileSync(file, 'three\n')
  renameSync(file, `${file}.1`)
  writeFileSync(file, 'four\n')
  await until('the line of the new file', () => seen.length === 4)
  end.abort()
  await following
  expect(seen).toEqual(['one', 'two', 'three', 'four'])
})

test('following waits for a log that is not there yet', async () => {
  const seen: string[] = []
  const end = new AbortController()
  const following = followLines(file, 0, (line) => seen.push(line), end.signal)
  writeFileSync(file, 'first\n')
  await until('the line', () => seen.length === 1)
  end.abort()
  await following
  expect(seen).toEqual(['first'])
})

test('a log line is shown with time, level, message and fields', () => {
  const plain = (_style: unknown, text: string) => text
  const line = JSON.stringify({
    level: 'warn',
    time: 0,
    pid: 1,
    hostname: 'h',
    msg: 'slow disk',
    ms: 12,
    room: 'a',
  })
  expect(readableLogLine(line, plain)).toMatch(
    /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.000 WARN {2}slow disk ms=12 room=a$/,
  )
  expect(readableLogLine('node: something else', plain)).toBe('node: something else')
})
