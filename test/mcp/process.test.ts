/** The child as a process: what stands on stdout, when it ends, and what it says at the end. */
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { programFile } from '../../protocol/programs.ts'
import { ScriptedDaemon } from '../sdk/scripted-daemon.ts'
import { withHome } from '../support/home.ts'
import { descendants, gone, signal } from '../support/processes.ts'
import { until, within } from '../support/until.ts'
import { withDaemon } from './harness.ts'
import { startRaw } from './raw-child.ts'

function call(name: string, args: Record<string, unknown> = {}) {
  return { name, arguments: args }
}

test('stdout is JSON-RPC and nothing else, whatever a dependency prints', () =>
  withDaemon(async (home) => {
    // Begins when the program has taken stdout over: what a preload prints before that is not the program's.
    const noisy = join(home.path, 'noisy.cjs')
    writeFileSync(
      noisy,
      `const { write } = process.stdout
       setInterval(() => {
         if (process.stdout.write === write) return
         console.log('stray log')
         console.info('stray %s', 'info')
         console.table([{ stray: 1 }])
         process.stdout.write('stray write\\n')
       }, 20).unref()`,
    )
    const child = await startRaw(home, {
      env: { NODE_DEBUG: '*', NODE_OPTIONS: `--require ${noisy}` },
    })
    await child.request(2, 'tools/call', call('create_notebook', { kernel: 'javascript' }))
    await child.request(3, 'tools/call', call('create_cell', { source: 'console.log(1)', and_run: true }))
    await child.stderr.next(/stray write/)
    child.closeStdin()
    await within('its end', child.exited)
    const lines = child.stdout.lines.filter((line) => line !== '')
    expect(lines.length).toBeGreaterThanOrEqual(3)
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' })
    for (const stray of ['stray log', 'stray info', 'stray write']) expect(child.stderr.text).toContain(stray)
  }))

test('it ends when stdin ends, and its peers with it', () =>
  withDaemon(async (home) => {
    const child = await startRaw(home)
    await child.request(2, 'tools/call', call('create_notebook', { kernel: 'javascript' }))
    const other = await startRaw(home)
    const peers = async () => {
      const answer = await other.request(Math.floor(Math.random() * 1e9), 'tools/call', call('daemon_status'))
      return (answer.result as { structuredContent: { peers: number } }).structuredContent.peers
    }
    expect(await peers()).toBe(1)
    child.closeStdin()
    expect(await within('its end', child.exited)).toEqual({ code: 0, signal: null })
    await until('its peer to be gone', async () => (await peers()) === 0)
    other.closeStdin()
    await within('the other’s end', other.exited)
  }))

test('it ends when nobody reads stdout', () =>
  withDaemon(async (home) => {
    const child = await startRaw(home)
    child.closeStdout()
    child.send({ id: 2, method: 'tools/list' })
    child.send({ id: 3, method: 'tools/list' })
    await within('its end', child.exited)
  }))

test('it ends when its parent is gone, though somebody holds its pipes', () =>
  withDaemon(async (home) => {
    const spawning = `require('node:child_process').spawn(process.execPath, ${JSON.stringify([programFile('roomd'), 'mcp', '--child'])}, { stdio: 'inherit' }); setInterval(() => {}, 1000)`
    const parent = await startRaw(home, { args: ['-e', spawning] })
    const [child] = descendants(parent.pid)
    expect(child).toBeDefined()
    signal(parent.pid, 'SIGKILL')
    await gone(child ?? 0)
  }))

test('a daemon of another version: the child says where to go on and exits with 75', () =>
  withHome(async (home) => {
    const socket = join(home.path, 'scripted.sock')
    const first = await ScriptedDaemon.start(socket)
    const child = await startRaw(home, {
      env: { ROOMD_SOCKET: socket, ROOMD_CLIENT_INSTANCE: `test-${randomUUID()}` },
    })
    writeFileSync(join(home.work, 'x.ipynb'), '{}')
    const answer = await child.request(2, 'tools/call', call('connect_notebook', { path: 'x.ipynb' }))
    expect(answer.result).toMatchObject({ structuredContent: { path: '/x.ipynb' } })
    await first.kill()
    // The same version again changes nothing.
    const second = await ScriptedDaemon.start(socket)
    await until('it to be back', () => second.live.length === 1)
    await second.kill()
    const third = await ScriptedDaemon.start(socket, { welcome: { version: '9.9.9' } as object })
    try {
      const news = JSON.parse(await child.stdout.next(/handoff/))
      expect(news).toEqual({
        jsonrpc: '2.0',
        method: 'notifications/roomd/child',
        params: { kind: 'handoff', target: '/x.ipynb' },
      })
      expect(await within('its end', child.exited)).toEqual({ code: 75, signal: null })
      expect(third.live).toEqual([])
    } finally {
      await third.kill()
    }
  }))

test('alone too: calls under way are answered before it exits with 75', () =>
  withHome(async (home) => {
    const socket = join(home.path, 'scripted.sock')
    const first = await ScriptedDaemon.start(socket)
    const child = await startRaw(home, { env: { ROOMD_SOCKET: socket } })
    writeFileSync(join(home.work, 'x.ipynb'), '{}')
    await child.request(2, 'tools/call', call('connect_notebook', { path: 'x.ipynb' }))
    // Nobody answers it: a call that goes on when the daemon is replaced.
    first.script.request = () => {}
    const open = child.request(3, 'tools/call', call('get_all_cells'))
    await until('the call to be made', () =>
      first.requests.some(({ request }) => request.method === 'get_cells'),
    )
    await first.kill()
    const second = await ScriptedDaemon.start(socket, {
      welcome: { version: '9.9.9' } as object,
      request: () => {},
    })
    try {
      expect((await open).result).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'daemon_replaced', retryable: true } },
      })
      expect(await within('its end', child.exited)).toEqual({ code: 75, signal: null })
      expect(child.stderr.text).toContain('it is version 9.9.9')
      expect(child.stdout.text).not.toContain('notifications/roomd/child')
    } finally {
      await second.kill()
    }
  }))
