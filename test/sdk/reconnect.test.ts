/** The connection: finding the daemon, losing it, getting it back. */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DaemonEvent } from '../../client/sdk/connection.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'
import { Fixture } from './fixture.ts'

let fixture: Fixture
beforeEach(() => {
  fixture = new Fixture()
})
afterEach(() => fixture.dispose())

const pong = {
  request: (
    peer: { answer(channel: number, id: number, value: unknown): void },
    channel: number,
    request: { id: number },
  ) => peer.answer(channel, request.id, {}),
}

test('without a wait, a missing daemon is told at once and says what to do', async () => {
  await expect(fixture.connect({ waitMs: 0 })).rejects.toMatchObject({
    code: 'daemon_lost',
    message: expect.stringContaining('roomd start'),
  })
})

test('connecting waits for a socket that appears later', async () => {
  const connecting = fixture.connect()
  await fixture.daemon(pong)
  const client = await connecting
  await client.call('ping', {})
})

test('a runtime folder that does not exist yet is noticed when it appears', async () => {
  rmSync(join(fixture.folder, 'run'), { recursive: true })
  const clock = new ManualClock()
  const connecting = fixture.connect({ clock })
  await until('the first retry to be waited for', () => clock.pending.length > 1)
  // From here on, time stands still: only watching can find it.
  mkdirSync(join(fixture.folder, 'run'))
  await fixture.daemon(pong)
  const client = await connecting
  await client.call('ping', {})
})

test('a call made while the daemon is away is answered by the next one', async () => {
  const first = await fixture.daemon(pong)
  const client = await fixture.connect()
  await first.kill()
  await until('the loss to be noticed', () => !client.connected)
  const call = client.call('ping', {})
  const second = await fixture.daemon(pong)
  await call
  expect(client.daemon?.boot_id).toBe(second.bootId)
})

test('a call under way when the daemon dies is sent again to the next one', async () => {
  const first = await fixture.daemon({})
  const client = await fixture.connect()
  const call = client.call('list_rooms', {})
  await until('the request to arrive', () => first.requests.length === 1)
  await first.kill()
  await fixture.daemon({
    request: (peer, channel, request) => peer.answer(channel, request.id, { rooms: [] }),
  })
  await expect(call).resolves.toEqual({ rooms: [] })
})

test('a call fails with daemon_lost when the daemon stays away for the whole wait', async () => {
  const clock = new ManualClock()
  const daemon = await fixture.daemon(pong)
  const client = await fixture.connect({ clock })
  await daemon.kill()
  await until('the loss to be noticed', () => !client.connected)
  const call = client.call('ping', {})
  const failed = expect(call).rejects.toMatchObject({ code: 'daemon_lost' })
  clock.advance(10_000)
  await failed
})

test('incarnations are told: connected, lost, replaced', async () => {
  const events: DaemonEvent[] = []
  const first = await fixture.daemon()
  const client = await fixture.connect()
  client.on('daemon', (event) => events.push(event))
  await first.kill()
  const second = await fixture.daemon()
  await until('the replacement', () => events.length === 2)
  expect(events[0]).toMatchObject({ state: 'lost', boot_id: first.bootId })
  expect(events[1]).toMatchObject({
    state: 'replaced',
    boot_id: second.bootId,
    previous: { boot_id: first.bootId },
  })
})

test('the same incarnation on a new connection is connected, not replaced', async () => {
  const events: DaemonEvent[] = []
  const daemon = await fixture.daemon()
  const client = await fixture.connect()
  client.on('daemon', (event) => events.push(event))
  for (const peer of daemon.live) peer.wire.destroy('cut')
  await until('the connection to be back', () => events.length === 2)
  expect(events.map((event) => event.state)).toEqual(['lost', 'connected'])
})

test('GOAWAY is told with its reason', async () => {
  const events: DaemonEvent[] = []
  const daemon = await fixture.daemon()
  const client = await fixture.connect()
  client.on('daemon', (event) => events.push(event))
  daemon.live[0]?.send(FrameType.GOAWAY, 0, { reason: 'upgrade', drain_ms: 100, next_version: '9.9.9' })
  await until('GOAWAY', () => events.length === 1)
  expect(events[0]).toMatchObject({ state: 'going_away', reason: 'upgrade', next_version: '9.9.9' })
})

test('a call refused because the daemon goes away is answered by its successor', async () => {
  const first = await fixture.daemon({
    request: (peer, channel, request) => peer.refuse(channel, request.id, 'shutting_down'),
  })
  const client = await fixture.connect()
  const call = client.call('list_rooms', {})
  await until('the refusal', () => first.requests.length > 0)
  await first.kill()
  await fixture.daemon({
    request: (peer, channel, request) => peer.answer(channel, request.id, { rooms: [] }),
  })
  await expect(call).resolves.toEqual({ rooms: [] })
})

test('shutdown is not sent to the daemon that comes after', async () => {
  const first = await fixture.daemon({})
  const client = await fixture.connect()
  const call = client.call('shutdown', { boot_id: first.bootId })
  const failed = expect(call).rejects.toMatchObject({ code: 'daemon_lost' })
  await until('the request to arrive', () => first.requests.length === 1)
  await first.kill()
  await failed
  const second = await fixture.daemon(pong)
  await client.call('ping', {})
  expect(second.requests.map(({ request }) => request.method)).toEqual(['ping'])
})

test('the daemon is started once for calls that find none, and not when the environment forbids it', async () => {
  let starts = 0
  const autostart = async () => {
    starts++
    await fixture.daemon(pong)
  }
  await expect(
    fixture.connect({ waitMs: 0, autostart, env: { ROOMD_NO_AUTOSTART: '1' } }),
  ).rejects.toMatchObject({ code: 'daemon_lost' })
  expect(starts).toBe(0)
  const client = await fixture.connect({ autostart })
  await Promise.all([client.call('ping', {}), client.call('ping', {})])
  expect(starts).toBe(1)
})

test('a start that is refused is what the waiting call says', async () => {
  const autostart = () =>
    Promise.reject(new RoomdError('daemon_lost', 'roomd was stopped; run "roomd start"'))
  await expect(fixture.connect({ autostart })).rejects.toMatchObject({
    message: 'roomd was stopped; run "roomd start"',
  })
})

test('a refused client does not wait for another answer', async () => {
  const daemon = await fixture.daemon()
  daemon.script = {
    get welcome(): never {
      throw new RoomdError('unauthorized', 'no')
    },
  }
  await expect(fixture.connect()).rejects.toMatchObject({ code: 'unauthorized' })
})

test('aborting connect leaves nothing that dials', async () => {
  const abort = new AbortController()
  const connecting = fixture.connect({ signal: abort.signal })
  abort.abort()
  await expect(connecting).rejects.toMatchObject({ code: 'client_aborted' })
  const daemon = await fixture.daemon()
  await fixture.connect()
  expect(daemon.peers).toHaveLength(1)
})

test('a closed client rejects calls and opens nothing', async () => {
  await fixture.daemon()
  const client = await fixture.connect()
  const open = client.call('list_rooms', {})
  const failed = expect(open).rejects.toMatchObject({ code: 'client_closed' })
  await client.close()
  await failed
  await expect(client.call('ping', {})).rejects.toMatchObject({ code: 'client_closed' })
  await expect(client.openRoom({ path: '/x' })).rejects.toMatchObject({ code: 'client_closed' })
})
