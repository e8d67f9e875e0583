import { expect, test } from 'vitest'
import { Interrupt } from '../../daemon/kernel-host/interrupt.ts'
import { OrphanGrace } from '../../daemon/kernel-host/orphan-grace.ts'
import { Readiness } from '../../daemon/kernel-host/readiness.ts'
import type { SentRequest } from '../../daemon/kernel-host/send-log.ts'
import { Settling } from '../../daemon/kernel-host/settling.ts'
import { ManualClock } from '../support/manual-clock.ts'

function setup() {
  const clock = new ManualClock()
  const settled: [string, unknown][] = []
  const probes: string[] = []
  const settling = new Settling({
    clock,
    newId: () => `probe-${probes.length + 1}`,
    probe: (id, msgType) => probes.push(`${id} ${msgType}`),
    settled: (id, reply) => settled.push([id, reply]),
  })
  return { clock, settled, probes, settling }
}

const execute = (id: string): SentRequest => ({ id, channel: 'shell', msgType: 'execute_request' })

test('a request is settled by its reply and its idle, in either order', () => {
  const { settled, settling } = setup()
  settling.sent(execute('a'))
  settling.sent(execute('b'))
  expect(settling.running).toBe('a')
  settling.reply('a', { status: 'ok' })
  expect(settled).toEqual([])
  settling.kernelIdle('a')
  settling.kernelIdle('b')
  settling.reply('b', { status: 'error' })
  expect(settled).toEqual([
    ['a', { status: 'ok' }],
    ['b', { status: 'error' }],
  ])
  expect(settling.idle).toBe(true)
})

test('an idle that never comes is proved by kernel_info', () => {
  const { clock, settled, probes, settling } = setup()
  settling.sent(execute('a'))
  settling.reply('a', { status: 'ok' })
  clock.advance(1_000)
  expect(probes).toEqual(['probe-1 kernel_info_request'])
  settling.sent(execute('later'))
  settling.probeReply()
  expect(settled).toEqual([])
  settling.probeIdle()
  expect(settled).toEqual([['a', { status: 'ok' }]])
  expect(settling.running).toBe('later')
})

test('a reply that never comes settles with null, also when the probe sees no idle either', () => {
  const { clock, settled, settling } = setup()
  settling.sent(execute('a'))
  settling.kernelIdle('a')
  clock.advance(1_000)
  settling.probeReply()
  clock.advance(4_000)
  // What the request printed is still coming in.
  settling.heard()
  clock.advance(4_000)
  expect(settled).toEqual([])
  clock.advance(6_000)
  expect(settled).toEqual([['a', null]])
})

test('two missing idles in a row are both proved', () => {
  const { clock, settled, probes, settling } = setup()
  settling.sent(execute('a'))
  settling.reply('a', {})
  clock.advance(1_000)
  settling.sent(execute('b'))
  settling.reply('b', {})
  clock.advance(5_000)
  settling.probeReply()
  settling.probeIdle()
  expect(settled.map(([id]) => id)).toEqual(['a'])
  clock.advance(1_000)
  expect(probes.length).toBe(2)
  settling.probeReply()
  settling.probeIdle()
  expect(settled.map(([id]) => id)).toEqual(['a', 'b'])
})

test('what an earlier host left open is asked for with a silent execute', () => {
  const { settled, probes, settling } = setup()
  settling.adopted([execute('a'), execute('b')])
  expect(probes).toEqual(['probe-1 execute_request'])
  settling.reply('a', { status: 'ok' })
  settling.kernelIdle('a')
  settling.probeReply()
  settling.probeIdle()
  expect(settled).toEqual([
    ['a', { status: 'ok' }],
    ['b', null],
  ])
})

test('comm messages need no reply, control requests no idle', () => {
  const { settled, settling } = setup()
  settling.sent({ id: 'comm', channel: 'shell', msgType: 'comm_msg' })
  settling.kernelIdle('comm')
  settling.sent({ id: 'debug', channel: 'control', msgType: 'debug_request' })
  settling.reply('debug', {})
  expect(settled.map(([id]) => id)).toEqual(['comm', 'debug'])
})

test('a kernel is ready when it has answered and its iopub has spoken; it is asked again until then', () => {
  const clock = new ManualClock()
  let asked = 0
  let ready = 0
  const readiness = new Readiness({ clock, ask: () => asked++, ready: () => ready++ }, true)
  readiness.start()
  readiness.answered({})
  expect([asked, ready]).toEqual([1, 0])
  clock.advance(20)
  expect(asked).toBe(2)
  readiness.spoken()
  expect(ready).toBe(1)
  clock.advance(60_000)
  expect([asked, ready]).toEqual([2, 1])
})

test('an interrupt waits for the cell that was just sent, and is dropped when it ends first', async () => {
  const clock = new ManualClock()
  const interrupt = new Interrupt(clock)
  const delivered: string[] = []
  await interrupt.deliver(null, () => delivered.push('idle'))
  const waiting = interrupt.deliver('a', () => delivered.push('a'))
  expect(delivered).toEqual(['idle'])
  interrupt.begun('a')
  expect(delivered).toEqual(['idle'])
  clock.advance(100)
  await waiting
  await interrupt.deliver('a', () => delivered.push('a again'))
  const late = interrupt.deliver('b', () => delivered.push('b'))
  interrupt.settled('b')
  await late
  const silent = interrupt.deliver('c', () => delivered.push('c'))
  clock.advance(1_000)
  await silent
  expect(delivered).toEqual(['idle', 'a', 'a again', 'c'])
})

test('the orphan grace counts from when there is neither a daemon nor anything running', () => {
  const clock = new ManualClock()
  let ended = 0
  const grace = new OrphanGrace(clock, 1_000, () => ended++)
  grace.update({ daemon: true, idle: true })
  clock.advance(5_000)
  grace.update({ idle: false })
  grace.update({ daemon: false })
  clock.advance(5_000)
  grace.update({ idle: true })
  clock.advance(900)
  grace.update({ daemon: true })
  clock.advance(5_000)
  expect(ended).toBe(0)
  grace.update({ daemon: false })
  clock.advance(1_000)
  expect(ended).toBe(1)
})
