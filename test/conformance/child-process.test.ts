/** One child process from start to end: scenarios of nteract's supervised child that no other test here pins. */
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Child, type ChildEnd, type LaunchSpec } from '../../client/mcp-proxy/child.ts'
import { systemClock } from '../../protocol/clock.ts'
import { alive, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'

function start(script: string) {
  const ends: ChildEnd[] = []
  const messages: unknown[] = []
  const spec: LaunchSpec = {
    command: process.execPath,
    args: ['-e', script],
    env: { PATH: process.env.PATH ?? '' },
  }
  const child = new Child(spec, 1, systemClock, {
    message: (message) => messages.push(message),
    tooLong: () => {},
    ended: (end) => ends.push(end),
    log: () => {},
  })
  return { child, ends, messages, pid: child.pid ?? 0 }
}

/** Not even a zombie is left of it. */
const reaped = (pid: number) => !alive(pid) && !existsSync(`/proc/${pid}`)

test('lifecycle_task_reaps_natural_child_exit: told once, no zombie', async () => {
  const { child, ends, pid } = start('')
  await child.whenEnded()
  expect(ends).toMatchObject([{ code: 0, signal: null }])
  await until('it to be reaped', () => reaped(pid))
})

test('lifecycle_task_reaps_nonzero_exit: 75 is seen, after all that was written before it', async () => {
  const { child, ends, messages, pid } = start(
    `process.stdout.write('{"jsonrpc":"2.0","method":"last"}\\n'); process.exitCode = 75`,
  )
  await child.whenEnded()
  expect(ends).toMatchObject([{ code: 75, signal: null }])
  expect(messages).toMatchObject([{ kind: 'notification', method: 'last' }])
  await until('it to be reaped', () => reaped(pid))
})

test('lifecycle_task_kills_and_reaps_on_shutdown: also one that ignores stdin and SIGTERM', async () => {
  const { child, ends, messages, pid } = start(
    `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); process.stdout.write('{"jsonrpc":"2.0","method":"up"}\\n')`,
  )
  await until('it to be up', () => messages.length === 1)
  await child.end()
  expect(ends).toMatchObject([{ code: null, signal: 'SIGKILL' }])
  await until('it to be reaped', () => reaped(pid))
})

test('late_shutdown_after_natural_reap_is_harmless: no signal is sent to an id that may be reused', async () => {
  const { child, ends } = start('')
  await child.whenEnded()
  const kill = process.kill
  const signals: unknown[] = []
  process.kill = ((...args: unknown[]) => signals.push(args) > 0) as typeof process.kill
  try {
    await child.end()
    child.kill()
    child.send({ kind: 'notification', method: 'x', params: {} })
    await expect(child.request('ping', {})).rejects.toThrow('has ended')
  } finally {
    process.kill = kill
  }
  expect(signals).toEqual([])
  expect(ends).toHaveLength(1)
})

test('is_transport_closed_flips_when_child_exits: requests of its own are rejected by its death', async () => {
  const { child, ends, pid } = start('setInterval(() => {}, 1000)')
  const asked = child.request('initialize', {})
  signal(pid, 'SIGKILL')
  await expect(asked).rejects.toThrow('has ended')
  await child.whenEnded()
  expect(ends).toMatchObject([{ signal: 'SIGKILL', detail: 'killed by SIGKILL' }])
})
