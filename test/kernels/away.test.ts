import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { alive, gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { adoptOne, executeRequest, Listener, withKernels } from './harness.ts'

test('a daemon that dies in the middle of output: the next gets every event once', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, nextDaemon }) => {
    const first = await start('python3')
    const before = new Listener(first, { acknowledge: false })
    const run = await before.begin(
      'import time\nfor i in range(2000):\n  print(i, flush=True)\n  if i % 100 == 0: time.sleep(0.01)',
    )
    await until('some output', () => before.text(run).includes('\n500\n'))
    const consumed = before.events.length - 3
    const kept = before.events.slice(0, consumed)
    first.acknowledge(kept.at(-1)?.seq ?? 0)
    const next = nextDaemon()
    const kernel = await adoptOne(next)
    expect(kernel.summary().pid).toBe(first.summary().pid)
    const after = new Listener(kernel, { since: kept.at(-1)?.seq ?? 0 })
    await after.settled(run)
    const all = [...kept, ...after.events]
    expect(all.map((event) => event.seq)).toEqual(all.map((_, index) => index + 1))
    after.events.unshift(...kept)
    expect(after.text(run).trimEnd().split('\n')).toEqual(Array.from({ length: 2000 }, (_, i) => `${i}`))
  })
})

test('a request that is repeated runs once, also by the next daemon', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, nextDaemon }) => {
    const first = await start('python3')
    const listener = new Listener(first)
    await listener.run('count = 0')
    const request = executeRequest('count += 1', randomUUID())
    expect(await first.send(request)).toEqual({ alreadySent: false })
    expect(await first.send(request)).toEqual({ alreadySent: true })
    await listener.settled(request.requestId)
    expect(await first.send(request)).toEqual({ alreadySent: true })
    const since = first.seq
    const kernel = await adoptOne(nextDaemon())
    const after = new Listener(kernel, { since })
    expect(await kernel.send(request)).toEqual({ alreadySent: true })
    expect(after.result(await after.run('count'))).toBe('1')
  })
})

test('listening again from an earlier event gives what follows it once more', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const first = new Listener(kernel, { acknowledge: false })
    await first.run('print("a")')
    const second = new Listener(kernel, { since: 2, acknowledge: false })
    await until('the same events', () => second.events.length === first.events.length - 2)
    expect(second.events.map((event) => event.seq)).toEqual(first.events.slice(2).map((event) => event.seq))
    await second.run('print("b")')
    expect(second.text()).toBe('a\nb\n')
  })
})

test('a kernel that ended and whose events are all consumed is gone', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, nextDaemon, store }) => {
    const first = await start('python3')
    const { pid, host_pid: host } = first.summary()
    const listener = new Listener(first)
    await listener.run('1')
    await store.write([{ sql: 'UPDATE kernels SET consumed_seq = ?', values: [first.seq] }])
    const next = nextDaemon()
    signal(host ?? 0, 'SIGKILL')
    signal(pid ?? 0, 'SIGKILL')
    await gone(host ?? 0)
    await gone(pid ?? 0)
    const { kernels, gone: lost } = await next.adopt()
    expect(kernels).toEqual([])
    expect(lost.map((each) => each.kernelId)).toEqual([first.id])
    expect(store.all('SELECT * FROM kernels')).toEqual([])
  })
})

test('without a daemon an idle kernel ends after its grace, a busy one not before it is idle', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ home, start, nextDaemon }) => {
    const [idle, busy] = await Promise.all([
      start('python3', { orphanGraceMs: 150 }),
      start('python3', { orphanGraceMs: 150 }),
    ])
    const listener = new Listener(busy)
    const run = await listener.begin(
      'import os, time\nprint("up", flush=True)\nwhile not os.path.exists("go"): time.sleep(0.02)\nprint("done")',
    )
    await until('the cell to run', () => listener.text(run).includes('up'))
    const since = busy.seq
    const [idlePid = 0, busyPid = 0] = [idle, busy].map((kernel) => kernel.summary().pid ?? 0)
    const next = nextDaemon()
    await gone(idlePid)
    expect(alive(busyPid)).toBe(true)
    writeFileSync(join(home.work, 'go'), '')
    await gone(busyPid)
    // The busy one finished its cell first, and what it printed is still there.
    const { kernels } = await next.adopt()
    const adopted = kernels.find((each) => each.kernel.id === busy.id)
    if (adopted === undefined) throw new Error('what the busy kernel left was not found')
    const after = new Listener(adopted.kernel, { since })
    expect(await after.event('died')).toMatchObject({ expected: true })
    expect(after.text(run)).toBe('done\n')
    expect(after.events.some((event) => event.kind === 'settled')).toBe(true)
    for (const { kernel } of kernels) if (kernel.id !== busy.id) new Listener(kernel)
    await until('both to be forgotten', () => next.running().length === 0)
  })
})

test('ten kernels at once', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, provider }) => {
    const kernels = await Promise.all(Array.from({ length: 10 }, () => start('python3')))
    expect(new Set(kernels.map((kernel) => kernel.summary().pid)).size).toBe(10)
    expect(provider.running().length).toBe(10)
    await Promise.all(
      kernels.map(async (kernel, index) => {
        const listener = new Listener(kernel)
        expect(listener.result(await listener.run(`${index} * 2`))).toBe(`${index * 2}`)
      }),
    )
  })
})
