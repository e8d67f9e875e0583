import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { encode } from '../../protocol/codec.ts'
import { FrameType, HEADER_BYTES } from '../../protocol/frames.ts'
import { API_VERSION, VERSION } from '../../protocol/version.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until, within } from '../support/until.ts'
import { bootId, startServer, type TestServer } from './harness.ts'

let running: TestServer | undefined
afterEach(async () => {
  await running?.dispose()
  running = undefined
})
const start = async (...args: Parameters<typeof startServer>) => {
  running = await startServer(...args)
  return running
}

const PREAMBLE = Buffer.from([0x52, 0x4f, 0x4f, 0x4d, 1, 1, 0, 0])

/** A socket that says what it wants and collects what it is told until it is closed. */
async function raw(server: TestServer) {
  const socket: Socket = connect(server.path)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()))
  return {
    write: (bytes: Uint8Array) => socket.write(bytes),
    text: () => Buffer.concat(chunks).toString('latin1'),
    bytes: () => Buffer.concat(chunks),
    closed: () => within('the server to close', closed),
    destroy: () => socket.destroy(),
  }
}

function frame(type: number, payload: Uint8Array, length = payload.length): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt32BE(length, 0)
  header.writeUInt8(type, 4)
  return Buffer.concat([header, payload])
}

describe('WELCOME', () => {
  test('tells who the daemon is, what it can and where this client instance counts on from', async () => {
    const server = await start()
    const client = await server.connect()
    expect(client.welcome).toMatchObject({
      boot_id: bootId,
      pid: process.pid,
      version: VERSION,
      api_version: API_VERSION,
      scope: 'owner',
      activation_generation: 7,
      mutation_id: 11,
      limits: { frame_payload: 256 * 1024, credit: 1024 * 1024, request: 16 * 1024 * 1024 },
    })
  })

  test('comes before the rooms are ready', async () => {
    const server = await start({ ready: false })
    const client = await server.connect()
    expect((await client.request(0, 'ping')).ok).toBe(true)
  })

  test('gives no more scope than the listener does', async () => {
    const server = await start({ scope: 'viewer' })
    expect((await server.connect()).welcome.scope).toBe('viewer')
  })
})

describe('a connection is refused', () => {
  test('when its first bytes are garbage', async () => {
    const server = await start()
    const socket = await raw(server)
    socket.write(Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'))
    await socket.closed()
    expect(server.server.connections).toBe(0)
  })

  test('when no protocol version is common, telling which side to update', async () => {
    const server = await start()
    const socket = await raw(server)
    socket.write(Buffer.from([0x52, 0x4f, 0x4f, 0x4d, 200, 201, 0, 0]))
    await socket.closed()
    expect(socket.text()).toMatch(/unsupported.*update/s)
  })

  test('when it says nothing for five seconds', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const server = await start({ clock })
    const socket = await raw(server)
    await until('the server to have accepted', () => socket.bytes().length >= 8)
    clock.advance(4_999)
    socket.write(PREAMBLE)
    clock.advance(1)
    // ERROR is sent, then the socket is closed whether or not the other side does.
    await until('the farewell to be due', () => clock.pending.length > 0)
    clock.advance(1_000)
    await socket.closed()
    expect(server.server.connections).toBe(0)
  })

  test('when its HELLO is no HELLO', async () => {
    const server = await start()
    for (const hello of [
      { client_instance: '../..', client: { name: 'x', version: '1', pid: 1 }, label: '' },
      { client_instance: 'long-enough' },
      [1, 2],
    ]) {
      const socket = await raw(server)
      socket.write(Buffer.concat([PREAMBLE, frame(FrameType.HELLO, encode(hello))]))
      await socket.closed()
      expect(socket.text()).toContain('invalid_argument')
    }
    expect(server.server.connections).toBe(0)
  })

  test('when something else comes before HELLO', async () => {
    const server = await start()
    const socket = await raw(server)
    socket.write(Buffer.concat([PREAMBLE, frame(FrameType.REQUEST, encode({ id: 1, method: 'ping' }))]))
    await socket.closed()
    expect(socket.text()).toContain('invalid_argument')
  })

  test('when its HELLO announces more bytes than a HELLO has, before they are sent', async () => {
    const server = await start()
    const socket = await raw(server)
    socket.write(Buffer.concat([PREAMBLE, frame(FrameType.HELLO, new Uint8Array(), 65 * 1024)]))
    await socket.closed()
    expect(socket.text()).toContain('too_large')
  })

  test('while the daemon shuts down', async () => {
    const server = await start()
    server.server.startStopping({ reason: 'stop', drain_ms: 10 })
    await expect(server.connect()).rejects.toMatchObject({ code: 'shutting_down' })
    server.server.goOn()
    await server.connect()
  })
})

test('a client that leaves in the middle of the handshake leaves nothing behind', async () => {
  const clock = new ManualClock(1_700_000_000_000)
  const server = await start({ clock })
  const idle = clock.pending.length
  for (const part of [new Uint8Array(), PREAMBLE.subarray(0, 3), PREAMBLE]) {
    const socket = await raw(server)
    await until('the server to have accepted', () => socket.bytes().length >= 8)
    socket.write(part)
    socket.destroy()
  }
  await until('no timer to be left', () => clock.pending.length === idle)
  expect(server.server.connections).toBe(0)
})
