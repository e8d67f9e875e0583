/** Sessions against a daemon that does what the test says: states and races that a real one shows rarely. */

import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { Activities } from '../../client/mcp/activities.ts'
import { DaemonLink } from '../../client/mcp/daemon-link.ts'
import { MutationBlock } from '../../client/mcp/mutation-block.ts'
import { Sessions } from '../../client/mcp/sessions/sessions.ts'
import { callTool } from '../../client/mcp/tools/dispatch.ts'
import type { Close } from '../../protocol/channels.ts'
import { systemClock } from '../../protocol/clock.ts'
import { FrameType } from '../../protocol/frames.ts'
import { webSocketTransport } from '../../protocol/wire/websocket-transport.ts'
import { Fixture } from '../sdk/fixture.ts'
import { notebookId, ready, type Script, ScriptedDaemon } from '../sdk/scripted-daemon.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'

let fixture: Fixture
const ends: Array<() => unknown> = []

beforeEach(() => {
  fixture = new Fixture()
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await fixture.dispose()
})

function client(clock = systemClock) {
  const daemon = new DaemonLink({
    env: { ROOMD_SOCKET: fixture.socket },
    clock: systemClock,
    label: () => 'test',
    kind: 'mcp',
    clientInstance: 'test-instance',
    autostart: null,
  })
  const sessions = new Sessions({ daemon, clock: systemClock, cwd: fixture.folder })
  ends.push(async () => {
    sessions.dispose()
    await daemon.close()
  })
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const result = await callTool(name, args, {
      sessions,
      daemon,
      activities: new Activities(),
      clock,
      cwd: fixture.folder,
      signal: new AbortController().signal,
      mutations: new MutationBlock(undefined),
      progress: null,
      ask: null,
      show: null,
      record: null,
    })
    return result.structuredContent as Record<string, unknown> & { error?: { code: string; cause?: unknown } }
  }
  return { daemon, sessions, call }
}

/** find_room knows nothing; opening works. */
const plain: Script = {
  request: (peer, channel, request) => peer.refuse(channel, request.id, 'not_found'),
}

test('stalled_local_peer_keeps_document_capabilities_closed', async () => {
  const daemon = await fixture.daemon({
    ...plain,
    open: (peer, channel) => {
      peer.opened(channel, { readiness: { ...ready, document: 'syncing' } })
      peer.page(channel, [])
    },
  })
  const clock = new ManualClock()
  const { call } = client(clock)
  expect(await call('connect_notebook', { notebook_id: notebookId })).toMatchObject({
    readiness: { document: 'syncing' },
    capabilities: { read: true, mutate: false, execute: false },
  })
  const refused = call('create_cell', { source: 'x' })
  await until('the call to wait', () => clock.pending.length > 0)
  clock.advance(10_000)
  expect((await refused).error).toMatchObject({
    code: 'notebook_not_ready',
    cause: { readiness: { document: 'syncing' } },
  })
  // What becomes ready while a call waits lets it through.
  const waiting = call('create_cell', { source: 'x' })
  await until('the call to wait', () => clock.pending.length > 0)
  const { peer, channel } = daemon.opens[0] ?? {}
  daemon.script.request = (at, on, request) => at.refuse(on, request.id, 'source_degraded', 'arrived')
  peer?.send(FrameType.READINESS, channel ?? 0, ready)
  expect((await waiting).error).toMatchObject({ code: 'source_degraded', message: 'arrived' })
})

test('daemon_binding_requires_equal_samples: a daemon that is replaced while a room is opened is asked again', async () => {
  const first = await fixture.daemon({
    ...plain,
    // Opened by the first, the picture completed by the second.
    open: (peer, channel) => peer.opened(channel),
  })
  const { call, sessions } = client()
  const connecting = call('connect_notebook', { notebook_id: notebookId })
  await until('the open', () => first.opens.length === 1)
  await first.kill()
  const second = await fixture.daemon(plain)
  const connected = await connecting
  expect(connected.daemon).toMatchObject({ boot_id: second.bootId })
  expect(sessions.active?.bootId).toBe(second.bootId)
  expect(second.opens.length).toBe(2)
})

