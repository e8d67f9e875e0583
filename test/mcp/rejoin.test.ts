/** What calls do while a session is being brought back: they wait for it, within one deadline, and say what they wait for. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Activities } from '../../client/mcp/activities.ts'
import { DaemonLink } from '../../client/mcp/daemon-link.ts'
import { MutationBlock } from '../../client/mcp/mutation-block.ts'
import { readResource } from '../../client/mcp/resources/reading.ts'
import { NOTEBOOKS } from '../../client/mcp/resources/uri.ts'
import { Sessions } from '../../client/mcp/sessions/sessions.ts'
import { callTool } from '../../client/mcp/tools/dispatch.ts'
import { Fixture } from '../sdk/fixture.ts'
import { notebookId, type Script } from '../sdk/scripted-daemon.ts'
import { ManualClock } from '../support/manual-clock.ts'

let fixture: Fixture
let clock: ManualClock
const ends: Array<() => unknown> = []

beforeEach(() => {
  fixture = new Fixture()
  clock = new ManualClock()
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await fixture.dispose()
})

/** Knows no other names of rooms; lists none; opens nothing until it is told to. */
const deaf: Script = {
  open: () => {},
  request: (peer, channel, { id, method }) => {
    if (method === 'list_rooms') peer.answer(channel, id, { rooms: [] })
    else peer.refuse(channel, id, 'not_found')
  },
}

function child() {
  const daemon = new DaemonLink({
    env: { ROOMD_SOCKET: fixture.socket },
    clock,
    label: () => 'test',
    kind: 'mcp',
    clientInstance: 'test-instance',
    autostart: null,
  })
  const sessions = new Sessions({ daemon, clock, cwd: fixture.folder })
  ends.push(async () => {
    sessions.dispose()
    await daemon.close()
  })
  const signal = new AbortController().signal
  const call = async (name: string) => {
    const result = await callTool(
      name,
      {},
      {
        sessions,
        daemon,
        activities: new Activities(),
        clock,
        cwd: fixture.folder,
        signal,
        mutations: new MutationBlock(undefined),
        progress: null,
        ask: null,
        show: null,
        record: null,
      },
    )
    return result.structuredContent as Record<string, unknown> & { error?: { code: string; cause?: unknown } }
  }
  const notebooks = () => readResource(NOTEBOOKS, { sessions, daemon, signal })
  return { sessions, call, notebooks }
}

/** The daemon was asked for the room: what takes real time is behind us. */
async function asked(daemon: { readonly opens: readonly unknown[] }): Promise<void> {
  while (daemon.opens.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
}

/** Moves time on until it settles; how long that took by the clock. */
async function elapsed<T>(work: Promise<T>, step = 50): Promise<{ value: T; ms: number }> {
  const begun = clock.now()
  let settled = false
  const value = work.finally(() => {
    settled = true
  })
  value.catch(() => {})
  while (!settled) {
    // What sockets bring comes in turns of its own.
    await new Promise((resolve) => setImmediate(resolve))
    await new Promise((resolve) => setTimeout(resolve, 1))
    if (!settled) clock.advance(step)
  }
  return { value: await value, ms: clock.now() - begun }
}

test('a call waits 10 s for a session that is being brought back, and says how to go on', async () => {
  const daemon = await fixture.daemon(deaf)
  const { sessions, call } = child()
  sessions.rejoin({ kind: 'id', id: notebookId as never }).catch(() => {})
  await asked(daemon)
  const { value, ms } = await elapsed(call('get_all_cells'))
  expect(value.error).toMatchObject({
    code: 'notebook_not_ready',
    retryable: true,
    cause: { pending_rejoin: notebookId },
    next: { tool: 'connect_notebook', arguments: { notebook_id: notebookId } },
  })
  expect(ms).toBeGreaterThanOrEqual(10_000)
  expect(ms).toBeLessThanOrEqual(10_100)
})

test('one deadline also when the daemon goes away while a session is being brought back', async () => {
  const daemon = await fixture.daemon(deaf)
  const { sessions, call } = child()
  const rejoin = sessions.rejoin({ kind: 'id', id: notebookId as never })
  const answer = call('get_all_cells')
  clock.advance(4_000)
  await asked(daemon)
  await daemon.kill()
  const { value, ms } = await elapsed(answer)
  expect(value.error).toMatchObject({
    code: 'daemon_lost',
    retryable: true,
    next: { tool: 'daemon_status' },
  })
  expect(4_000 + ms).toBeLessThanOrEqual(10_200)
  // The rejoin itself goes on: the next daemon is found.
  const open: Script['open'] = (peer, channel) => {
    peer.opened(channel)
    peer.page(channel, [])
  }
  await fixture.daemon({ ...deaf, open })
  expect((await elapsed(rejoin)).value).toMatchObject({ outcome: 'succeeded' })
})

test('a list waits a moment for a rejoin, then tells that it is pending; later it tells what is active', async () => {
  const daemon = await fixture.daemon(deaf)
  const { sessions, call, notebooks } = child()
  const rejoin = sessions.rejoin({ kind: 'id', id: notebookId as never })
  await asked(daemon)
  const { value, ms } = await elapsed(call('list_active_notebooks'))
  expect(value).toMatchObject({ pending_rejoin: { target: notebookId, notebook_id: notebookId } })
  expect(value).not.toHaveProperty('active')
  expect(ms).toBeLessThanOrEqual(1_200)
  const resource = (await elapsed(notebooks())).value
  expect(JSON.parse(resource.text ?? '')).toMatchObject({ active: null, pending_rejoin: notebookId })

  const listed = call('list_active_notebooks')
  const { peer, channel } = daemon.opens[0] ?? {}
  peer?.opened(channel ?? 0)
  peer?.page(channel ?? 0, [])
  // No time passes by the clock: the answer comes because the rejoin has ended.
  expect(await rejoin).toMatchObject({ outcome: 'succeeded' })
  const told = await listed
  expect(told).toMatchObject({ active: notebookId })
  expect(told).not.toHaveProperty('pending_rejoin')
})
