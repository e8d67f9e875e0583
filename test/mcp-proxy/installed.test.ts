/** Proxy, real child, real daemon, embedded kernel: whichever dies, calls are answered and nothing happens twice. */
import { expect, test } from 'vitest'
import { REJOIN_WAIT } from '../../client/mcp-proxy/announcement.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { gone, processesOf, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type Installed, startInstalled, type ToolResult } from './support/installed.ts'

const text = (result: ToolResult) => result.content.map((block) => block.text ?? '').join('\n')

async function openNotebook(mcp: Installed): Promise<void> {
  await mcp.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
  await mcp.must('create_cell', { source: 'let runs = 0; let seen = []', and_run: true })
}

/** The daemon asks the login shell for its environment; here that must not depend on whose machine it is. */
const inHome = (use: (home: TestHome) => Promise<void>, variables: Record<string, string> = {}) =>
  withHome(use, { SHELL: '/bin/false', ...variables })

/** Cells whose run is counted in the kernel's own variables: what ran twice shows there. */
async function counted(mcp: Installed): Promise<{ cells: string[]; seen: number[] }> {
  const { cells } = (await mcp.must('get_all_cells', { format: 'full', count: 200 })) as {
    cells: Array<{ source: string }>
  }
  const { execution } = (await mcp.must('create_cell', {
    source: 'JSON.stringify(seen)',
    and_run: true,
  })) as {
    execution: { outputs: Array<{ data?: Record<string, string> }> }
  }
  const shown = execution.outputs[0]?.data?.['text/plain'] ?? ''
  return {
    cells: cells.map((cell) => cell.source).filter((source) => source.startsWith('seen.push')),
    seen: JSON.parse(shown.replace(/^'|'$/g, '')),
  }
}

test('the child is killed under 20 parallel calls, four times: each is answered, each cell is made and run once', () =>
  inHome(async (home) => {
    const daemon = await startDaemon(home)
    const mcp = await startInstalled(home)
    await openNotebook(mcp)
    const all: Array<Promise<ToolResult>> = []
    for (let round = 0; round < 4; round++) {
      const calls = Array.from({ length: 5 }, (_, n) =>
        mcp.call('create_cell', { source: `seen.push(${round * 5 + n})`, and_run: true }),
      )
      all.push(...calls)
      // Killed at another moment each round: before, between and after answers.
      if (round > 0) await Promise.race(calls)
      if (round > 1) await calls[2]
      await mcp.killChild()
    }
    const results = await Promise.all(all)
    expect(results.filter((result) => result.isError).map(text)).toEqual([])
    const { cells, seen } = await counted(mcp)
    expect(cells.sort()).toEqual(Array.from({ length: 20 }, (_, n) => `seen.push(${n})`).sort())
    expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n))
    await mcp.close()
    await daemon.stop()
  }))

test('the daemon is killed under calls: they are answered when it is back, variables and cells are there', () =>
  inHome(async (home) => {
    const first = await startDaemon(home)
    const mcp = await startInstalled(home)
    await openNotebook(mcp)
    const calls = Array.from({ length: 5 }, (_, n) =>
      mcp.call('create_cell', { source: `seen.push(${n})`, and_run: true }),
    )
    await Promise.race(calls)
    await first.kill9()
    const second = await startDaemon(home)
    const results = await Promise.all(calls)
    expect(results.filter((result) => result.isError).map(text)).toEqual([])
    const { cells, seen } = await counted(mcp)
    expect(cells).toHaveLength(5)
    expect(seen.sort()).toEqual([0, 1, 2, 3, 4])
    await mcp.close()
    await second.stop()
  }))

test('child and daemon are killed together: the session comes back by itself', () =>
  inHome(async (home) => {
    const first = await startDaemon(home)
    const mcp = await startInstalled(home)
    await openNotebook(mcp)
    const call = mcp.call('create_cell', { source: 'seen.push(1)', and_run: true })
    await Promise.all([mcp.killChild(), first.kill9()])
    const second = await startDaemon(home)
    expect((await call).isError, text(await call)).toBeFalsy()
    expect((await counted(mcp)).seen).toEqual([1])
    await mcp.close()
    await second.stop()
  }))

test('the banner tells that the session was rejoined, and what was parked', () =>
  inHome(async (home) => {
    const daemon = await startDaemon(home)
    const mcp = await startInstalled(home)
    await mcp.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
    await openNotebook(mcp)
    // On a busy machine the rejoin takes longer than an answer waits for it; one that came sooner tells how it went.
    const soon = (since: number) => performance.now() - since < REJOIN_WAIT
    await mcp.killChild()
    const killed = performance.now()
    const [line] = (await mcp.call('get_all_cells')).content
    expect(line?.text).toMatch(/^\[roomd\] The MCP child ended unexpectedly \(killed by SIGKILL\)/)
    const rejoined = /Rejoined .*a\.ipynb; readiness: projection ready/
    if (soon(killed)) expect(line?.text).toMatch(rejoined)
    else expect(line?.text).toMatch(new RegExp(`${rejoined.source}|Rejoin in progress: .*a\\.ipynb`))
    expect(line?.text).toMatch(/Parked sessions were lost with it: .*b\.ipynb/)
    const asked = performance.now()
    const { restarted, rejoin } = await mcp.must('reconnect')
    expect(restarted).toBe(true)
    expect(rejoin).toEqual(
      expect.objectContaining({
        outcome: soon(asked) ? 'succeeded' : expect.stringMatching(/^(succeeded|pending)$/),
        target: expect.stringContaining('a.ipynb'),
      }),
    )
    expect(await mcp.must('list_active_notebooks')).toMatchObject({ active: expect.any(String) })
    await mcp.close()
    await daemon.stop()
  }))

test('proxies on one room: one is killed and its peer is gone, the other works on', () =>
  inHome(async (home) => {
    const daemon = await startDaemon(home)
    const one = await startInstalled(home, 'one')
    const two = await startInstalled(home, 'two')
    await openNotebook(one)
    await two.must('connect_notebook', { path: 'a.ipynb' })
    const peers = async () => {
      const { notebooks } = (await two.must('list_active_notebooks')) as {
        notebooks: Array<{ peers: Array<{ label: string }> }>
      }
      return notebooks[0]?.peers.map((peer) => peer.label).sort()
    }
    expect(await peers()).toEqual(['one', 'two'])
    const child = one.childPid() ?? 0
    signal(one.proxyPid, 'SIGKILL')
    await gone(one.proxyPid)
    await gone(child)
    await until('one peer less', async () => (await peers())?.join() === 'two')
    await two.close()
    await daemon.stop()
    await until('no process of the clients', () => !processesOf(home.path).some((pid) => pid === child))
  }))

test('--no-start never starts a daemon; without it one is started and outlives the proxy', () =>
  inHome(
    async (home) => {
      const without = await startInstalled(home, 'without', ['--no-start'])
      const refused = await without.call('list_active_notebooks')
      expect(refused).toMatchObject({ isError: true, structuredContent: { error: { code: 'daemon_lost' } } })
      await without.close()
      const mcp = await startInstalled(home)
      const { pid } = (await mcp.must('daemon_status')) as { pid: number }
      await mcp.close()
      await gone(mcp.proxyPid)
      signal(pid, 'SIGTERM')
      await gone(pid)
    },
    { ROOMD_NO_AUTOSTART: '' },
  ))
