import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { EventStream, type Subscriber } from '../../daemon/kernel-host/event-stream.ts'
import { Spool } from '../../daemon/kernel-host/spool.ts'
import { systemClock } from '../../protocol/clock.ts'

function makeStream(): EventStream {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-events-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return new EventStream({
    spool: new Spool(join(folder, 'spool')),
    firstSeq: 1,
    clock: systemClock,
    pressure: () => {},
    trouble: () => {},
  })
}

function collector(into: number[]): Subscriber {
  return {
    offer(_payload, seq) {
      into.push(seq)
      return true
    },
    flushing: () => {},
  }
}

test('a subscription that begins again gets everything behind its start in order, also what was not flushed yet', () => {
  const stream = makeStream()
  const first: number[] = []
  const push = () => stream.push({ kind: 'gap', reason: 'an event' })
  stream.subscribe(collector(first), 0)
  for (let n = 0; n < 3; n++) push()
  stream.flush()
  expect(first).toEqual([1, 2, 3])
  push()
  push()
  const second: number[] = []
  // The same connection asks again from an earlier point: nothing may reach it before event 2.
  stream.subscribe(collector(second), 1)
  expect(first).toEqual([1, 2, 3])
  expect(second).toEqual([2, 3, 4, 5])
  push()
  stream.flush()
  expect(second).toEqual([2, 3, 4, 5, 6])
})
