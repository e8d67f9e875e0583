/**
 * The framing conformance suite: what every transport must carry in the same way. `framingConformance` registers its tests for
 * one maker of connected transports; each implementation of the wire (Unix socket, WebSocket, a later one) runs it.
 */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { Hello, Welcome } from '../../protocol/channels.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType, frameRules, INITIAL_CREDIT, MAX_FRAME_PAYLOAD } from '../../protocol/frames.ts'
import { accept, offer } from '../../protocol/wire/handshake.ts'
import { preamble } from '../../protocol/wire/preamble.ts'
import type { Transport } from '../../protocol/wire/transport.ts'
import type { Wire, WireEnd, WireHandlers } from '../../protocol/wire/wire.ts'
import { more, pattern, raw } from '../protocol/frames.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until, within } from '../support/until.ts'

export interface TransportPair {
  readonly client: Transport
  readonly daemon: Transport
}

export interface TransportMaker {
  readonly name: string
  /** Two connected transports, not yet opened. */
  pair(): Promise<TransportPair>
  /** Ends whatever the pairs of one test left open. */
  dispose(): Promise<void>
}

interface Value {
  type: FrameType
  channel: number
  payload: Uint8Array
}

/** One side of a connection and what it received. */
interface Side {
  wire: Wire
  values: Value[]
  ends: WireEnd[]
  writable: number[]
  /** Set to hold values back: their credit stays out. */
  hold: Promise<void> | undefined
}

const { OPEN, CLOSE, REQUEST, RESPONSE, CANCEL, EVENT, EPHEMERAL, DOC, BLOB, GOAWAY, HELLO, WELCOME } =
  FrameType

const hello: Hello = {
  client_instance: 'conformance-1' as Hello['client_instance'],
  client: { name: 'conformance', version: '1', pid: 1 },
  label: 'conformance',
}
const welcome = {
  boot_id: randomUUID(),
  pid: 1,
  started_at: 1,
  version: '1',
  api_version: 1,
  features: [],
  limits: { frame_payload: 1, credit: 1, request: 1 },
  scope: 'owner',
  activation_generation: 7,
  mutation_id: 9,
}

function recorder(): { side: Omit<Side, 'wire'>; handlers: WireHandlers } {
  const side: Omit<Side, 'wire'> = { values: [], ends: [], writable: [], hold: undefined }
  return {
    side,
    handlers: {
      value(type, channel, payload) {
        side.values.push({ type, channel, payload })
        return side.hold
      },
      writable: (channel) => side.writable.push(channel),
      closed: (end) => side.ends.push(end),
    },
  }
}

async function connected(maker: TransportMaker): Promise<{ client: Side; daemon: Side }> {
  const pair = await maker.pair()
  const [client, daemon] = [recorder(), recorder()]
  const [offered, accepted] = await Promise.all([
    offer(pair.client, hello, { welcome: Welcome, handlers: () => client.handlers }),
    accept(pair.daemon, { hello: Hello, onHello: () => welcome, handlers: () => daemon.handlers }),
  ])
  const sides = {
    client: Object.assign(client.side, { wire: offered.wire }),
    daemon: Object.assign(daemon.side, { wire: accepted.wire }),
  }
  for (const { wire } of [sides.client, sides.daemon]) for (const channel of [1, 3]) wire.openChannel(channel)
  return sides
}

/** The other end of a transport, spoken to byte by byte. */
function plain(transport: Transport) {
  const received: Buffer[] = []
  const state = { closed: false }
  transport.open({
    data: (bytes) => received.push(Buffer.from(bytes)),
    drain: () => {},
    closed: () => {
      state.closed = true
    },
  })
  return {
    write: (...pieces: Uint8Array[]) => transport.write(pieces),
    get closed() {
      return state.closed
    },
    /** The code and message of the ERROR frame that came, if one did. */
    get error(): { code: string; message: string } | undefined {
      const bytes = Buffer.concat(received)
      const header = Buffer.from([FrameType.ERROR, 0, 0, 0, 0, 0])
      const at = bytes.indexOf(header)
      return at < 0
        ? undefined
        : (decode(bytes.subarray(at + header.length)) as { code: string; message: string })
    },
  }
}

