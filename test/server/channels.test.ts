/** Every way a channel ends releases its peer exactly once, at whatever step it ends. */
import { afterEach, describe, expect, test } from 'vitest'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType, INITIAL_CREDIT, MAX_QUEUED_CHANNEL } from '../../protocol/frames.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'
import { startServer, type TestClient, type TestServer } from './harness.ts'
import { deferred } from './scripted-rooms.ts'

let running: TestServer | undefined
afterEach(async () => {
  await running?.dispose()
  running = undefined
})
const start = async (...args: Parameters<typeof startServer>) => {
  running = await startServer(...args)
  return running
}

/** The ways a channel ends from outside. */
const leaving: Record<string, (client: TestClient) => Promise<unknown>> = {
  CLOSE: async (client) => {
    client.send(FrameType.CLOSE, 1, { code: 'closed', reason: 'enough' })
    await client.settled()
  },
  'the end of the connection': async (client) => client.wire.end(),
  'the loss of the connection': async (client) => client.wire.destroy(),
  'a breach of the protocol': async (client) => {
    client.send(FrameType.OPEN, 1, { target: { path: '/again' }, mode: 'open' })
    return client.ended()
  },
}

async function countedBackToZero(server: TestServer, peers: number) {
  await until(
    'all peers to be gone',
    () => server.rooms.peers.size === 0 && server.rooms.all.length === peers,
  )
  for (const peer of server.rooms.all) expect(peer.detached).toHaveLength(1)
}

describe.each(Object.entries(leaving))('left by %s', (name, leave) => {
  test('an attached channel releases its peer once', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    expect(server.rooms.peers.size).toBe(1)
    await leave(client)
    await countedBackToZero(server, 1)
  })

  test('before the rooms are ready no peer is made', async () => {
    const server = await start({ ready: false })
    const client = await server.connect()
    client.open(1)
    await client.settled()
    await leave(client)
    // What leaves with its connection is forgotten when the server has seen that end.
    const connections = name === 'CLOSE' ? 1 : 0
    await until('the channel to be forgotten', () => server.server.connections === connections)
    const other = await server.connect()
    server.server.ready(server.rooms)
    await other.opened(1)
    expect(server.rooms.attaching).toHaveLength(1)
  })

  test('while attaching waits, no peer is left', async () => {
    const server = await start()
    const gate = deferred<void>()
    server.rooms.beforeAttach = () => gate.promise
    const client = await server.connect()
    client.open(1)
    await until('attaching to have begun', () => server.rooms.attaching.length === 1)
    const { signal } = server.rooms.attaching[0]?.context ?? {}
    await leave(client)
    await until('the rooms to be told', () => signal?.aborted === true)
    gate.resolve()
    await countedBackToZero(server, 0)
  })

  test('while attaching waits and the rooms overlook it, the peer that comes is released once', async () => {
    const server = await start()
    const gate = deferred<void>()
    server.rooms.beforeAttach = () => gate.promise
    server.rooms.heedsAbort = false
    const client = await server.connect()
    client.open(1)
    await until('attaching to have begun', () => server.rooms.attaching.length === 1)
    const { signal } = server.rooms.attaching[0]?.context ?? {}
    await leave(client)
    await until('the rooms to be told', () => signal?.aborted === true)
    gate.resolve()
    await countedBackToZero(server, 1)
  })

  test('between the peer and the end of attaching, the peer is released once', async () => {
    const server = await start()
    const gate = deferred<void>()
    server.rooms.afterAttach = () => gate.promise
    const client = await server.connect()
    await client.opened(1)
    const { signal } = server.rooms.attaching[0]?.context ?? {}
    await leave(client)
    await until('the rooms to be told', () => signal?.aborted === true)
    gate.resolve()
    await countedBackToZero(server, 1)
  })

  test('with a request under way, its signal is aborted and nothing is answered', async () => {
    const server = await start()
    let signal: AbortSignal | undefined
    const gate = deferred<unknown>()
    server.rooms.roomRequest = (_peer, _method, _args, context) => {
      signal = context.signal
      return gate.promise
    }
    const client = await server.connect()
    await client.opened(1)
    const id = client.ask(1, 'get_cells')
    await until('the request to be under way', () => signal !== undefined)
    await leave(client)
    await until('the request to be aborted', () => signal?.aborted === true)
    gate.resolve({ cells: [] })
    await countedBackToZero(server, 1)
    expect(
      client.received.find((one) => (one.value as { id?: number }).id === id && one.channel === 1),
    ).toBeUndefined()
  })
})

