/**
 * Cells that say nothing, hold everything, or do not listen. No clock of ours declares their kernel dead or ends them, an interrupt
 * does what can be done, and other rooms do not notice. `ROOMD_TEST_SILENT_SECONDS` makes the silent ones last longer (a soak: 60).
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Client } from '../../client/sdk/client.ts'
import { connect } from '../../client/sdk/index.ts'
import type { Room } from '../../client/sdk/room.ts'
import type { Run } from '../../client/sdk/run.ts'
import { ended, openWith, run, running, text } from '../conformance/kernels/runs.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { has, needs } from '../support/machine.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'

const SECONDS = Number(process.env.ROOMD_TEST_SILENT_SECONDS ?? 2)
const LONG_MS = 120_000 + 3_000 * SECONDS

let home: TestHome
let client: Client
let room: Room
/** Must not notice anything. */
let other: Room

beforeAll(async () => {
  if (!has('Python kernel')) return
  home = createHome({ SHELL: '/bin/sh' })
  await startDaemon(home)
  client = await connect({ env: home.env })
  room = await openWith(client, 'python3', home.work)
  other = await openWith(client, 'javascript', home.work)
  await run(room, 'import os, signal, subprocess, sys, time, ctypes; kept = 4711')
  await run(other, 'let mine = 1')
})
afterAll(async () => {
  await client?.close()
  await home?.dispose()
})
beforeEach((context) => needs(context, 'Python kernel'))

/** What it printed has left the kernel when it asks: a library that holds the lock keeps that from happening. */
async function goOn(cell: Run): Promise<void> {
  await until('the question', () => cell.execution.status === 'waiting_for_input')
  await room.sendInput(cell.id, '')
}

/** The kernel is the one from before, with its variables. */
async function unharmed(pid: number | null | undefined): Promise<void> {
  expect(text(await run(room, 'print(kept)'))).toBe('4711\n')
  expect(room.state.kernel).toMatchObject({ state: 'idle', pid })
}

test.each([
  ['waits for a subprocess that prints nothing', `subprocess.run(["sleep", "${SECONDS}"])`],
  ['holds the interpreter lock in a library', `ctypes.PyDLL(None).sleep(${SECONDS})`],
  [
    'computes without an end in sight',
    `end = time.monotonic() + ${SECONDS}\nwhile time.monotonic() < end: pass`,
  ],
])(
  'a cell that %s is left alone until it is done',
  async (_what, code) => {
    const pid = room.state.kernel?.pid
    const silent = await room.execute({
      code: `print("begun", flush=True)\ntime.sleep(0.2)\n${code}\nprint("done")`,
    })
    await running(silent)
    let answers = 0
    while (silent.execution.status === 'running') {
      expect(text(await run(other, 'console.log(++mine > 0)'))).toBe('true\n')
      if (silent.execution.status === 'running')
        expect(room.state.kernel).toMatchObject({ state: 'busy', pid })
      answers++
    }
    const { status, outputs } = await ended(silent, LONG_MS)
    expect([status, text({ outputs })]).toEqual(['done', expect.stringMatching(/^begun\n[\s\S]*done\n$/)])
    expect(answers).toBeGreaterThan(0)
    await unharmed(pid)
  },
  LONG_MS,
)

test('an interrupt ends a shell command with all it started', async () => {
  const pid = room.state.kernel?.pid
  const shell = await room.execute({
    code: `from IPython import get_ipython\nget_ipython().system("sh -c 'echo $$; sleep 600 & echo $!; wait'")`,
  })
  await until('both processes', () => text(shell.execution).trim().split(/\s+/).length === 2)
  const pids = text(shell.execution).trim().split(/\s+/).map(Number)
  expect(await room.interrupt()).toMatchObject({ cancelled: [] })
  expect(['interrupted', 'done']).toContain((await ended(shell)).status)
  for (const each of pids) await gone(each)
  await unharmed(pid)
})

test('an interrupt ends a subprocess that a cell waits for, and the wait', async () => {
  const pid = room.state.kernel?.pid
  const waiting = await room.execute({
    code: 'child = subprocess.Popen(["sleep", "600"]); print(child.pid, flush=True); child.wait()',
  })
  await running(waiting)
  expect((await room.interrupt()).interrupted).toBe(waiting.id)
  await gone(Number(text(waiting.execution)))
  await unharmed(pid)
})

test('a cell that ignores the interrupt: a restart is offered, nothing is done by itself, and it may go on to its end', async () => {
  const pid = room.state.kernel?.pid
  const deaf = await room.execute({
    code: [
      'before = signal.signal(signal.SIGINT, signal.SIG_IGN)',
      'print("deaf", flush=True)',
      'while not os.path.exists("enough"): time.sleep(0.02)',
      'signal.signal(signal.SIGINT, before)',
      'print("heard")',
    ].join('\n'),
  })
  const behind = await room.execute({ code: 'print("never")' })
  await running(deaf)
  expect(await room.interrupt()).toEqual({ interrupted: null, cancelled: [behind.id], offer: 'restart' })
  expect(deaf.execution.status).toBe('running')
  expect(room.state.kernel).toMatchObject({ state: 'busy', pid })
  // What is asked for after the interrupt runs.
  const later = await room.execute({ code: 'print("later")' })
  await run(other, 'require("node:fs").writeFileSync("enough", "")')
  expect(text(await ended(deaf))).toBe('deaf\nheard\n')
  expect(text(await ended(later))).toBe('later\n')
  await unharmed(pid)
})

test('a library that does not return: a restart is offered, and ends it', async () => {
  const stuck = await room.execute({
    code: [
      'signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])',
      'print("stuck", flush=True)',
      'input()',
      'ctypes.PyDLL(None).sleep(600)',
    ].join('\n'),
  })
  await goOn(stuck)
  expect(await room.interrupt()).toMatchObject({ interrupted: null, offer: 'restart' })
  const before = room.state.kernel?.pid ?? 0
  await room.restartKernel()
  await gone(before)
  expect((await ended(stuck)).status).toBe('interrupted')
  expect((await run(room, 'kept')).status).toBe('error')
})