async function rejection(promise: Promise<unknown>): Promise<RoomdError> {
  const error = await within(
    'a refusal',
    promise.then(
      () => undefined,
      (thrown: unknown) => thrown,
    ),
  )
  if (!(error instanceof RoomdError)) throw new Error('expected a RoomdError', { cause: error })
  return error
}

export function framingConformance(maker: TransportMaker): void {
  const acceptPlainly = (daemon: Transport, clock?: ManualClock) => {
    const { side, handlers } = recorder()
    const accepted = accept(daemon, {
      hello: Hello,
      onHello: () => welcome,
      handlers: () => handlers,
      ...(clock ? { clock } : {}),
    })
    return { side, accepted }
  }

  describe(`framing over ${maker.name}`, () => {
    afterEach(() => maker.dispose())

    it('carries values of every size whole and in order, both ways', async () => {
      const { client, daemon } = await connected(maker)
      const F = MAX_FRAME_PAYLOAD
      const sizes = [0, 1, 1000, 8192, 8193, 65_536, F - 1, F, F + 1, 2 * F, 5_000_000, 0, 3]
      sizes.forEach((size, seed) => {
        daemon.wire.send(EVENT, 1, pattern(size, seed))
        client.wire.send(DOC, 3, pattern(size, seed))
      })
      for (const { values } of [client, daemon]) {
        await until('all values', () => values.length === sizes.length)
        values.forEach(({ payload }, seed) => {
          expect(Buffer.compare(payload, pattern(sizes[seed] ?? -1, seed))).toBe(0)
        })
      }
    })

    it('hands HELLO and WELCOME over, and loses nothing that follows them in the same bytes', async () => {
      const pair = await maker.pair()
      const [client, daemon] = [recorder(), recorder()]
      const accepted = accept(pair.daemon, {
        hello: Hello,
        onHello: async (given) => {
          expect(given.client_instance).toBe(hello.client_instance)
          return welcome
        },
        handlers: (wire) => {
          for (let n = 0; n < 5; n++) wire.send(EVENT, 0, Uint8Array.of(n))
          return daemon.handlers
        },
      })
      const offered = await offer(pair.client, hello, { welcome: Welcome, handlers: () => client.handlers })
      expect(offered.welcome).toMatchObject({
        boot_id: welcome.boot_id,
        activation_generation: 7,
        mutation_id: 9,
      })
      await accepted
      await until('the events', () => client.side.values.length === 5)
      expect(client.side.values.map(({ payload }) => payload[0])).toEqual([0, 1, 2, 3, 4])
    })

    it('says which side to update when no version is common', async () => {
      for (const [ours, theirs, update] of [
        [{ lowest: 3, highest: 4 }, { lowest: 1, highest: 2 }, 'daemon'],
        [{ lowest: 1, highest: 2 }, { lowest: 3, highest: 9 }, 'client'],
      ] as const) {
        const pair = await maker.pair()
        const accepted = accept(pair.daemon, {
          hello: Hello,
          onHello: () => welcome,
          handlers: () => recorder().handlers,
          versions: theirs,
        })
        const offered = offer(pair.client, hello, {
          welcome: Welcome,
          handlers: () => recorder().handlers,
          versions: ours,
        })
        for (const error of await Promise.all([rejection(offered), rejection(accepted)])) {
          expect(error.code).toBe('unsupported')
          expect(error.message).toContain(`update the ${update}`)
        }
      }
    })

    it('answers another version with an ERROR frame and closes', async () => {
      const pair = await maker.pair()
      const { accepted } = acceptPlainly(pair.daemon)
      const peer = plain(pair.client)
      peer.write(preamble({ lowest: 200, highest: 201 }))
      expect((await rejection(accepted)).code).toBe('unsupported')
      await until('the connection closes', () => peer.closed)
      expect(peer.error).toMatchObject({
        code: 'unsupported',
        message: expect.stringContaining('update the daemon'),
      })
    })

    it('refuses what is not the protocol with a message that shows what came', async () => {
      for (const garbage of ['GET / HTTP/1.1\r\n\r\n', 'ROAM\x01\x01\0\0', '\0\0\0\0\0\0\0\0']) {
        const pair = await maker.pair()
        const { accepted } = acceptPlainly(pair.daemon)
        const peer = plain(pair.client)
        peer.write(Buffer.from(garbage))
        expect((await rejection(accepted)).code).toBe('invalid_argument')
        await until('the connection closes', () => peer.closed)
        expect(peer.error?.code).toBe('invalid_argument')
      }
      const pair = await maker.pair()
      const offered = offer(pair.client, hello, { welcome: Welcome, handlers: () => recorder().handlers })
      plain(pair.daemon).write(Buffer.from('SSH-2.0-'))
      const error = await rejection(offered)
      expect(error.code).toBe('client_protocol')
      expect(error.message).toContain('SSH-2.0-')
    })

    it('refuses a HELLO that is none, and anything else in its place', async () => {
      const { CANCEL, HELLO } = FrameType
      const cases: [FrameType, Uint8Array, string][] = [
        [HELLO, encode({ client_instance: 'x' }), 'client_instance'],
        [HELLO, Uint8Array.of(0xc1, 0xc1), 'MessagePack'],
        [CANCEL, encode({ id: 1 }), 'expected HELLO and got CANCEL'],
      ]
      for (const [type, payload, message] of cases) {
        const pair = await maker.pair()
        const { accepted } = acceptPlainly(pair.daemon)
        const peer = plain(pair.client)
        peer.write(preamble())
        peer.write(raw(pair.client.framing, type, 0, payload))
        const error = await rejection(accepted)
        expect(error).toMatchObject({ code: 'invalid_argument', message: expect.stringContaining(message) })
        await until('the connection closes', () => peer.closed)
        expect(peer.error?.message).toBe(error.message)
      }
    })

    it('tells a client why it was refused', async () => {
      const pair = await maker.pair()
      const accepted = accept(pair.daemon, {
        hello: Hello,
        onHello: async () => {
          throw new RoomdError('unauthorized', 'this token is not valid; ask for a new one')
        },
        handlers: () => recorder().handlers,
      })
      const offered = offer(pair.client, hello, { welcome: Welcome, handlers: () => recorder().handlers })
      for (const error of await Promise.all([rejection(offered), rejection(accepted)]))
        expect(error).toMatchObject({
          code: 'unauthorized',
          message: 'this token is not valid; ask for a new one',
        })
    })

    it('lets nobody speak between HELLO and WELCOME', async () => {
      const pair = await maker.pair()
      let answer: (welcome: object) => void = () => {}
      const accepted = accept(pair.daemon, {
        hello: Hello,
        onHello: () =>
          new Promise<object>((resolve) => {
            answer = resolve
          }),
        handlers: () => recorder().handlers,
      })
      const peer = plain(pair.client)
      const { framing } = pair.client
      peer.write(preamble())
      peer.write(raw(framing, HELLO, 0, encode(hello)))
      peer.write(raw(framing, REQUEST, 0, encode({ id: 1, method: 'ping' })))
      expect((await rejection(accepted)).message).toContain('between HELLO and WELCOME')
      answer(welcome)
      await until('the connection closes', () => peer.closed)
      expect(peer.error?.code).toBe('invalid_argument')
    })

    it('drops one who connects and says nothing, or stops in the middle, after five seconds', async () => {
      for (const said of [0, 1]) {
        const pair = await maker.pair()
        const clock = new ManualClock()
        const { accepted } = acceptPlainly(pair.daemon, clock)
        const outcome = rejection(accepted)
        const peer = plain(pair.client)
        if (said === 1) peer.write(preamble())
        clock.advance(4_999)
        expect(peer.closed).toBe(false)
        clock.advance(1)
        expect((await outcome).message).toContain('in time')
        await until('the connection closes', () => peer.closed)
      }
      const pair = await maker.pair()
      const clock = new ManualClock()
      const offered = rejection(
        offer(pair.client, hello, { welcome: Welcome, handlers: () => recorder().handlers, clock }),
      )
      clock.advance(5_000)
      expect((await offered).code).toBe('client_timeout')
    })

    it('gives up connecting when asked to, and names a daemon that left', async () => {
      const aborting = new AbortController()
      const first = await maker.pair()
      const offered = offer(first.client, hello, {
        welcome: Welcome,
        handlers: () => recorder().handlers,
        signal: aborting.signal,
      })
      const peer = plain(first.daemon)
      aborting.abort()
      expect((await rejection(offered)).code).toBe('client_aborted')
      await until('the connection closes', () => peer.closed)
      const second = await maker.pair()
      const left = offer(second.client, hello, { welcome: Welcome, handlers: () => recorder().handlers })
      plain(second.daemon)
      second.daemon.destroy()
      expect((await rejection(left)).code).toBe('daemon_lost')
    })

    /** A daemon's side that has greeted a peer whose frames are made by hand; channels 1 and 3 are open. */
    const raised = async () => {
      const pair = await maker.pair()
      const { side, accepted } = acceptPlainly(pair.daemon)
      const peer = plain(pair.client)
      peer.write(preamble())
      peer.write(raw(pair.client.framing, HELLO, 0, encode(hello)))
      const { wire } = await accepted
      wire.openChannel(1)
      wire.openChannel(3)
      return { side, peer, framing: pair.client.framing }
    }

    it('steps over types it does not know, in fragments or not', async () => {
      const pair = await maker.pair()
      const { side, accepted } = acceptPlainly(pair.daemon)
      const { framing } = pair.client
      const peer = plain(pair.client)
      peer.write(preamble())
      peer.write(raw(framing, HELLO, 0, encode(hello)))
      await accepted
      for (let n = 0; n < 20; n++) peer.write(raw(framing, 0x7e, n, pattern(200_000), 0xff))
      peer.write(raw(framing, REQUEST, 0, Uint8Array.of(1)))
      await until('the request', () => side.values.length === 1)
      expect(side.ends).toEqual([])
    })

    it('refuses a value over its cap by its headers, says too_large and closes', async () => {
      const { side, peer, framing } = await raised()
      peer.write(raw(framing, CANCEL, 1, new Uint8Array(frameRules[CANCEL].cap + 1)))
      await until('the connection closes', () => peer.closed)
      expect(peer.error?.code).toBe('too_large')
      await until('the end', () => side.ends.length === 1)
      expect(side.ends).toMatchObject([{ cause: 'error', code: 'too_large' }])
      expect(side.values).toEqual([])
    })

    it('refuses a run of fragments when its sum passes the cap', async () => {
      const { side, peer, framing } = await raised()
      const fragment = new Uint8Array(MAX_FRAME_PAYLOAD)
      const frames = frameRules[REQUEST].cap / MAX_FRAME_PAYLOAD
      for (let n = 0; n < frames; n++) peer.write(more(framing, REQUEST, 1, fragment))
      expect(side.ends).toEqual([])
      peer.write(raw(framing, REQUEST, 1, Uint8Array.of(1)))
      await until('the connection closes', () => peer.closed)
      expect(peer.error?.code).toBe('too_large')
      expect(side.values).toEqual([])
    })

    it('refuses frames that only the daemon sends, and values begun without credit', async () => {
      const first = await raised()
      const { framing } = first
      first.peer.write(raw(framing, WELCOME, 0, encode(welcome)))
      await until('the connection closes', () => first.peer.closed)
      expect(first.peer.error?.message).toContain('WELCOME')
      const second = await raised()
      second.side.hold = new Promise(() => {})
      const large = new Uint8Array(MAX_FRAME_PAYLOAD)
      for (let sent = 0; sent < INITIAL_CREDIT; sent += large.length)
        second.peer.write(raw(framing, DOC, 3, large))
      second.peer.write(raw(framing, DOC, 1, Uint8Array.of(1)))
      await until('the values', () => second.side.values.length === 5)
      expect(second.side.ends).toEqual([])
      second.peer.write(raw(framing, DOC, 3, Uint8Array.of(1)))
      await until('the connection closes', () => second.peer.closed)
      expect(second.peer.error).toMatchObject({
        code: 'overloaded',
        message: expect.stringContaining('without credit'),
      })
      expect(second.side.values).toHaveLength(5)
    })

    it('refuses to send what is over its cap and writes nothing of it', async () => {
      const { client, daemon } = await connected(maker)
      for (const type of [CANCEL, EPHEMERAL, REQUEST] as const) {
        const over = new Uint8Array(frameRules[type].cap + 1)
        expect(() => client.wire.send(type, 1, over)).toThrow(RoomdError)
        expect(() => client.wire.offer(type, 1, over)).toThrow(/over its limit/)
      }
      expect(client.wire.queued()).toBe(0)
      client.wire.send(REQUEST, 1, Uint8Array.of(1))
      await until('the request', () => daemon.values.length === 1)
    })

    it('delivers control frames and other channels while a long value is on its way', async () => {
      const { client, daemon } = await connected(maker)
      daemon.wire.send(BLOB, 1, pattern(20_000_000))
      daemon.wire.send(EVENT, 3, Uint8Array.of(3))
      daemon.wire.send(GOAWAY, 0, encode({ reason: 'stop', drain_ms: 1 }))
      await until('all values', () => client.values.length === 3)
      expect(client.values.map(({ type }) => type)).toEqual([GOAWAY, EVENT, BLOB])
      expect(Buffer.compare(client.values[2]?.payload ?? new Uint8Array(0), pattern(20_000_000))).toBe(0)
    })

    it('keeps one flooded channel from delaying another or any control frame', async () => {
      const { client, daemon } = await connected(maker)
      let release = (): void => {}
      client.hold = new Promise((resolve) => {
        release = resolve
      })
      let offered = 0
      while (daemon.wire.offer(EVENT, 1, pattern(100_000, offered))) offered++
      await until('the credit is used up', () => client.values.length > INITIAL_CREDIT / 100_000)
      const stuck = client.values.length
      expect(daemon.wire.queued(1)).toBeGreaterThan(3_000_000)
      client.hold = undefined
      for (let n = 0; n < 100; n++) daemon.wire.send(EVENT, 3, Uint8Array.of(n))
      client.wire.send(CANCEL, 1, Uint8Array.of(1))
      client.wire.send(DOC, 1, Uint8Array.of(1))
      await until('the other channel', () => client.values.length === stuck + 100)
      await until('what the client sends', () => daemon.values.length === 2)
      expect(client.values.slice(0, stuck).every(({ channel }) => channel === 1)).toBe(true)
      expect(daemon.writable).toEqual([])
      release()
      await until('the flooded channel goes on', () => client.values.length === offered + 100)
      const flooded = client.values.filter(({ channel }) => channel === 1)
      flooded.forEach(({ payload }, seed) => {
        expect(Buffer.compare(payload, pattern(100_000, seed))).toBe(0)
      })
      await until('the channel takes values again', () => daemon.writable.length === 1)
      expect(daemon.writable).toEqual([1])
    })

    it('returns credit for ever: a hundred times the window passes through', async () => {
      const { client, daemon } = await connected(maker)
      let bytes = 0
      const block = pattern(200_000)
      for (let n = 0; n < 500; n++) {
        daemon.wire.send(EVENT, 1, block)
        client.wire.send(DOC, 1, pattern(1000, n))
      }
      await until('all of it', () => client.values.length === 500 && daemon.values.length === 500)
      for (const { payload } of client.values) bytes += payload.length
      expect(bytes).toBe(100_000_000)
      expect(daemon.wire.queued()).toBe(0)
    })

    it('charges a large REQUEST and returns its credit', async () => {
      const { client, daemon } = await connected(maker)
      for (let n = 0; n < 30; n++) client.wire.send(REQUEST, 1, pattern(300_000, n))
      await until('all of it', () => daemon.values.length === 30)
      daemon.values.forEach(({ payload }, seed) => {
        expect(Buffer.compare(payload, pattern(300_000, seed))).toBe(0)
      })
    })

    it('discards what comes for a channel that is not open, but for the frames that make and end channels', async () => {
      const { client, daemon } = await connected(maker)
      client.wire.openChannel(9)
      client.wire.send(DOC, 9, pattern(10))
      client.wire.send(REQUEST, 9, pattern(10))
      client.wire.send(OPEN, 9, pattern(10))
      client.wire.send(CLOSE, 9, pattern(10))
      client.wire.send(DOC, 1, pattern(10))
      await until('the last value', () => daemon.values.some(({ type }) => type === DOC))
      expect(daemon.values.map(({ type, channel }) => [type, channel])).toEqual([
        [OPEN, 9],
        [CLOSE, 9],
        [DOC, 1],
      ])
      daemon.wire.closeChannel(1)
      client.wire.send(DOC, 1, pattern(10))
      client.wire.send(DOC, 3, pattern(10))
      await until('the next value', () => daemon.values.length === 4)
      expect(daemon.values[3]?.channel).toBe(3)
    })

    it('tells the reason of an ERROR to the other side, once, and delivers nothing after it', async () => {
      const { client, daemon } = await connected(maker)
      daemon.wire.send(EVENT, 1, new Uint8Array(15_000_000))
      daemon.wire.fail('session_superseded', 'another session took over')
      daemon.wire.send(EVENT, 1, pattern(1))
      daemon.wire.fail('internal', 'too late')
      expect(daemon.wire.offer(EVENT, 1, pattern(1))).toBe(false)
      const end = { cause: 'error', code: 'session_superseded', message: 'another session took over' }
      await until('both ends', () => client.ends.length === 1 && daemon.ends.length === 1)
      expect([client.ends, daemon.ends]).toEqual([[end], [end]])
      expect(client.values).toEqual([])
    })

    it('turns a failing handler into an ERROR with its code', async () => {
      const pair = await maker.pair()
      const client = recorder()
      const accepted = accept(pair.daemon, {
        hello: Hello,
        onHello: () => welcome,
        handlers: () => ({
          value: async () => {
            throw new RoomdError('invalid_argument', 'REQUEST: id: expected a number')
          },
          closed: () => {},
        }),
      })
      const { wire } = await offer(pair.client, hello, { welcome: Welcome, handlers: () => client.handlers })
      await accepted
      wire.send(REQUEST, 0, pattern(1))
      await until('the end', () => client.side.ends.length === 1)
      expect(client.side.ends).toEqual([
        { cause: 'error', code: 'invalid_argument', message: 'REQUEST: id: expected a number' },
      ])
    })

    it('sends all that is queued before it ends, and tells the ends apart', async () => {
      const { client, daemon } = await connected(maker)
      for (let n = 0; n < 50; n++) daemon.wire.send(RESPONSE, 1, pattern(100_000, n))
      daemon.wire.end(10_000)
      daemon.wire.send(RESPONSE, 1, pattern(1))
      await until('both ends', () => client.ends.length === 1 && daemon.ends.length === 1)
      expect(client.values).toHaveLength(50)
      expect(client.ends[0]?.cause).toBe('remote')
      expect(daemon.ends[0]?.cause).toBe('local')
    })

    it('ends at once when destroyed', async () => {
      const { client, daemon } = await connected(maker)
      client.wire.destroy('no longer needed')
      expect(client.ends).toEqual([])
      await until('both ends', () => client.ends.length === 1 && daemon.ends.length === 1)
      expect(client.ends).toEqual([{ cause: 'local', message: 'no longer needed' }])
      expect(['remote', 'lost']).toContain(daemon.ends[0]?.cause)
    })
  })
}
