import { appendFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { SendLog } from '../../daemon/kernel-host/send-log.ts'
import { lastSpooled, Spool } from '../../daemon/kernel-host/spool.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-spool-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const payload = (seq: number, size: number): Buffer => Buffer.alloc(size, seq % 251)

function readAll(spool: Spool, since: number, limit: number): { seq: number; size: number }[] {
  const found: { seq: number; size: number }[] = []
  for (let seq = since; ; ) {
    const records = spool.read(seq, limit)
    const last = records.at(-1)
    if (last === undefined) return found
    for (const record of records) {
      expect(record.payload.every((byte) => byte === record.seq % 251)).toBe(true)
      found.push({ seq: record.seq, size: record.payload.length })
    }
    seq = last.seq
  }
}

test('what was appended is read back from any point, whatever the batches, also by the next process', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.integer({ min: 0, max: 200_000 }), { minLength: 1, maxLength: 5 }), {
        minLength: 1,
        maxLength: 8,
      }),
      fc.integer({ min: 1, max: 300_000 }),
      fc.nat(40),
      (batches, limit, from) => {
        const path = mkdtempSync(join(folder, 'p-'))
        let spool = new Spool(path)
        const sizes: number[] = []
        for (const batch of batches) {
          spool.append(
            batch.map((size, i) => ({
              seq: sizes.length + i + 1,
              payload: payload(sizes.length + i + 1, size),
            })),
          )
          sizes.push(...batch)
        }
        const since = from % (sizes.length + 1)
        const expected = sizes.map((size, i) => ({ seq: i + 1, size })).slice(since)
        expect(readAll(spool, since, limit)).toEqual(expected)
        spool.close()
        spool = new Spool(path)
        expect(spool.last).toBe(sizes.length)
        expect(lastSpooled(path)).toBe(sizes.length)
        expect(readAll(spool, since, limit)).toEqual(expected)
        spool.close()
      },
    ),
    { numRuns: 30 },
  )
})

test('a half-written record at the end is cut off and appending goes on', () => {
  const spool = new Spool(folder)
  spool.append([{ seq: 1, payload: payload(1, 100) }])
  spool.close()
  const [file] = readdirSync(folder)
  appendFileSync(join(folder, file ?? ''), Buffer.from([0, 0, 1, 0, 1, 2]))
  const next = new Spool(folder)
  expect(next.last).toBe(1)
  next.append([{ seq: 2, payload: payload(2, 10) }])
  expect(readAll(next, 0, 1000)).toEqual([
    { seq: 1, size: 100 },
    { seq: 2, size: 10 },
  ])
  next.close()
})

test('acknowledged segments leave the disk, and the last number stays known', () => {
  const spool = new Spool(folder)
  for (let seq = 1; seq <= 40; seq++) spool.append([{ seq, payload: payload(seq, 1_000_000) }])
  expect(readdirSync(folder).length).toBeGreaterThan(3)
  spool.acknowledge(20)
  expect(spool.end - spool.acknowledgedEnd).toBeLessThan(21_100_000)
  expect(readAll(spool, 20, 100_000).map((record) => record.seq)).toEqual(
    Array.from({ length: 20 }, (_, i) => i + 21),
  )
  spool.acknowledge(40)
  expect(spool.acknowledgedEnd).toBe(spool.end)
  expect(readdirSync(folder).length).toBe(1)
  spool.close()
  const next = new Spool(folder)
  expect(next.last).toBe(40)
  next.close()
})

test('the send log knows across processes what was sent and what is open', () => {
  const path = join(folder, 'sends.log')
  const log = new SendLog(path)
  log.sending({ id: 'a', channel: 'shell', msgType: 'execute_request' })
  log.sending({ id: 'b', channel: 'shell', msgType: 'execute_request' })
  log.settled('a')
  log.close()
  // The writer died in the middle of this line, so the message was never sent.
  appendFileSync(path, '{"id":"c","chann')
  const next = new SendLog(path)
  expect(next.has('a')).toBe(true)
  expect(next.has('c')).toBe(false)
  expect(next.open().map((request) => request.id)).toEqual(['b'])
  next.sending({ id: 'c', channel: 'shell', msgType: 'execute_request' })
  next.close()
  const third = new SendLog(path)
  expect(third.open().map((request) => request.id)).toEqual(['b', 'c'])
  third.close()
})

test('the send log keeps what matters when it is rewritten', () => {
  const path = join(folder, 'sends.log')
  const log = new SendLog(path)
  const count = 40_000
  for (let i = 0; i < count; i++) {
    log.sending({ id: `request-${i}`, channel: 'shell', msgType: 'execute_request' })
    if (i !== 17) log.settled(`request-${i}`)
  }
  log.close()
  const next = new SendLog(path)
  expect(next.open().map((request) => request.id)).toEqual(['request-17'])
  expect(next.has(`request-${count - 1}`)).toBe(true)
  next.close()
})