test('the loss of a connection releases all its peers and nobody else’s', async () => {
  const server = await start()
  const client = await server.connect()
  const other = await server.connect()
  await Promise.all([1, 3, 5].map((channel) => client.opened(channel)))
  await other.opened(1)
  client.wire.destroy()
  await until('three peers to be gone', () => server.rooms.peers.size === 1)
  expect((await other.request(1, 'get_cells')).ok).toBe(true)
})

test('a detach by the room closes the channel and spares the connection', async () => {
  const server = await start()
  const client = await server.connect()
  await client.opened(1)
  await client.opened(3)
  const gate = deferred<unknown>()
  server.rooms.roomRequest = () => gate.promise
  client.ask(1, 'get_cells')
  await client.settled()
  server.rooms.all[0]?.kick('the room was closed')
  expect(await client.next(FrameType.CLOSE, 1)).toEqual({ code: 'closed', reason: 'the room was closed' })
  gate.resolve({})
  server.rooms.roomRequest = async () => ({ fine: true })
  expect((await client.request(3, 'get_cells')).value).toEqual({ fine: true })
  expect(server.rooms.peers.size).toBe(1)
})

test('a detach by the room while attaching still waits leaves no peer', async () => {
  const server = await start()
  const gate = deferred<void>()
  server.rooms.afterAttach = () => gate.promise
  const client = await server.connect()
  await client.opened(1)
  server.rooms.all[0]?.channel.close({ code: 'notebook_unavailable', reason: 'it went' })
  expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({ code: 'notebook_unavailable' })
  gate.resolve()
  await countedBackToZero(server, 1)
})

describe('OPEN', () => {
  test('that the rooms refuse is answered with CLOSE and the whole error', async () => {
    const server = await start()
    server.rooms.beforeAttach = async () => {
      throw new RoomdError('file_active_elsewhere', 'another daemon has it', { cause: { pid: 7 } })
    }
    const client = await server.connect()
    client.open(1)
    expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({
      code: 'file_active_elsewhere',
      reason: 'another daemon has it',
      error: { code: 'file_active_elsewhere', retryable: false, cause: { pid: 7 } },
    })
    await client.settled()
    await countedBackToZero(server, 0)
  })

  test('that says nothing sensible is answered with CLOSE that names the place', async () => {
    const server = await start()
    const client = await server.connect()
    client.open(1, { mode: 'destroy' as 'open' })
    expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({
      code: 'invalid_argument',
      reason: expect.stringContaining('mode'),
    })
    client.wire.openChannel(3)
    client.send(FrameType.OPEN, 3, new Uint8Array([0xc1]))
    expect(await client.next(FrameType.CLOSE, 3)).toMatchObject({ code: 'invalid_argument' })
    await client.settled()
  })

  test.each([0, 2, 1])('on channel %i, even or used before, ends the connection', async (channel) => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    client.send(FrameType.CLOSE, 1, { code: 'closed', reason: '' })
    client.send(FrameType.OPEN, channel, { target: { path: '/a' }, mode: 'open' })
    expect(await client.ended()).toMatchObject({ cause: 'error', code: 'invalid_argument' })
    await countedBackToZero(server, 1)
  })

  test('asks for no more scope than the connection has', async () => {
    const server = await start({ scope: 'editor' })
    const client = await server.connect()
    client.open(1, { scope: 'owner' })
    expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({ code: 'forbidden' })
    await client.opened(3, { scope: 'viewer' })
  })

  test('is refused while the daemon shuts down', async () => {
    const server = await start()
    const client = await server.connect()
    server.server.startStopping({ reason: 'restart', drain_ms: 10 })
    client.open(1)
    expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({ code: 'shutting_down' })
  })

  test('before the rooms are ready is held, with the requests behind it, in order', async () => {
    const server = await start({ ready: false })
    const seen: string[] = []
    server.rooms.roomRequest = async (_peer, method) => {
      seen.push(method)
      return {}
    }
    const client = await server.connect()
    client.open(1)
    const ids = ['get_cells', 'list_executions', 'source_status'].map((method) => client.ask(1, method))
    await client.settled()
    expect(seen).toEqual([])
    server.server.ready(server.rooms)
    for (const id of ids) expect((await client.answer(1, id)).ok).toBe(true)
    expect(seen).toEqual(['get_cells', 'list_executions', 'source_status'])
  })
})

