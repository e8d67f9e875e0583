/** The proxy ends with its client, however that goes, and takes the child along. */
import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type ProxyProcess, withProxyProcess } from './support/proxy-process.ts'

async function allGone(proxy: ProxyProcess): Promise<void> {
  await gone(proxy.pid)
  for (const { pid } of proxy.starts) await gone(pid)
}

const held = (id: string) => ({
  id,
  method: 'tools/call',
  params: { name: 'work', arguments: { hold: 'go' } },
})

test('stdin ends: proxy and child are gone', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    proxy.process.stdin?.end()
    await allGone(proxy)
    await until('its exit code', () => proxy.process.exitCode === 0)
  }))

test('stdin ends before anything was said: the proxy is gone', () =>
  withProxyProcess(async (proxy) => {
    proxy.process.stdin?.end()
    await allGone(proxy)
    expect(proxy.starts).toEqual([])
  }))

test('calls that are under way when stdin ends are answered if that takes no time', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    proxy.send({ id: 'last', method: 'tools/call', params: { name: 'look', arguments: {} } })
    proxy.process.stdin?.end()
    await allGone(proxy)
    expect((await proxy.answer('last')).result).toBeDefined()
  }))

test('stdin ends under a call that goes on: nobody waits for it', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    proxy.send(held('endless'))
    proxy.process.stdin?.end()
    await allGone(proxy)
  }))

test('a child that ignores stdin and SIGTERM is gone all the same', () =>
  withProxyProcess(
    async (proxy) => {
      await proxy.greet()
      proxy.process.stdin?.end()
      await allGone(proxy)
    },
    { plan: { stubborn: true } },
  ))

test('nobody reads stdout (EPIPE): proxy and child are gone', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    proxy.process.stdout?.destroy()
    await until('the proxy to notice', () => {
      proxy.send({ id: 'x', method: 'ping' })
      return proxy.process.exitCode !== null || proxy.process.signalCode !== null
    })
    await allGone(proxy)
  }))

test('the client closes all three pipes at once: proxy and child are gone', () =>
  withProxyProcess(
    async (proxy) => {
      await proxy.greet()
      const { stdin, stdout, stderr } = proxy.process
      for (const pipe of [stderr, stdout, stdin]) pipe?.destroy()
      await allGone(proxy)
    },
    { plan: { noise: true }, env: { NODE_DEBUG: '*' } },
  ))

test('nobody reads stderr any more: calls go on', () =>
  withProxyProcess(
    async (proxy) => {
      await proxy.greet()
      proxy.process.stderr?.destroy()
      for (let n = 0; n < 30; n++) {
        proxy.send({ id: n, method: 'tools/call', params: { name: 'look', arguments: {} } })
        await proxy.answer(n)
      }
      expect(proxy.starts).toHaveLength(1)
      proxy.process.stdin?.end()
      await allGone(proxy)
    },
    { plan: { noise: true }, env: { NODE_DEBUG: '*' } },
  ))

for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  test(`${name}: proxy and child are gone`, () =>
    withProxyProcess(async (proxy) => {
      await proxy.greet()
      signal(proxy.pid, name)
      await allGone(proxy)
    }))
}

test('the parent is killed while stdin stays open: proxy and child are gone', () =>
  withProxyProcess(
    async (between) => {
      await between.greet()
      const proxyPid = Number(/^proxy (\d+)$/m.exec(between.stderr)?.[1])
      expect(proxyPid).toBeGreaterThan(0)
      signal(between.pid, 'SIGKILL')
      await gone(proxyPid)
      for (const { pid } of between.starts) await gone(pid)
    },
    {
      // A process between us and the proxy, as `npm exec` is; the pipes are ours.
      spawn: (program, env) =>
        spawn(
          process.execPath,
          [
            '-e',
            `const { pid } = require('node:child_process').spawn(process.execPath, [${JSON.stringify(program)}], { stdio: 'inherit' })
             process.stderr.write('proxy ' + pid + '\\n'); setInterval(() => {}, 1000)`,
          ],
          { env, stdio: ['pipe', 'pipe', 'pipe'] },
        ),
    },
  ))

test('the proxy is killed: its child sees the end of stdin', () =>
  withProxyProcess(async (proxy) => {
    await proxy.greet()
    signal(proxy.pid, 'SIGKILL')
    await allGone(proxy)
  }))
