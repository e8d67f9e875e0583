import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import { adoptOne, Listener } from '../kernels/harness.ts'
import { needs } from '../support/machine.ts'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { numbersIn, withGateway } from './bench.ts'

const LINES = 200
const COUNTING = `import time\nfor i in range(${LINES}):\n  print(i, flush=True)\n  time.sleep(0.01)`

test('a connection that is cut in the middle of an execution comes back: every line once or a gap, and it is done', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, relay }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    await listener.run('kept = "still here"; runs = 0')
    const run = await listener.begin(`runs += 1\n${COUNTING}`)
    for (const number of [20, 90]) {
      // This line itself may be among what a cut before has lost.
      await until('some output', () => numbersIn(listener.text(run)).some((line) => line >= number))
      relay.cut()
      await until('the loss to be seen', () => kernel.summary().reason?.startsWith('reconnecting: '))
      relay.restore()
      await until('the connection to be back', () => kernel.summary().reason === undefined)
    }
    expect((await listener.settled(run)).reply).toMatchObject({ status: 'ok' })
    expectOnceOrGap(listener, run)
    expect(listener.result(await listener.run('(kept, runs)'))).toBe("('still here', 1)")
  })
})

test('a cell that ends while the connection is away is done when it is back, with all that it printed', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, relay, server }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    const run = await listener.begin(COUNTING)
    await until('some output', () => listener.text(run).includes('\n20\n'))
    relay.cut()
    await until('the cell to end', async () => (await server.kernels())[0]?.execution_state === 'idle')
    relay.restore()
    expect((await listener.settled(run)).reply).toMatchObject({ status: 'ok' })
    expectOnceOrGap(listener, run)
  })
})

test('output and reply that vanish on the way: a gap is told, and the execution ends without an outcome, never twice', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ home, start, relay, server }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    await listener.run('runs = 0')
    const go = join(home.work, 'go')
    const run = await listener.begin(
      `runs += 1\nprint("begun", flush=True)\nimport os, time\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.02)\nprint("end")`,
    )
    await until('the cell to run', () => listener.text(run).includes('begun'))
    relay.swallow()
    writeFileSync(go, '')
    await until('the cell to end', async () => (await server.kernels())[0]?.execution_state === 'idle')
    relay.cut()
    relay.restore()
    const settled = await listener.settled(run)
    expect(settled.reply).toBeNull()
    const gap = await listener.event('gap')
    expect(gap.seq).toBeLessThan(settled.seq)
    expect(listener.text(run)).toBe('begun\n')
    expect(listener.result(await listener.run('runs'))).toBe('1')
  })
})

test('what is asked for while the connection is away is sent once, when it is back', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, relay }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    await listener.run('runs = 0')
    relay.cut()
    await until('the loss to be seen', () => kernel.summary().reason !== undefined)
    const run = await listener.begin('runs += 1; runs')
    await expect(kernel.interrupt()).rejects.toThrow(/gateway "far"/)
    relay.restore()
    expect((await listener.settled(run)).reply).toMatchObject({ status: 'ok' })
    expect(listener.result(run)).toBe('1')
  })
})

test('a daemon that goes away during a remote execution: the next one gets every line', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, nextDaemon }) => {
    const first = await start('far/python3')
    const before = new Listener(first, { acknowledge: false })
    const run = await before.begin(COUNTING)
    await until('some output', () => before.text(run).includes('\n20\n'))
    const next = nextDaemon()
    const kernel = await adoptOne(next)
    const after = new Listener(kernel)
    expect((await after.settled(run)).reply).toMatchObject({ status: 'ok' })
    expect(numbersIn(after.text(run))).toEqual(Array.from({ length: LINES }, (_, n) => n))
    expect(after.events.filter((event) => event.kind === 'gap')).toEqual([])
    expect(kernel.summary().host_pid).toBe(first.summary().host_pid)
  })
})

test('a host that is killed is replaced by one that adopts the remote kernel: variables stay, nothing runs twice', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start, server }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    await listener.run('runs = 0')
    const run = await listener.begin(`runs += 1\n${COUNTING}`)
    await until('some output', () => listener.text(run).includes('\n20\n'))
    const { host_pid: host } = kernel.summary()
    signal(host ?? 0, 'SIGKILL')
    await gone(host ?? 0)
    const gap = await listener.event('gap')
    expect(gap.reason).toContain('host died')
    await listener.settled(run)
    expectOnceOrGap(listener, run)
    expect(listener.result(await listener.run('runs'))).toBe('1')
    expect(await server.kernels()).toHaveLength(1)
  })
})

/** Numbers from 0 on, each once and in order; where some are missing a gap stands right there. */
function expectOnceOrGap(listener: Listener, run: string): void {
  const told = listener.events
    .map((event) =>
      event.kind === 'gap' ? GAP : isOutput(event, run) ? String(event.message.content.text) : '',
    )
    .join('')
  let next = 0
  let excused = false
  for (const line of told.split('\n')) {
    if (line.includes(GAP)) excused = true
    // Half a line before or behind a gap is no number to go by.
    if (line === '' || line.includes(GAP)) continue
    if (excused) expect(Number(line)).toBeGreaterThanOrEqual(next)
    else expect(Number(line)).toBe(next)
    next = Number(line) + 1
    excused = false
  }
  if (!excused) expect(next).toBe(LINES)
}

const GAP = '\0'

function isOutput(event: HostEvent, run: string): event is Extract<HostEvent, { kind: 'message' }> {
  return event.kind === 'message' && event.message.msg_type === 'stream' && event.message.parent_id === run
}
