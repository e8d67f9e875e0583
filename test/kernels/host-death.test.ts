import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { adoptOne, Listener, withKernels } from './harness.ts'

test('a host that is killed during output is replaced: same kernel, a gap is told, variables stay', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ home, start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    await listener.run('kept = "still here"')
    const { pid, host_pid: host } = kernel.summary()
    // It prints until it is told that there is another host, however long that takes.
    const run = await listener.begin(
      'import os, time\ni = 0\nwhile not os.path.exists("go"):\n  print(i, flush=True)\n  i += 1\n  time.sleep(0.005)\nprint("end")',
    )
    await until('some output', () => listener.text(run).includes('\n50\n'))
    signal(host ?? 0, 'SIGKILL')
    const gap = await listener.event('gap')
    await until('output behind the gap', () =>
      listener.events.some((event) => event.kind === 'message' && event.seq > gap.seq),
    )
    writeFileSync(join(home.work, 'go'), '')
    await listener.settled(run)
    const printed = listener.text(run).trimEnd().split('\n')
    expect(printed.pop()).toBe('end')
    // In order and none twice; what is missing was printed while there was no host.
    const numbers = printed.map(Number)
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
    expect(numbers.length).toBeGreaterThan(50)
    expect(kernel.summary().pid).toBe(pid)
    expect(kernel.summary().host_pid).not.toBe(host)
    expect(listener.result(await listener.run('kept'))).toBe("'still here'")
    const seqs = listener.events.map((event) => event.seq)
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b))
  })
})

test('hosts that are killed one after the other are replaced each time: same kernel, variables stay', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    await listener.run('kept = 7')
    const { pid } = kernel.summary()
    for (let killed = 0; killed < 7; killed++) {
      const { host_pid: host } = kernel.summary()
      signal(host ?? 0, 'SIGKILL')
      await until('another host', () => ![null, host].includes(kernel.summary().host_pid))
      expect(listener.result(await listener.run('kept'))).toBe('7')
    }
    expect(kernel.summary().pid).toBe(pid)
  })
})

test('a host that is killed while an R cell runs: the next one learns when the cell is over', (context) => {
  needs(context, 'R kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('ir')
    const listener = new Listener(kernel)
    const run = await listener.begin('cat("begun\\n"); flush.console(); Sys.sleep(1.5); kept <- 7')
    await until('the cell to run', () => listener.text(run).includes('begun'))
    signal(kernel.summary().host_pid ?? 0, 'SIGKILL')
    await listener.event('gap')
    await listener.settled(run)
    const after = await listener.run('cat(kept)')
    expect(listener.text(after)).toContain('7')
  })
})

test('an interrupt works on an adopted kernel, and its death is noticed', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, provider }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    const run = await listener.begin('import time; print("up", flush=True); time.sleep(600)')
    await until('the cell to run', () => listener.text(run).includes('up'))
    signal(kernel.summary().host_pid ?? 0, 'SIGKILL')
    await listener.event('gap')
    await kernel.interrupt()
    expect((await listener.settled(run)).reply).toMatchObject({ ename: 'KeyboardInterrupt' })
    signal(kernel.summary().pid ?? 0, 'SIGKILL')
    expect(await listener.event('died')).toMatchObject({ expected: false })
    await until('the kernel to be forgotten', () => provider.running().length === 0)
  })
})

test('daemon, host and kernel all die: what was printed and not consumed is still told, then the death', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, nextDaemon }) => {
    const first = await start('python3')
    const before = new Listener(first, { acknowledge: false })
    const run = await before.run('print("last words")')
    const { pid, host_pid: host } = first.summary()
    const next = nextDaemon()
    signal(host ?? 0, 'SIGKILL')
    signal(pid ?? 0, 'SIGKILL')
    await gone(host ?? 0)
    await gone(pid ?? 0)
    const kernel = await adoptOne(next)
    const after = new Listener(kernel)
    await after.event('died')
    expect(after.text(run)).toBe('last words\n')
    expect(after.events.some((event) => event.kind === 'settled' && event.request_id === run)).toBe(true)
    await until('the kernel to be forgotten', () => next.running().length === 0)
  })
})

test('a host that cannot be reached does not keep its kernel from being ended', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, provider, store }) => {
    const kernel = await start('python3')
    const { pid, host_pid: host } = kernel.summary()
    signal(host ?? 0, 'SIGSTOP')
    await kernel.shutdown(100)
    await gone(pid ?? 0)
    await gone(host ?? 0)
    expect(provider.running()).toEqual([])
    expect(store.all('SELECT * FROM kernels')).toEqual([])
  })
})
