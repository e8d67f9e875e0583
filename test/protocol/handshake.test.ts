import { expect, it } from 'vitest'
import { z } from 'zod'
import { encode } from '../../protocol/codec.ts'
import { FrameType } from '../../protocol/frames.ts'
import { accept, offer } from '../../protocol/wire/handshake.ts'
import { preamble } from '../../protocol/wire/preamble.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { raw } from './frames.ts'
import { MemoryTransport, turns } from './memory-transport.ts'

const Greeting = z.object({ name: z.string() })

it('reads preamble, HELLO and what follows at every split of their bytes', async () => {
  const stream = Buffer.concat([
    preamble(),
    raw('stream', FrameType.HELLO, 0, encode({ name: 'client' })),
    raw('stream', FrameType.REQUEST, 0, Uint8Array.of(1, 2, 3)),
  ])
  for (let first = 0; first <= stream.length; first++) {
    for (const second of [first, Math.min(first + 1, stream.length), stream.length]) {
      const transport = new MemoryTransport('stream')
      const values: number[] = []
      const clock = new ManualClock()
      const accepted = accept(transport, {
        hello: Greeting,
        onHello: ({ name }) => ({ name: `daemon of ${name}` }),
        handlers: () => ({
          value: (_type, _channel, payload) => void values.push(payload.length),
          closed: () => {},
        }),
        clock,
      })
      transport.deliver(stream.subarray(0, first))
      transport.deliver(stream.subarray(first, second))
      transport.deliver(stream.subarray(second))
      expect((await accepted).hello).toEqual({ name: 'client' })
      expect(values).toEqual([3])
    }
  }
})

it('reads the daemon byte by byte, keeps no timer of the handshake, and stops listening to the signal', async () => {
  const transport = new MemoryTransport('stream')
  const clock = new ManualClock()
  const aborting = new AbortController()
  const ends: string[] = []
  const offered = offer(
    transport,
    { name: 'client' },
    {
      welcome: Greeting,
      handlers: () => ({ value: () => {}, closed: ({ message }) => ends.push(message) }),
      clock,
      signal: aborting.signal,
    },
  )
  for (const byte of [...preamble(), ...raw('stream', FrameType.WELCOME, 0, encode({ name: 'daemon' }))])
    transport.deliver(Uint8Array.of(byte))
  expect((await offered).welcome).toEqual({ name: 'daemon' })
  aborting.abort()
  clock.advance(6_000)
  await turns()
  expect([transport.destroyed, ends]).toEqual([false, []])
  expect(clock.pending).toHaveLength(1)
})
