/** `roomd mcp --dev`: rebuilding and restarting from a checkout, and what each mode may do. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findCheckout } from '../../client/cli/mcp-dev/checkout.ts'
import { type DevMode, devTools } from '../../client/cli/mcp-dev/tools.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { alive, gone, processesOf, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Bench } from './support/bench.ts'
import { startInstalled } from './support/installed.ts'

/** A checkout whose build and program only write down that they ran. */
async function withCheckout(
  mode: DevMode,
  use: (bench: Bench, root: string) => Promise<void>,
): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'roomd-checkout-'))
  for (const folder of ['scripts', 'client/cli', 'dist']) mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, 'client/cli/main.ts'), '')
  writeFileSync(
    join(root, 'scripts/build.mjs'),
    `import { appendFileSync, existsSync } from 'node:fs'
     appendFileSync('built', 'x')
     console.error('build: 1 program')
     if (existsSync('broken')) process.exit(1)`,
  )
  const program = join(root, 'dist/roomd.js')
  writeFileSync(
    program,
    `console.log(JSON.stringify({ ran: process.argv[2], home: process.env.ROOMD_HOME }))`,
  )
  const env = { ...process.env, ROOMD_HOME: '/dev-home' }
  const bench: Bench = new Bench(
    {},
    {
      localTools: devTools({
        mode,
        checkout: { root, program },
        env,
        home: '/dev-home',
        supervisor: () => bench.proxy.supervisor,
      }),
    },
  )
  try {
    await bench.hello()
    await use(bench, root)
  } finally {
    await bench.dispose()
    rmSync(root, { recursive: true, force: true })
  }
}

test('dev_rebuild builds once for all who ask, and restarts the child', () =>
  withCheckout('owner', async (bench, root) => {
    await bench.call('look')
    const ids = [bench.tool('dev_rebuild'), bench.tool('dev_rebuild')]
    for (const id of ids) {
      expect((await bench.result(id)).structuredContent).toMatchObject({
        built: true,
        output: 'build: 1 program',
        child: { generation: 2 },
      })
    }
    expect(readFileSync(join(root, 'built'), 'utf8')).toBe('x')
    expect(bench.starts).toHaveLength(2)
  }))

test('a build that fails is told with its output, and the child stays', () =>
  withCheckout('owner', async (bench, root) => {
    await bench.call('look')
    writeFileSync(join(root, 'broken'), '')
    const result = await bench.call('dev_rebuild')
    expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'internal' } } })
    expect(JSON.stringify(result)).toContain('build: 1 program')
    expect(bench.starts).toHaveLength(1)
  }))

test('owner and isolated may restart the daemon, attach has no such tool', async () => {
  for (const mode of ['owner', 'isolated'] as const) {
    await withCheckout(mode, async (bench) => {
      expect((await bench.call('dev_restart_daemon')).structuredContent).toEqual({
        restarted: true,
        daemon: { ran: 'restart', home: '/dev-home' },
      })
    })
  }
  await withCheckout('attach', async (bench) => {
    const { tools } = await bench.result(bench.request('tools/list'))
    const names = (tools as Array<{ name: string }>).map((tool) => tool.name)
    expect(names).toContain('dev_rebuild')
    expect(names).not.toContain('dev_restart_daemon')
    expect((await bench.call('dev_status')).structuredContent).toMatchObject({
      mode: 'attach',
      home: '/dev-home',
      daemon: { ran: 'status' },
    })
  })
})

test('an installed program is refused: it has no sources', () => {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-installed-'))
  mkdirSync(join(folder, 'dist'))
  writeFileSync(join(folder, 'dist/roomd.js'), '')
  expect(() => findCheckout(join(folder, 'dist/roomd.js'))).toThrow('--dev works on a source checkout')
  rmSync(folder, { recursive: true, force: true })
})

const developing = { ROOMD_NO_AUTOSTART: '', SHELL: '/bin/false' }

for (const how of ['closed', 'killed'] as const) {
  test(`isolated: a daemon and home of its own, gone when the proxy is ${how}`, () =>
    withHome(async (home) => {
      const mcp = await startInstalled(home, 'developer', ['--dev', '--mode', 'isolated'])
      await mcp.must('create_notebook', { kernel: 'javascript' })
      await mcp.must('create_cell', { source: '1', and_run: true })
      const status = await mcp.must('dev_status')
      const isolated = status.home as string
      expect(isolated).not.toBe(home.path)
      expect(status).toMatchObject({ mode: 'isolated', daemon: { running: true } })
      const processes = processesOf(isolated)
      expect(processes.length).toBeGreaterThanOrEqual(4)
      if (how === 'closed') await mcp.close()
      else signal(mcp.proxyPid, 'SIGKILL')
      await gone(mcp.proxyPid)
      await until('the home to be gone', () => !existsSync(isolated))
      await until('its processes to be gone', () => !processes.some(alive))
    }, developing))
}

test('attach: uses the daemon that runs and never starts one', () =>
  withHome(async (home) => {
    const mcp = await startInstalled(home, 'developer', ['--dev', '--mode', 'attach'])
    expect((await mcp.must('dev_status')).daemon).toMatchObject({ running: false })
    const daemon = await startDaemon(home)
    expect((await mcp.must('daemon_status')).pid).toBe(daemon.pid)
    await mcp.close()
    expect(alive(daemon.pid)).toBe(true)
    await daemon.stop()
  }, developing))
