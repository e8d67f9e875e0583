import { describe, expect, it } from 'vitest'
import { decode, encode } from '../../protocol/codec.ts'
import {
  FrameType,
  INITIAL_CREDIT,
  MAX_FRAME_PAYLOAD,
  PING_IDLE_MS,
  type Side,
} from '../../protocol/frames.ts'
import { createWire } from '../../protocol/wire/endpoint.ts'
import type { Wire, WireEnd } from '../../protocol/wire/wire.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { pattern, raw, readFrames } from './frames.ts'
import { exchange, MemoryTransport, turns } from './memory-transport.ts'

const { REQUEST, RESPONSE, EVENT, DOC, WINDOW, PING, PONG, ERROR, GOAWAY, CANCEL, HELLO } = FrameType

interface Seen {
  type: FrameType
  channel: number
  payload: Uint8Array
}

function endpoint(side: Side, clock = new ManualClock()) {
  const transport = new MemoryTransport('stream')
  const values: Seen[] = []
  const ends: WireEnd[] = []
  const on: { value: (wire: Wire, seen: Seen) => void | Promise<void> } = { value: () => {} }
  const wire: Wire = createWire({
    transport,
    side,
    clock,
    handlers: {
      value(type, channel, payload) {
        const seen = { type, channel, payload }
        values.push(seen)
        return on.value(wire, seen)
      },
      closed: (end) => ends.push(end),
    },
  })
  const sent = () =>
    readFrames(transport.take()).map(({ type, channel, payload }) => ({ type, channel, payload }))
  return { wire, transport, values, ends, on, sent, clock }
}

