import { pino } from 'pino'
import { afterEach, expect, test } from 'vitest'
import { Stopping } from '../../daemon/server/stop.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import { until } from '../support/until.ts'
import { bootId, startServer, type TestServer } from './harness.ts'
import { deferred } from './scripted-rooms.ts'

let running: TestServer | undefined
afterEach(async () => {
  await running?.dispose()
  running = undefined
})

/** A server whose `shutdown` works as the daemon's does, up to leaving. */
async function stoppable() {
  const left: string[] = []
  const server: TestServer = await startServer({ process: { stop: (request) => stopping.stop(request) } })
  running = server
  const stopping = new Stopping({
    server: server.server,
    store: { settled: async () => {} } as never,
    log: pino({ level: 'silent' }),
    leave: () => {
      left.push('left')
      void server.server.close(1_000)
    },
  })
  return { server, stopping, left }
}

test('shutdown tells everybody, settles, answers, and only then leaves', async () => {
  const { server, left } = await stoppable()
  const settling = deferred<{ rooms: number; kernels_kept: number }>()
  server.rooms.onShutdown = () => settling.promise
  const asking = await server.connect()
  const other = await server.connect()
  await other.opened(1)
  const id = asking.ask(0, 'shutdown', {
    boot_id: bootId,
    reason: 'upgrade',
    next_version: '9.9.9',
    kernels: true,
  })
  const goAway = { reason: 'upgrade', next_version: '9.9.9', drain_ms: expect.any(Number) }
  expect(await asking.next(FrameType.GOAWAY, 0)).toEqual(goAway)
  expect(await other.next(FrameType.GOAWAY, 0)).toEqual(goAway)
  // No new work from now on; ping and status still tell that it lives.
  expect(await other.request(1, 'get_cells')).toMatchObject({
    error: { code: 'shutting_down', retryable: true },
  })
  expect(await other.request(0, 'list_rooms')).toMatchObject({ error: { code: 'shutting_down' } })
  expect((await other.request(0, 'status')).ok).toBe(true)
  expect(left).toEqual([])
  settling.resolve({ rooms: 3, kernels_kept: 2 })
  expect(await asking.answer(0, id)).toMatchObject({ ok: true, value: { rooms: 3, kernels_kept: 2 } })
  expect(server.rooms.shutdowns).toEqual([{ kernels: true }])
  await asking.ended()
  await other.ended()
  await until('the peer to be released', () => server.rooms.peers.size === 0)
  expect(left).toEqual(['left'])
})

test('a shutdown meant for another daemon is refused', async () => {
  const { server, left } = await stoppable()
  const client = await server.connect()
  const answer = await client.request(0, 'shutdown', { boot_id: '66666666-6666-4666-8666-666666666666' })
  expect(answer).toMatchObject({ error: { code: 'conflict', cause: { boot_id: bootId } } })
  expect(client.received.some((one) => one.type === FrameType.GOAWAY)).toBe(false)
  expect(left).toEqual([])
})

test('what cannot be made durable stops the shutdown, and the daemon goes on', async () => {
  const { server, left } = await stoppable()
  server.rooms.onShutdown = () =>
    Promise.reject(new RoomdError('storage_full', 'a.ipynb has 3 edits that do not fit the disk'))
  const client = await server.connect()
  await client.opened(1)
  expect(await client.request(0, 'shutdown', { boot_id: bootId })).toMatchObject({
    error: { code: 'storage_full', message: expect.stringContaining('3 edits') },
  })
  expect((await client.request(1, 'get_cells')).ok).toBe(true)
  await (await server.connect()).opened(1)
  expect(left).toEqual([])
  server.rooms.onShutdown = async () => ({ rooms: 1, kernels_kept: 0 })
  expect((await client.request(0, 'shutdown', { boot_id: bootId })).ok).toBe(true)
  await client.ended()
  expect(left).toEqual(['left'])
})

test('two shutdowns at once are one', async () => {
  const { server, left } = await stoppable()
  const first = await server.connect()
  const second = await server.connect()
  const settling = deferred<{ rooms: number; kernels_kept: number }>()
  server.rooms.onShutdown = () => settling.promise
  const a = first.ask(0, 'shutdown', { boot_id: bootId })
  const b = second.ask(0, 'shutdown', { boot_id: bootId })
  await first.settled()
  await second.settled()
  settling.resolve({ rooms: 1, kernels_kept: 1 })
  expect((await first.answer(0, a)).ok).toBe(true)
  expect((await second.answer(0, b)).ok).toBe(true)
  expect(server.rooms.shutdowns).toHaveLength(1)
  expect(left).toEqual(['left'])
})

test('what is queued for a client is sent before its connection ends', async () => {
  const { server } = await stoppable()
  let asked = 0
  server.rooms.roomRequest = async () => {
    asked++
    return { big: new Uint8Array(900 * 1024) }
  }
  const client = await server.connect()
  await client.opened(1)
  const ids = [client.ask(1, 'get_cells'), client.ask(1, 'get_cells'), client.ask(1, 'get_cells')]
  await until('the requests to be under way', () => asked === 3)
  const stop = client.ask(0, 'shutdown', { boot_id: bootId })
  for (const id of ids) expect((await client.answer(1, id)).ok).toBe(true)
  expect((await client.answer(0, stop)).ok).toBe(true)
  expect((await client.ended()).cause).not.toBe('error')
})
