import { expect, test } from 'vitest'
import { adoptOne, Listener } from '../kernels/harness.ts'
import { needs } from '../support/machine.ts'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { withGateway } from './bench.ts'

const SLEEPING = 'import time; print("up", flush=True); time.sleep(600)'

test('a kernel that dies, and that its server starts anew under the same id, is dead for us, and ended there', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server, provider }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    const run = await listener.begin('import os, signal; os.kill(os.getpid(), signal.SIGKILL)')
    const died = await listener.event('died')
    expect(died).toMatchObject({ expected: false, reason: expect.stringContaining('started it anew') })
    expect(listener.events.some((event) => event.kind === 'settled' && event.request_id === run)).toBe(false)
    await until('the kernel to be forgotten', () => provider.running().length === 0)
    await until('its successor to be ended', async () => (await server.kernels()).length === 0)
  })
})

test('a kernel that was started anew while the connection was away is not taken for the old one', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server, relay }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    await listener.run('kept = 1')
    relay.cut()
    await until('the loss to be seen', () => kernel.summary().reason !== undefined)
    const [remote] = await server.kernels()
    expect((await server.fetch('POST', `/api/kernels/${remote?.id}/restart`)).ok).toBe(true)
    relay.restore()
    expect((await listener.event('died')).reason).toContain('started anew')
  })
})

test('the same for a kernel that has no session id of its own: its count of executions tells', (context) => {
  needs(context, 'Jupyter Server', 'R kernel')
  return withGateway(async ({ start, server, relay }) => {
    const kernel = await start('far/ir')
    const listener = new Listener(kernel)
    for (const code of ['kept <- 1', 'kept <- kept + 1', 'cat(kept)']) await listener.run(code)
    expect(listener.text()).toContain('2')
    relay.cut()
    await until('the loss to be seen', () => kernel.summary().reason !== undefined)
    relay.restore()
    await until('the connection to be back', () => kernel.summary().reason === undefined)
    // Only a cut: it is the same kernel.
    expect(listener.text(await listener.run('cat(kept + 40)'))).toContain('42')
    relay.cut()
    await until('the loss to be seen', () => kernel.summary().reason !== undefined)
    const [remote] = await server.kernels()
    expect((await server.fetch('POST', `/api/kernels/${remote?.id}/restart`)).ok).toBe(true)
    relay.restore()
    expect((await listener.event('died')).reason).toContain('started anew')
  })
})

test('a kernel that somebody else ended at the server is dead', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    await listener.begin(SLEEPING)
    await until('the cell to run', () => listener.text().includes('up'))
    const [remote] = await server.kernels()
    await server.fetch('DELETE', `/api/kernels/${remote?.id}`)
    expect((await listener.event('died')).reason).toContain('no such kernel any more')
  })
})

test('a server that is started anew has lost its kernels; a server that is away has not', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    const run = await listener.begin(SLEEPING)
    await until('the cell to run', () => listener.text(run).includes('up'))
    await server.kill9()
    const lost = await listener.event('connection')
    expect(lost.trouble).toContain('gateway "far"')
    expect(kernel.summary().reason).toMatch(/^reconnecting: /)
    expect(listener.events.some((event) => event.kind === 'died')).toBe(false)
    await server.start()
    expect((await listener.event('died', undefined, 40_000)).reason).toContain('no such kernel any more')
    // And another can be started there.
    const next = await start('far/python3')
    expect(next.summary().state).toBe('idle')
  })
})

test('an end that the server could not be told of is made up for when it is back, also by the next daemon', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server, relay, provider, nextDaemon, store }) => {
    const kernel = await start('far/python3')
    relay.cut()
    await until('the loss to be seen', () => kernel.summary().reason !== undefined)
    await kernel.shutdown(500)
    expect(provider.running()).toEqual([])
    expect(store.all('SELECT * FROM kernels')).toEqual([])
    expect(await server.kernels()).toHaveLength(1)
    const next = nextDaemon()
    await next.adopt()
    relay.restore()
    await until('the kernel to be ended', async () => (await server.kernels()).length === 0)
  })
})

test('host and daemon die and the kernel is gone when they are back: its death is told', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server, nextDaemon }) => {
    const first = await start('far/python3')
    const before = new Listener(first)
    await before.run('1')
    const host = first.summary().host_pid ?? 0
    const next = nextDaemon()
    signal(host, 'SIGKILL')
    await gone(host)
    const [remote] = await server.kernels()
    await server.fetch('DELETE', `/api/kernels/${remote?.id}`)
    const kernel = await adoptOne(next)
    const after = new Listener(kernel, { since: first.seq })
    expect((await after.event('died')).reason).toContain('no such kernel any more')
    await until('the kernel to be forgotten', () => next.running().length === 0)
  })
})
