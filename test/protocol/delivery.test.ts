/** Two endpoints, any traffic, any split, any slowness: every value arrives once, whole, in the order of its lane and channel. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FrameType, laneOf } from '../../protocol/frames.ts'
import { createWire } from '../../protocol/wire/endpoint.ts'
import type { Wire } from '../../protocol/wire/wire.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { pattern } from './frames.ts'
import { MemoryTransport, turns } from './memory-transport.ts'

const { REQUEST, CANCEL, RESPONSE, EVENT, DOC, BLOB } = FrameType

interface End {
  transport: MemoryTransport
  wire: Wire
  arrived: Map<string, string[]>
  sent: Map<string, string[]>
  /** Values held back, with their credit. */
  held: (() => void)[]
  hold: boolean
  failed: string[]
}

const note = (map: Map<string, string[]>, type: FrameType, channel: number, payload: Uint8Array): void => {
  const key = `${laneOf(type, payload.length)}@${channel}`
  const values = map.get(key) ?? []
  map.set(key, values)
  values.push(`${type}:${payload.length}:${Buffer.from(payload.subarray(0, 12)).toString('hex')}`)
}

function end(side: 'client' | 'daemon'): End {
  const transport = new MemoryTransport('stream')
  const state: Omit<End, 'wire'> = {
    transport,
    arrived: new Map(),
    sent: new Map(),
    held: [],
    hold: false,
    failed: [],
  }
  const wire = createWire({
    transport,
    side,
    clock: new ManualClock(),
    handlers: {
      value(type, channel, payload) {
        note(state.arrived, type, channel, payload)
        if (state.hold) return new Promise<void>((resolve) => state.held.push(resolve))
      },
      closed: ({ message }) => state.failed.push(message),
    },
  })
  wire.openChannel(1)
  wire.openChannel(3)
  return Object.assign(state, { wire })
}

const sizes = fc.oneof(
  fc.nat({ max: 300 }),
  fc.constantFrom(8191, 8192, 8193, 65_536, 65_537, 262_143, 262_144, 262_145, 700_000, 1_200_000),
)
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      from: fc.boolean(),
      type: fc.nat({ max: 3 }),
      channel: fc.constantFrom(0, 1, 3),
      size: sizes,
      offered: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('move' as const),
      from: fc.boolean(),
      cut: fc.nat({ max: 300_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('room', 'hold', 'release'), from: fc.boolean() }) },
)

it('loses, doubles, mixes and reorders nothing', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const [client, daemon] = [end('client'), end('daemon')]
      const types = { client: [REQUEST, CANCEL, DOC, BLOB], daemon: [RESPONSE, EVENT, DOC, BLOB] } as const
      let count = 0
      const move = (from: End, to: End, most: number): void => {
        const bytes = from.transport.take()
        to.transport.deliver(bytes.subarray(0, most))
        const rest = bytes.subarray(most)
        if (rest.length > 0) from.transport.written.unshift(rest)
        else if (!from.transport.room) from.transport.drain()
      }
      for (const one of steps) {
        if (one.do === 'turn') {
          await turns()
          continue
        }
        const [from, to] = one.from ? [client, daemon] : [daemon, client]
        switch (one.do) {
          case 'send': {
            const type = types[from.wire.side][one.type] as FrameType
            const payload = pattern(type === CANCEL ? one.size % 65 : one.size, ++count)
            if (one.offered) {
              if (!from.wire.offer(type, one.channel, payload)) break
            } else from.wire.send(type, one.channel, payload)
            note(from.sent, type, one.channel, payload)
            break
          }
          case 'move':
            move(from, to, one.cut)
            break
          case 'room':
            from.transport.room = false
            break
          case 'hold':
            from.hold = true
            break
          case 'release':
            from.hold = false
            for (const release of from.held.splice(0)) release()
        }
      }
      for (const side of [client, daemon]) side.hold = false
      do {
        for (const side of [client, daemon]) for (const release of side.held.splice(0)) release()
        await turns()
        move(client, daemon, Number.POSITIVE_INFINITY)
        move(daemon, client, Number.POSITIVE_INFINITY)
        await turns()
      } while (
        client.transport.written.length + daemon.transport.written.length > 0 ||
        client.held.length + daemon.held.length > 0
      )
      expect([client.failed, daemon.failed]).toEqual([[], []])
      expect(daemon.arrived).toEqual(client.sent)
      expect(client.arrived).toEqual(daemon.sent)
      expect([client.wire.queued(), daemon.wire.queued()]).toEqual([0, 0])
    }),
    { numRuns: 60 },
  )
})
