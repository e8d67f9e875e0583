import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { EventStream, type Subscriber } from '../../daemon/kernel-host/event-stream.ts'
import { Spool } from '../../daemon/kernel-host/spool.ts'
import { systemClock } from '../../protocol/clock.ts'
import { decode } from '../../protocol/codec.ts'
import { HostEvent } from '../../protocol/kernel-host.ts'

function makeStream(hardLimitBytes?: number): EventStream {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-events-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return new EventStream({
    spool: new Spool(join(folder, 'spool')),
    firstSeq: 1,
    clock: systemClock,
    pressure: () => {},
    trouble: () => {},
    ...(hardLimitBytes === undefined ? {} : { hardLimitBytes }),
  })
}

function printed(text: string): Parameters<EventStream['push']>[0] {
  const message = {
    channel: 'iopub' as const,
    msg_type: 'stream',
    msg_id: 'id',
    parent_id: 'run',
    content: { name: 'stdout', text },
    metadata: {},
    buffers: [],
  }
  return { kind: 'message', message }
}

test('a kernel that cannot be stopped: beyond the hard limit output is dropped, counted, and told before what follows', () => {
  const stream = makeStream(10_000)
  const told: HostEvent[] = []
  const subscriber: Subscriber = {
    offer(payload) {
      told.push(HostEvent.parse(decode(payload)))
      return true
    },
    flushing: () => {},
  }
  for (let n = 0; n < 30; n++) stream.push(printed(`${n} ${'x'.repeat(1_000)}`))
  // An end is no output: it comes through, behind what is said of the missing.
  stream.push({ kind: 'settled', request_id: 'run', reply: null })
  stream.flush()
  stream.subscribe(subscriber, 0)
  const kept = told.filter((event) => event.kind === 'message').length
  expect(kept).toBeGreaterThan(5)
  expect(kept).toBeLessThan(15)
  expect(told.map((event) => event.kind).slice(kept)).toEqual(['gap', 'settled'])
  const gap = told[kept]
  expect(gap?.kind === 'gap' && gap.reason).toContain(`${30 - kept} kernel messages were dropped`)
  expect(told.map((event) => event.seq)).toEqual(told.map((_, index) => index + 1))
  stream.acknowledge(told.length)
  stream.push(printed('again'))
  stream.flush()
  expect(told.at(-1)).toMatchObject({ kind: 'message', message: { content: { text: 'again' } } })
})

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