describe('frames of a room channel', () => {
  test('DOC reaches the peer in order, those sent before attaching too', async () => {
    const server = await start()
    const gate = deferred<void>()
    server.rooms.beforeAttach = () => gate.promise
    const client = await server.connect()
    client.open(1)
    for (const n of [1, 2]) client.send(FrameType.DOC, 1, new Uint8Array([0, n]))
    await client.settled()
    gate.resolve()
    await client.next(FrameType.OPENED, 1)
    client.send(FrameType.DOC, 1, new Uint8Array([0, 3]))
    const peer = await until('three updates', () =>
      server.rooms.all.find((one) => one.documents.length === 3),
    )
    expect(peer.documents.map((one) => one[1])).toEqual([1, 2, 3])
  })

  test('DOC that the room refuses closes the channel with its error', async () => {
    const server = await start()
    server.rooms.onDocument = async () => {
      throw new RoomdError('sync_failed', 'a foreign history')
    }
    const client = await server.connect()
    await client.opened(1)
    client.send(FrameType.DOC, 1, new Uint8Array([0]))
    expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({
      code: 'sync_failed',
      error: { retryable: true },
    })
    await countedBackToZero(server, 1)
  })

  test('EPHEMERAL reaches the peer', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    client.send(FrameType.EPHEMERAL, 1, new Uint8Array([1, 9]))
    const peer = server.rooms.all[0]
    await until('the whisper', () => peer?.whispers.length === 1)
  })

  test('a BLOB from a client closes the channel', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    client.send(FrameType.BLOB, 1, new Uint8Array([1]))
    expect(await client.next(FrameType.CLOSE, 1)).toMatchObject({ code: 'unsupported' })
    await countedBackToZero(server, 1)
  })

  test('what arrives on a closed channel is dropped', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    client.send(FrameType.CLOSE, 1, { code: 'closed', reason: '' })
    for (const type of [FrameType.DOC, FrameType.EPHEMERAL, FrameType.CLOSE]) {
      client.send(type, 1, new Uint8Array([0]))
    }
    client.ask(1, 'get_cells')
    await client.settled()
    await countedBackToZero(server, 1)
  })

  test('DOC on channel 0 ends the connection', async () => {
    const server = await start()
    const client = await server.connect()
    client.send(FrameType.DOC, 0, new Uint8Array([0]))
    expect(await client.ended()).toMatchObject({ cause: 'error', code: 'invalid_argument' })
  })
})

test('a flooded channel refuses, tells when it takes more, and takes nothing once it is closed', async () => {
  const server = await start()
  const client = await server.connect()
  await client.opened(1)
  const peer = server.rooms.all[0]
  if (!peer) throw new Error('no peer')
  let writable = 0
  peer.channel.writable = () => writable++
  const piece = new Uint8Array(256 * 1024)
  let taken = 0
  while (peer.channel.offer(FrameType.DOC, piece)) taken++
  expect(taken).toBeGreaterThan(0)
  expect(taken * piece.length).toBeLessThan(MAX_QUEUED_CHANNEL + INITIAL_CREDIT)
  await until('the channel to be writable', () => writable === 1)
  await until(
    'everything to have arrived',
    () => client.received.filter((one) => one.type === FrameType.DOC).length === taken,
  )
  peer.kick('enough')
  expect(peer.channel.offer(FrameType.DOC, piece)).toBe(false)
  peer.channel.send(FrameType.READINESS, new Uint8Array([0x80]))
  await client.next(FrameType.CLOSE, 1)
  await client.settled()
  expect(client.received.some((one) => one.type === FrameType.READINESS)).toBe(false)
})

test('a client that only listens counts as alive as long as its connection is', async () => {
  const clock = new ManualClock(1_700_000_000_000)
  const server = await start({ clock })
  const client = await server.connect()
  await client.opened(1)
  await client.settled()
  const peer = server.rooms.all[0]
  const before = peer?.touches ?? 0
  // PINGs are answered by the client’s wire; each answer is something read.
  clock.advance(15_000)
  await until(
    'the PING to be answered',
    async () => server.server.connections === 1 && client.wire.idle() < 1_000,
  )
  await client.settled()
  clock.advance(15_000)
  expect(peer?.touches).toBeGreaterThan(before)
})
