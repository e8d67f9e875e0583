/** stdout of the built `roomd mcp` is JSON-RPC and nothing else, with proxy and child in a noisy environment. */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { programFile } from '../../protocol/programs.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { LineReader } from '../support/line-reader.ts'
import { endTree } from '../support/processes.ts'
import { until, within } from '../support/until.ts'

test('stdout is JSON-RPC and nothing else, whatever a dependency of the proxy or the child prints', () =>
  withHome(async (home) => {
    const daemon = await startDaemon(home, { SHELL: '/bin/sh' })
    // A program around ours that both proxy and child are started from: NODE_OPTIONS would be kept from the child.
    const program = join(home.path, 'noisy', 'roomd.js')
    mkdirSync(join(home.path, 'noisy'))
    writeFileSync(join(home.path, 'noisy', 'package.json'), '{"type":"module"}')
    writeFileSync(
      program,
      `const { write } = process.stdout
       const who = process.argv.includes('--child') ? 'child' : 'proxy'
       setInterval(() => {
         // Begins when stdout was taken over: what is printed before our first module is not ours.
         if (process.stdout.write === write) return
         console.log('stray log of the ' + who)
         console.table([{ stray: 1 }])
         process.stdout.write('stray write of the ' + who + '\\n')
       }, 5).unref()
       await import(${JSON.stringify(pathToFileURL(programFile('roomd')).href)})`,
    )
    const proxy = spawn(process.execPath, [program, 'mcp'], {
      env: { ...home.env, NODE_DEBUG: '*' },
      cwd: home.work,
      stdio: 'pipe',
    })
    const stdout = new LineReader(proxy.stdout)
    const stderr = new LineReader(proxy.stderr)
    const exited = new Promise((resolve) => proxy.once('exit', resolve))
    try {
      const request = async (id: number, method: string, params: object) => {
        proxy.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
        return JSON.parse(await stdout.next(new RegExp(`"id":${id}[,}]`), 30_000)) as {
          result: { isError?: boolean }
        }
      }
      const clientInfo = { name: 'test', version: '1' }
      await request(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo })
      proxy.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
      await request(2, 'tools/list', {})
      const call = (id: number, name: string, args: object) =>
        request(id, 'tools/call', { name, arguments: args })
      await call(3, 'create_notebook', { kernel: 'javascript' })
      const source = `console.log('{"jsonrpc":"2.0"}'); console.error('x'); process.stdout.write('y')`
      const ran = await call(4, 'create_cell', { source, and_run: true })
      expect(ran.result.isError).toBeFalsy()
      await call(5, 'reconnect', {})
      await call(6, 'get_all_cells', {})
      for (const who of ['proxy', 'child'])
        await until(`noise of the ${who}`, () => stderr.text.includes(`stray write of the ${who}`))
      proxy.stdin.end()
      await within('the end of the proxy', exited)
    } finally {
      if (proxy.pid !== undefined) await endTree(proxy.pid)
    }
    const lines = stdout.lines.filter((line) => line !== '')
    expect(lines.length).toBeGreaterThanOrEqual(6)
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' })
    await daemon.stop()
  }))