test('a session that a newer process took over is superseded and not fought for', async () => {
  const daemon = await fixture.daemon(plain)
  const { call } = client()
  await call('connect_notebook', { notebook_id: notebookId })
  await daemon.kill()
  const after = await fixture.daemon({
    ...plain,
    welcome: { activation_generation: 99 },
    open: (peer, channel, open) => {
      const close: Close = { code: 'session_superseded', reason: 'a newer one won' }
      if ((open.activation_generation ?? 0) < 99) peer.send(FrameType.CLOSE, channel, close)
      else {
        peer.opened(channel)
        peer.page(channel, [])
      }
    },
  })
  const lost = await until('the session to be lost', async () => {
    const answer = await call('get_source_status')
    return answer.error?.code !== 'not_found' && answer.error
  })
  const told = {
    code: 'session_superseded',
    cause: { reason: 'superseded', notebook_id: notebookId },
    next: { tool: 'connect_notebook', arguments: { path: '/x.ipynb' } },
  }
  expect(lost).toMatchObject(told)
  expect((await call('get_source_status')).error).toMatchObject(told)
  expect(after.opens.map(({ open }) => open.activation_generation)).toEqual([1])
  // An explicit connect is another matter: it counts on from there.
  expect(await call('connect_notebook', { notebook_id: notebookId })).toMatchObject({
    activation_generation: 100,
  })
})

test('hosted_binding_survives_local_daemon_loss', async () => {
  const remote = ScriptedDaemon.onTransports({ ...plain })
  const sockets = new WebSocketServer({ noServer: true })
  const server = createServer()
  const seen: (string | undefined)[] = []
  server.on('upgrade', (request, socket, head) => {
    seen.push(request.headers.authorization)
    sockets.handleUpgrade(request, socket, head, (webSocket) =>
      remote.accept(webSocketTransport(webSocket as never)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/?notebook=${notebookId}&token=secret`
  const local = await fixture.daemon(plain)
  const { call, sessions, daemon } = client()
  await daemon.local()
  expect(await call('connect_notebook', { target: url })).toMatchObject({
    status: 'connected',
    daemon: { boot_id: remote.bootId },
  })
  expect(seen).toEqual(['Bearer secret'])
  expect(sessions.active).toMatchObject({ origin: 'remote', target: { kind: 'remote', url } })
  const { active } = sessions
  await local.kill()
  await fixture.daemon(plain)
  await until('the local one to be back', () => daemon.present?.connected === true)
  expect(sessions.active).toBe(active)
  expect(active?.bound).toBe(true)
  expect(await call('connect_notebook', { target: url })).toMatchObject({ status: 'already_connected' })
})

test('created_notebook_recovery_keeps_new_identity: a create that loses names the room it made', async () => {
  let finish: () => void = () => {}
  await fixture.daemon({
    ...plain,
    open: (peer, channel, open) => {
      const page = (): void => {
        peer.opened(channel)
        peer.page(channel, [])
      }
      if ('create' in open.target) finish = page
      else page()
    },
  })
  writeFileSync(join(fixture.folder, 'b.ipynb'), '{}')
  const { call } = client()
  const creating = call('create_notebook', { kernel: 'javascript' })
  await until('the create', () => finish.name === 'page')
  await call('connect_notebook', { path: 'b.ipynb' })
  finish()
  expect((await creating).error).toMatchObject({
    code: 'session_superseded',
    cause: { notebook_id: notebookId },
    next: { tool: 'connect_notebook' },
  })
})

test('a failed connect leaves the active notebook as it was', async () => {
  const daemon = await fixture.daemon(plain)
  const { call, sessions } = client()
  await call('connect_notebook', { notebook_id: notebookId })
  const before = sessions.active
  daemon.script.open = (peer, channel) =>
    peer.send(FrameType.CLOSE, channel, { code: 'notebook_unavailable', reason: 'gone' })
  const other = '33333333-3333-4333-8333-333333333333'
  expect((await call('connect_notebook', { notebook_id: other })).error?.code).toBe('notebook_unavailable')
  expect(sessions.active).toBe(before)
  expect(before?.bound).toBe(true)
})
