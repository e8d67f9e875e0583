/** The daemon's incarnation against the sessions of a client: scenarios of nteract's daemon watch that no other test here pins. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DaemonLink } from '../../client/mcp/daemon-link.ts'
import { Sessions } from '../../client/mcp/sessions/sessions.ts'
import { parseTarget } from '../../client/mcp/sessions/target.ts'
import { connect } from '../../client/sdk/connect.ts'
import { systemClock } from '../../protocol/clock.ts'
import { startChild, startTestDaemon, withDaemon } from '../mcp/harness.ts'
import { Fixture } from '../sdk/fixture.ts'
import { notebookId, type Script } from '../sdk/scripted-daemon.ts'
import { withHome } from '../support/home.ts'
import { signal } from '../support/processes.ts'
import { until } from '../support/until.ts'

let fixture: Fixture
const ends: Array<() => unknown> = []

beforeEach(() => {
  fixture = new Fixture()
})
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
  await fixture.dispose()
})

function openClient() {
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
  return { daemon, sessions }
}

/** find_room knows nothing; opening works. */
const plain: Script = {
  request: (peer, channel, request) => peer.refuse(channel, request.id, 'not_found'),
}
const target = () => parseTarget(notebookId, fixture.folder)

test('daemon_incarnation_sample_retries_transient_unavailability: a dial that is cut off is repeated, and the session is bound', async () => {
  let cut = 0
  const daemon = await fixture.daemon({
    ...plain,
    connected: (peer) => {
      if (cut++ < 2) peer.wire.destroy('cut off')
    },
  })
  const { sessions } = openClient()
  await sessions.connect(target())
  expect(cut).toBeGreaterThan(2)
  expect(sessions.active).toMatchObject({ bound: true, bootId: daemon.bootId })
})

test('same_incarnation_heartbeat_is_structural_noop: meeting the same incarnation again changes nothing', async () => {
  const daemon = await fixture.daemon(plain)
  const { sessions } = openClient()
  await sessions.connect(target())
  const { active } = sessions
  const before = { generation: active?.generation, bootId: active?.bootId, keys: active?.keys }
  for (let times = 1; times <= 3; times++) {
    for (const peer of daemon.live) peer.wire.destroy('the connection broke')
    await until('the session on a new connection', () => daemon.opens.length === times + 1 && active?.bound)
    expect(sessions.active).toBe(active)
    expect({ generation: active?.generation, bootId: active?.bootId, keys: active?.keys }).toEqual(before)
  }
  // Each time as what it was: resumed by its id, never as a new activation.
  const generations = daemon.opens.map(({ open }) => open.activation_generation)
  expect(new Set(generations).size).toBe(1)
})

test('failed_identity_query_is_destructive_only_after_explicit_disconnect', async () => {
  const daemon = await fixture.daemon(plain)
  const { sessions } = openClient()
  await sessions.connect(target())
  const { active } = sessions
  // Connections are accepted and cut: who is there cannot be known.
  let asked = 0
  daemon.script.connected = (peer) => {
    asked++
    peer.wire.destroy('not now')
  }
  for (const peer of daemon.live) peer.wire.destroy('the connection broke')
  await until('some failed questions', () => asked >= 3)
  expect(sessions.active).toBe(active)
  expect(active?.bound).toBe(false)
  delete daemon.script.connected
  await until('the session to be bound', () => active?.bound)
  expect(sessions.active).toBe(active)
  sessions.disconnect()
  expect(sessions.active).toBeNull()
})

interface Listed {
  active?: string
  notebooks: { notebook_id: string; path: string; peers: { label: string }[] }[]
}

test('new_incarnation_tool_install_survives_next_heartbeat: what a call opened after a restart stays, and the stale session goes', () =>
  withDaemon(async (home, daemon) => {
    const child = await startChild(home, { name: 'one' })
    const a = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const b = await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
    await child.must('connect_notebook', { path: 'a.ipynb' })
    await daemon.kill9()
    // Called while nobody is there, so it races with the return of the old session.
    const connecting = child.must('connect_notebook', { path: 'b.ipynb' })
    const next = await startTestDaemon(home)
    const connected = await connecting
    expect((connected.structured.daemon as { pid: number }).pid).toBe(next.pid)
    const listed = async () => (await child.must('list_active_notebooks')).structured as unknown as Listed
    await until('one peer, in b', async () => {
      const { notebooks } = await listed()
      const peers = (id: unknown) =>
        notebooks.find(({ notebook_id }) => notebook_id === id)?.peers.length ?? 0
      return peers(a.structured.notebook_id) === 0 && peers(b.structured.notebook_id) === 1
    })
    // The next loss and return meets it as it is.
    await next.kill9()
    const last = await startTestDaemon(home)
    // Waits for the session as it is; connecting before that would be a new activation.
    await child.must('get_all_cells')
    const again = await child.must('connect_notebook', { path: 'b.ipynb' })
    expect(again.structured).toMatchObject({
      status: 'already_connected',
      activation_generation: connected.structured.activation_generation,
      daemon: { pid: last.pid },
    })
    expect((await listed()).active).toBe(b.structured.notebook_id)
  }))

test('lagged_delivery_rereads_live_info: a client that slept through two incarnations is bound to the one that lives', () =>
  withDaemon(async (home, daemon) => {
    const child = await startChild(home)
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('create_cell', { source: 'let x = 7', and_run: true })
    signal(child.pid, 'SIGSTOP')
    await daemon.kill9()
    const between = await startTestDaemon(home)
    await between.kill9()
    const last = await startTestDaemon(home)
    signal(child.pid, 'SIGCONT')
    const { execution } = (await child.must('create_cell', { source: 'x', and_run: true })).structured as {
      execution: { status: string; outputs: unknown[] }
    }
    expect(execution).toMatchObject({ status: 'done', outputs: [{ data: { 'text/plain': '7' } }] })
    const again = await child.must('connect_notebook', { path: 'a.ipynb' })
    expect(again.structured).toMatchObject({ status: 'already_connected', daemon: { pid: last.pid } })
  }))

test('recovery_target_prefers_handoff_and_survives_until_success_or_intent: it waits for the daemon, is used once, and is overruled by intent', () =>
  withHome(async (home) => {
    const first = await startTestDaemon(home)
    const client = await connect({ env: home.env })
    const room = await client.openRoom({
      create: { path: join(home.work, 'a.ipynb'), kernel: 'javascript' },
    })
    const { id } = room
    await client.close()
    await first.stop()
    const env = { ROOMD_CLIENT_INSTANCE: `test-${randomUUID()}`, ROOMD_REJOIN: join(home.work, 'a.ipynb') }
    const child = await startChild(home, { env })
    // Nobody is there: the call fails, the target stays.
    const lost = await child.call('get_all_cells')
    expect(lost.structured.error).toMatchObject({
      code: 'daemon_lost',
      retryable: true,
      next: { tool: 'daemon_status' },
    })
    await startTestDaemon(home)
    const listed = async () => (await child.must('list_active_notebooks')).structured as unknown as Listed
    await until('the rejoin', async () => (await listed()).active === id)
    // It was used: after an explicit disconnect it does not come back.
    expect((await child.must('disconnect_notebook')).structured).toMatchObject({ was: 'active' })
    expect((await child.call('get_all_cells')).structured.error).toMatchObject({
      code: 'notebook_not_ready',
      cause: { reason: 'disconnected' },
    })
    await child.close()
  }))
