/** What passes through the proxy as a process: messages and nothing else, of any size, from any client. */
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { ListRootsRequestSchema, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { PROTOCOL_VERSIONS } from '../../client/mcp-proxy/introduction.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { script } from './support/bench.ts'
import { withProxyProcess } from './support/proxy-process.ts'

const held = (id: string) => ({
  id,
  method: 'tools/call',
  params: { name: 'work', arguments: { hold: 'go' } },
})

test('stdout carries messages and nothing else, whatever prints', () =>
  withProxyProcess(
    async (proxy) => {
      await proxy.greet()
      for (let n = 0; n < 20; n++) {
        proxy.send({ id: n, method: 'tools/call', params: { name: 'look', arguments: {} } })
        await proxy.answer(n)
      }
      proxy.process.stdin?.end()
      await gone(proxy.pid)
      expect(proxy.lines.length).toBeGreaterThanOrEqual(22)
      for (const line of proxy.lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' })
      expect(proxy.stderr).toContain('a stray line')
      expect(proxy.stderr).toContain('some noise on stderr')
    },
    {
      env: { NODE_DEBUG: '*', STRAY: '1' },
      plan: { noise: true, before: ['hello from a dependency', '{"not":"rpc"}', '[1,2]', ''] },
    },
  ))

test('garbage from the client harms nobody', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    proxy.write(Buffer.from([0xff, 0xfe, 0x00, 0x0a, 0x7b, 0x0a]))
    proxy.write('hello\n[]\nnull\n{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0","id":null,"method":"ping"}\n\r\n\n')
    proxy.send({ id: 'bad', method: 'tools/call', params: {} })
    expect((await proxy.answer('bad')).error).toMatchObject({ code: -32602 })
    proxy.send({ id: 'unreadable', method: 'ping', params: [] })
    expect((await proxy.answer('unreadable')).error).toMatchObject({ code: -32600 })
    proxy.send({ id: 'good', method: 'ping' })
    expect((await proxy.answer('good')).result).toEqual({})
  }))

test('a huge message of the client is refused by its id, and the next one is served', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    const source = 'x'.repeat(33 * 1024 * 1024)
    proxy.send({ id: 'huge', method: 'tools/call', params: { name: 'work', arguments: { source } } })
    expect((await proxy.answer('huge')).error).toMatchObject({ code: -32600 })
    proxy.send({ id: 'next', method: 'tools/call', params: { name: 'look', arguments: {} } })
    expect((await proxy.answer('next')).result).toBeDefined()
    expect(proxy.starts).toHaveLength(1)
  }))

test('a client that does not read holds the child back, and gets everything later', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    proxy.process.stdout?.pause()
    for (let n = 0; n < 20; n++) {
      proxy.send({
        id: n,
        method: 'tools/call',
        params: { name: 'look', arguments: { bytes: 2 * 1024 * 1024 } },
      })
    }
    proxy.send(held('held'))
    proxy.release('go')
    proxy.process.stdout?.resume()
    for (let n = 0; n < 20; n++) expect((await proxy.answer(n)).result).toBeDefined()
    expect((await proxy.answer('held')).result).toBeDefined()
  }))

test("each proxy has an instance of its own, whatever it inherits; a developer's variables reach no child", () =>
  withProxyProcess(
    async (proxy) => {
      await proxy.greet()
      const [start] = proxy.starts
      expect(start?.instance).toMatch(/^mcp-[0-9a-f-]{36}$/)
      expect(start?.rejoin).toBe('/n/given.ipynb')
      expect(start?.args).toEqual(['mcp', '--child'])
      for (const name of ['NODE_PATH', 'ROOMD_DEV_ROOT', 'VSCODE_INSPECTOR_OPTIONS']) {
        expect(start?.env).not.toContain(name)
      }
      expect(start?.env).toContain('ROOMD_HOME')
    },
    {
      env: {
        ROOMD_CLIENT_INSTANCE: 'inherited-instance',
        ROOMD_REJOIN: '/n/given.ipynb',
        ROOMD_HOME: '/nowhere',
        ROOMD_DEV_ROOT: '/src',
        NODE_PATH: '/src/node_modules',
        VSCODE_INSPECTOR_OPTIONS: '{}',
      },
    },
  ))

test("the official SDK's client works with it, across a killed child", () =>
  withProxyProcess(async (proxy) => {
    const env = { ...process.env, SCRIPT: proxy.folder, SCRIPTED_CHILD: script } as Record<string, string>
    const program = join(proxy.folder, 'roomd.js')
    const client = new Client({ name: 'sdk', version: '1' }, { capabilities: { roots: {} } })
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///here' }] }))
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [program], env, stderr: 'ignore' }),
    )
    try {
      expect(client.getInstructions()).toBe('read this first')
      expect((await client.listTools()).tools.map((tool) => tool.name)).toContain('reconnect')
      const steps: number[] = []
      const asking = client.callTool(
        { name: 'work', arguments: { progress: 3, die: 'progress', once: 'dead', hold: 'go' } },
        undefined,
        { onprogress: ({ progress }) => steps.push(progress) },
      )
      await until('the progress of both children', () => steps.length === 6)
      proxy.release('go')
      const dying = await asking
      expect((dying.content as Array<{ text: string }>)[0]?.text).toContain(
        'ended unexpectedly (killed by SIGKILL)',
      )
      expect(steps).toEqual([1, 2, 3, 4, 5, 6])
      const asked = await client.callTool({ name: 'work', arguments: { ask: 'roots/list' } })
      expect(asked.structuredContent).toEqual({ answer: { roots: [{ uri: 'file:///here' }] } })
      const reconnected = await client.callTool({ name: 'reconnect', arguments: {} })
      expect(reconnected.structuredContent).toMatchObject({ restarted: true, rejoin: { outcome: 'none' } })
    } finally {
      await client.close()
    }
  }))

test('the protocol versions are those of the SDK', () => {
  expect(PROTOCOL_VERSIONS).toEqual(SUPPORTED_PROTOCOL_VERSIONS)
})

test('the proxy loads no package at all', async () => {
  const { metafile } = await build({
    entryPoints: ['client/mcp-proxy/run.ts'],
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
  })
  const packages = Object.values(metafile.inputs)
    .flatMap((input) => input.imports)
    .filter((imported) => imported.external && !imported.path.startsWith('node:'))
  expect(packages).toEqual([])
})
