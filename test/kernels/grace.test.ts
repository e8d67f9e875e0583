import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { kernelFolder } from '../../daemon/kernel-host/folder.ts'
import { HostConnection } from '../../daemon/kernels/host-connection.ts'
import { readHostRecord } from '../../daemon/kernels/host-records.ts'
import type { Kernel } from '../../daemon/kernels/kernel.ts'
import { kernelPlaces } from '../../daemon/kernels/kernel-places.ts'
import { systemClock } from '../../protocol/clock.ts'
import { BootId } from '../../protocol/ids.ts'
import type { HostStatus } from '../../protocol/kernel-host.ts'
import type { TestHome } from '../support/home.ts'
import { alive, gone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Listener, withKernels } from './harness.ts'

test('the grace can be changed while the kernel runs, also for a host that comes later', () =>
  withKernels(async ({ start, nextDaemon }) => {
    const [short, long] = await Promise.all([
      start('javascript', { orphanGraceMs: null }),
      start('javascript', { orphanGraceMs: 150 }),
    ])
    short.keepFor(150)
    long.keepFor(null)
    for (const kernel of [short, long]) await new Listener(kernel).run('1')
    const { pid: ends } = short.summary()
    const { pid: stays, host_pid: host } = long.summary()
    // Another host knows only what was launched: it is told again.
    process.kill(host ?? Number.NaN, 'SIGKILL')
    await until('another host', () => ![null, host].includes(long.summary().host_pid))
    await new Listener(long, { since: long.seq }).run('2')
    nextDaemon()
    await gone(ends ?? 0)
    expect(alive(stays ?? 0)).toBe(true)
  }))

test('status tells kernelspec, environment, memory and its peak', () =>
  withKernels(async ({ start, home }) => {
    const kernels = await Promise.all([
      start('javascript'),
      start('javascript'),
      start('javascript', { env: { ANOTHER: '1' } }),
    ])
    const told = await Promise.all(kernels.map((kernel) => statusOf(home, kernel)))
    const [a, b, c] = told
    expect(a).toMatchObject({ spec: 'javascript', environment: expect.stringMatching(/^[0-9a-f]{16}$/) })
    expect(b?.environment).toBe(a?.environment)
    expect(c?.environment).not.toBe(a?.environment)
    if (process.platform === 'linux') expect(a?.peak_memory).toBeGreaterThan(10 * 2 ** 20)
  }))

/** As another daemon would ask the host. */
async function statusOf(home: TestHome, kernel: Kernel): Promise<HostStatus> {
  const places = kernelPlaces(home.places, kernel.id)
  const nonce = readHostRecord(kernelFolder(places.folder))?.nonce ?? ''
  const connection = await HostConnection.open({
    socket: places.socket,
    kernelId: kernel.id,
    nonce,
    bootId: BootId.parse(randomUUID()),
    clock: systemClock,
    signal: new AbortController().signal,
    event: () => {},
  })
  const { status } = await connection.request('status', {})
  connection.close()
  return status
}