describe('an endpoint', () => {
  it('answers a chunk of many requests in one write', async () => {
    const { transport, on, values } = endpoint('daemon')
    on.value = async (wire, { channel }) => {
      await Promise.resolve()
      wire.send(RESPONSE, channel, pattern(30))
    }
    transport.deliver(
      Buffer.concat(Array.from({ length: 100 }, (_, n) => raw('stream', REQUEST, 0, pattern(20, n)))),
    )
    await turns()
    expect([values.length, transport.writes, readFrames(transport.take()).length]).toEqual([100, 1, 100])
  })

  it('gives credit back when a value was consumed, and not before, in portions', async () => {
    const { transport, on, sent, ends } = endpoint('client')
    let release: (() => void)[] = []
    on.value = () => new Promise<void>((resolve) => release.push(resolve))
    const deliver = (bytes: number) => transport.deliver(raw('stream', EVENT, 0, pattern(bytes)))
    for (let n = 0; n < 4; n++) deliver(MAX_FRAME_PAYLOAD)
    await turns()
    expect(sent()).toEqual([])
    release.shift()?.()
    await turns()
    expect(sent()).toEqual([{ type: WINDOW, channel: 0, payload: Buffer.from([0, 4, 0, 0]) }])
    for (const settle of release.splice(0)) settle()
    await turns()
    expect(sent()).toHaveLength(3)
    on.value = () => {}
    for (let n = 0; n < 255; n++) deliver(1024)
    await turns()
    expect(sent()).toEqual([])
    deliver(1024)
    await turns()
    expect(sent()).toHaveLength(1)
    expect(ends).toEqual([])
    release = []
  })

  it('keeps a channel that is out of credit waiting for WINDOW', async () => {
    const { wire, transport, sent } = endpoint('daemon')
    wire.send(EVENT, 0, pattern(INITIAL_CREDIT))
    wire.send(EVENT, 0, pattern(5))
    await turns()
    expect(sent()).toHaveLength(INITIAL_CREDIT / MAX_FRAME_PAYLOAD)
    expect(wire.queued(0)).toBe(15)
    transport.deliver(raw('stream', WINDOW, 7, Buffer.from([0, 0, 1, 0])))
    transport.deliver(raw('stream', WINDOW, 0, Buffer.from([0, 0, 0, 0])))
    await turns()
    expect(sent()).toEqual([])
    transport.deliver(raw('stream', WINDOW, 0, Buffer.from([0, 0, 0, 1])))
    await turns()
    expect(sent()).toHaveLength(1)
  })

  it('charges a REQUEST that is too large for the control lane, whole or in fragments', async () => {
    for (const fragments of [false, true]) {
      const { transport, on, ends, values } = endpoint('daemon')
      on.value = () => new Promise<void>(() => {})
      const request = (): void => {
        if (fragments) transport.deliver(raw('stream', REQUEST, 0, pattern(MAX_FRAME_PAYLOAD / 2), 1))
        transport.deliver(raw('stream', REQUEST, 0, pattern(MAX_FRAME_PAYLOAD / (fragments ? 2 : 1))))
      }
      for (let n = 0; n < 4; n++) request()
      transport.deliver(raw('stream', REQUEST, 0, pattern(100)))
      await turns()
      expect([values.length, ends]).toEqual([5, []])
      request()
      await turns()
      expect(values).toHaveLength(5)
      expect(ends).toMatchObject([{ cause: 'error', code: 'overloaded' }])
    }
  })

  it('takes the most credit a WINDOW can hold, again and again', async () => {
    const { wire, transport, sent } = endpoint('daemon')
    for (let n = 0; n < 5; n++) transport.deliver(raw('stream', WINDOW, 0, Buffer.alloc(4, 0xff)))
    for (let n = 0; n < 3; n++) wire.send(EVENT, 0, pattern(INITIAL_CREDIT))
    await turns()
    expect(sent()).toHaveLength((3 * INITIAL_CREDIT) / MAX_FRAME_PAYLOAD)
  })

  it('echoes PINGs, and pings only when nothing is read', async () => {
    const { transport, sent, clock, wire, ends } = endpoint('client')
    transport.deliver(raw('stream', PING, 0, pattern(8)))
    await turns()
    expect(sent()).toEqual([{ type: PONG, channel: 0, payload: Buffer.from(pattern(8)) }])
    clock.advance(PING_IDLE_MS - 1)
    await turns()
    expect(sent()).toEqual([])
    expect(wire.idle()).toBe(PING_IDLE_MS - 1)
    clock.advance(1)
    await turns()
    const [ping] = sent()
    expect([ping?.type, ping?.payload.length]).toEqual([PING, 8])
    transport.deliver(raw('stream', PONG, 0, ping?.payload))
    expect(wire.idle()).toBe(0)
    clock.advance(PING_IDLE_MS * 3 + 2_000)
    await turns()
    expect(ends).toEqual([{ cause: 'lost', message: expect.stringContaining('PING') }])
    expect([transport.destroyed, clock.pending]).toEqual([true, []])
  })

  it('survives a suspended laptop and a reader that only reads', async () => {
    const [a, b] = [endpoint('client'), endpoint('daemon')]
    a.clock.advance(PING_IDLE_MS * 2)
    a.clock.suspend(12 * 3_600_000)
    b.clock.advance(PING_IDLE_MS * 2)
    b.clock.suspend(12 * 3_600_000)
    await exchange(a.transport, b.transport)
    a.clock.advance(PING_IDLE_MS)
    b.clock.advance(PING_IDLE_MS)
    await exchange(a.transport, b.transport)
    expect([a.ends, b.ends]).toEqual([[], []])
  })

  it('does not answer PINGs without end for one who never reads', async () => {
    const { transport, wire } = endpoint('daemon')
    transport.room = false
    wire.send(EVENT, 0, pattern(10))
    await turns()
    const many = Buffer.concat(Array.from({ length: 10_000 }, () => raw('stream', PING, 0, pattern(64))))
    for (let n = 0; n < 30; n++) transport.deliver(many)
    await turns()
    expect(wire.queued()).toBeLessThan(17 * 1024 * 1024)
  })

  it('delivers GOAWAY as a value', () => {
    const { transport, values, ends } = endpoint('client')
    const goAway = { reason: 'upgrade', drain_ms: 500, next_version: '2' }
    transport.deliver(raw('stream', GOAWAY, 0, encode(goAway)))
    expect(values.map(({ type, payload }) => [type, decode(payload)])).toEqual([[GOAWAY, goAway]])
    expect(ends).toEqual([])
  })

  it('ends with what an ERROR frame says, and delivers nothing behind it', async () => {
    const { transport, values, ends, wire } = endpoint('client')
    transport.deliver(
      Buffer.concat([
        raw('stream', ERROR, 0, encode({ code: 'shutting_down', message: 'the daemon is going away' })),
        raw('stream', EVENT, 0, pattern(3)),
      ]),
    )
    transport.deliver(raw('stream', EVENT, 0, pattern(3)))
    wire.send(REQUEST, 0, pattern(3))
    await turns()
    expect(ends).toEqual([{ cause: 'error', code: 'shutting_down', message: 'the daemon is going away' }])
    expect(values).toEqual([])
    expect([transport.destroyed, transport.written]).toEqual([true, []])
  })

  it('stops at once when a handler ends it in the middle of a chunk, and tells the end once', async () => {
    for (const how of ['fail', 'destroy', 'throw', 'reject'] as const) {
      const { transport, values, ends, on } = endpoint('daemon')
      on.value = (wire) => {
        if (how === 'fail') wire.fail('forbidden', 'no')
        else if (how === 'destroy') wire.destroy()
        else if (how === 'throw') throw new Error('a defect')
        else return Promise.reject(new Error('a defect'))
      }
      transport.deliver(Buffer.concat([1, 2].map((n) => raw('stream', REQUEST, 0, pattern(n)))))
      await turns()
      transport.closeByOther()
      await turns()
      expect(ends, how).toHaveLength(1)
      if (how !== 'reject') expect(values, how).toHaveLength(1)
      if (how === 'throw' || how === 'reject')
        expect(ends[0]).toMatchObject({
          cause: 'error',
          code: 'internal',
          message: 'unexpected failure: a defect',
        })
    }
  })

  it('gives the other side a second to read ERROR, whatever it does', async () => {
    const { wire, transport, sent, clock } = endpoint('daemon')
    transport.room = false
    wire.send(EVENT, 0, pattern(900_000))
    await turns()
    sent()
    wire.fail('invalid_argument', 'x'.repeat(5000))
    const [error] = sent()
    expect([error?.type, transport.ended, transport.destroyed]).toEqual([ERROR, true, false])
    expect(error?.payload.length).toBeLessThanOrEqual(4096)
    clock.advance(1_000)
    expect(transport.destroyed).toBe(true)
  })

  it('ends within its time when the other side takes nothing', async () => {
    const { wire, transport, ends, clock } = endpoint('daemon')
    transport.room = false
    for (let n = 0; n < 3; n++) wire.send(EVENT, 0, pattern(900_000))
    wire.end(5_000)
    await turns()
    expect([transport.ended, ends]).toEqual([false, []])
    clock.advance(5_000)
    await turns()
    expect([transport.destroyed, ends]).toEqual([true, [{ cause: 'local', message: 'ended' }]])
    expect(clock.pending).toEqual([])
  })

  it('waits for credit while it ends', async () => {
    const { wire, transport } = endpoint('daemon')
    wire.send(RESPONSE, 0, pattern(INITIAL_CREDIT))
    wire.send(RESPONSE, 0, pattern(10))
    wire.end(5_000)
    await turns()
    expect(transport.ended).toBe(false)
    transport.deliver(raw('stream', WINDOW, 0, Buffer.from([0, 16, 0, 0])))
    await turns()
    expect(readFrames(transport.take()).at(-1)?.payload.length).toBe(10)
    expect(transport.ended).toBe(true)
  })

  it('tells a break in the middle of a value from an orderly close', async () => {
    const cases: [Uint8Array, Error | undefined, WireEnd['cause']][] = [
      [new Uint8Array(0), undefined, 'remote'],
      [raw('stream', EVENT, 0, pattern(10)).subarray(0, 4), undefined, 'lost'],
      [raw('stream', EVENT, 0, pattern(10)).subarray(0, 15), undefined, 'lost'],
      [raw('stream', EVENT, 0, pattern(10), 1), undefined, 'lost'],
      [new Uint8Array(0), new Error('ECONNRESET'), 'lost'],
    ]
    for (const [bytes, error, cause] of cases) {
      const { transport, ends } = endpoint('client')
      transport.deliver(bytes)
      transport.closeByOther(error)
      await turns()
      expect(ends.map((end) => end.cause)).toEqual([cause])
    }
  })

  it('refuses to send what is not its own to send', () => {
    const { wire } = endpoint('daemon')
    for (const type of [REQUEST, CANCEL, HELLO])
      expect(() => wire.send(type, 0, pattern(1))).toThrow(/does not send/)
    for (const type of [WINDOW, PING, PONG, ERROR])
      expect(() => wire.offer(type, 0, pattern(1))).toThrow(/itself/)
  })

  it('forgets the half of a value whose channel closes, and reads on', () => {
    const { wire, transport, values } = endpoint('client')
    wire.openChannel(1)
    const stream = Buffer.concat([
      raw('stream', DOC, 1, pattern(100), 1),
      raw('stream', DOC, 1, pattern(100)),
      raw('stream', DOC, 0, pattern(7)),
    ])
    transport.deliver(stream.subarray(0, 150))
    wire.closeChannel(1)
    transport.deliver(stream.subarray(150))
    expect(values.map(({ channel, payload }) => [channel, payload.length])).toEqual([[0, 7]])
  })

  it('leaves nothing behind when channels come and go', async () => {
    const [client, daemon] = [endpoint('client'), endpoint('daemon')]
    for (let channel = 1; channel < 2001; channel += 2) {
      client.wire.openChannel(channel)
      daemon.wire.openChannel(channel)
      daemon.wire.offer(EVENT, channel, pattern(100))
      client.wire.send(CANCEL, channel, pattern(10))
      await exchange(client.transport, daemon.transport)
      client.wire.closeChannel(channel)
      daemon.wire.closeChannel(channel)
    }
    expect([client.values.length, daemon.values.length]).toEqual([1000, 1000])
    expect([client.wire.queued(), daemon.wire.queued()]).toEqual([0, 0])
  })
})
