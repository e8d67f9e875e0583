/**
 * The daemon, then the kernel's host, is killed while a cell prints. Of the daemon nothing is lost: every line once. Of the host what
 * the kernel printed while it was down may be: then a gap says so, at its place, and outside of it every line is there once.
 * `ROOMD_TEST_ROUNDS` makes it more rounds of the first (a soak: 100), `ROOMD_TEST_HOST_ROUNDS` of the second (20).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Client } from '../../client/sdk/client.ts'
import { connect } from '../../client/sdk/index.ts'
import type { Room } from '../../client/sdk/room.ts'
import type { Run } from '../../client/sdk/run.ts'
import type { Execution, OutputGap } from '../../protocol/notebook.ts'
import { ended, lines, openWith, run, text } from '../conformance/kernels/runs.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { needs } from '../support/machine.ts'
import { signal } from '../support/processes.ts'
import { until, within } from '../support/until.ts'

const ROUNDS = Number(process.env.ROOMD_TEST_ROUNDS ?? 5)
const HOST_ROUNDS = Number(process.env.ROOMD_TEST_HOST_ROUNDS ?? 3)
const LINES = 300

let home: TestHome
let daemon: TestDaemon
let client: Client

beforeEach(async () => {
  home = createHome({ SHELL: '/bin/sh' })
  daemon = await startDaemon(home)
  client = await connect({ env: home.env })
})
afterEach(async () => {
  await client.close()
  await home.dispose()
})

/** `held`: it does not come to its end before the file `on-ROUND` is there. */
const printing = (round: number, held = false) => `
import os, time
for i in range(${LINES}):
  print(${round}, i, flush=True)
  if i % 3 == 0: time.sleep(0.002)
  while ${held ? 'True' : 'False'} and i == ${LINES - 50} and not os.path.exists("on-${round}"): time.sleep(0.002)
ran = globals().get("ran", []) + [${round}]
`

/** A moment in the middle of the output, another one each round. */
async function somewhere(printed: Run, round: number): Promise<void> {
  const from = 1 + ((round * 37) % (LINES - 100))
  await until('the moment', () => text(printed.execution).includes(`${round} ${from}\n`), { every: 1 })
}

const whole = (round: number) => Array.from({ length: LINES }, (_, i) => `${round} ${i}`)

test(
  `the daemon killed during output, ${ROUNDS} rounds: every line once, every cell run once`,
  async (context) => {
    needs(context, 'Python kernel')
    const room = await openWith(client, 'python3', home.work)
    await run(room, '1')
    const pid = room.state.kernel?.pid
    for (let round = 1; round <= ROUNDS; round++) {
      const printed = await room.execute({ code: printing(round) })
      const followed = lines(printed)
      await somewhere(printed, round)
      await daemon.kill9()
      daemon = await startDaemon(home)
      const { status, outputs, gaps } = await ended(printed, 60_000)
      expect([round, status, gaps]).toEqual([round, 'done', undefined])
      expect(text({ outputs }).trimEnd().split('\n')).toEqual(whole(round))
      expect(await within('the follower', followed)).toEqual(whole(round))
    }
    expect(room.state.kernel?.pid).toBe(pid)
    expect(await ranIn(room)).toEqual(Array.from({ length: ROUNDS }, (_, i) => i + 1))
  },
  60_000 + ROUNDS * 15_000,
)

test(
  `the kernel's host killed during output, ${HOST_ROUNDS} rounds: every line once, or a gap where it is missing`,
  async (context) => {
    needs(context, 'Python kernel')
    const room = await openWith(client, 'python3', home.work)
    await run(room, '1')
    const pid = room.state.kernel?.pid
    let missed = 0
    for (let round = 1; round <= HOST_ROUNDS; round++) {
      const printed = await room.execute({ code: printing(round, true) })
      await somewhere(printed, round)
      const host = await hostOf(room)
      signal(host, 'SIGKILL')
      // The cell goes on to its end at once, or when there is another host.
      if (round % 2 === 0) await until('another host', async () => (await hostOf(room)) !== host)
      writeFileSync(join(home.work, `on-${round}`), '')
      const execution = await ended(printed, 60_000)
      // Its reply may be among what is missing; then that is what it says.
      expect(['done', 'lost']).toContain(execution.status)
      missed += accountFor(execution, round)
      const { execution: stored } = await client.call('get_execution', { execution_id: printed.id })
      expect([stored.gaps, text(stored)]).toEqual([execution.gaps, text(execution)])
    }
    expect(room.state.kernel?.pid).toBe(pid)
    expect(await ranIn(room)).toEqual(Array.from({ length: HOST_ROUNDS }, (_, i) => i + 1))
    if (process.env.ROOMD_TEST_HOST_ROUNDS)
      console.info(`${missed} lines were missing in ${HOST_ROUNDS} rounds, each behind a gap`)
  },
  60_000 + HOST_ROUNDS * 30_000,
)

/** What the kernel itself knows of: nothing ran twice, nothing was left out. */
async function ranIn(room: Room): Promise<number[]> {
  return text(await run(room, 'print(*ran)'))
    .trim()
    .split(' ')
    .map(Number)
}

async function hostOf(room: Room): Promise<number> {
  return until('the host', async () => {
    const { running } = await client.call('list_kernels', {})
    return running.find((kernel) => kernel.notebook_id === room.id)?.host_pid
  })
}

/** Returns how many lines are missing. Fails for one that is missing outside of a gap, and for one that is there twice. */
function accountFor(execution: Execution, round: number): number {
  const { gaps = [] } = execution
  expect(gaps.length).toBe(1)
  const [gap] = gaps as [OutputGap]
  const all = text(execution)
  // One stream: the gap is somewhere in it.
  expect([execution.outputs.length, gap.index, gap.reason]).toEqual([1, 0, expect.stringContaining('host')])
  const before = numbers(all.slice(0, gap.chars ?? 0), round)
  const after = numbers(all.slice(gap.chars ?? 0), round)
  expect(before).toEqual(before.map((_, i) => i))
  const first = after[0] ?? LINES
  expect(after).toEqual(after.map((_, i) => first + i))
  expect(first).toBeGreaterThanOrEqual(before.length)
  // What comes last is there, unless the host was down until the end.
  if (after.length > 0) expect(after.at(-1)).toBe(LINES - 1)
  return LINES - before.length - after.length
}

function numbers(part: string, round: number): number[] {
  return part
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [, of, number] = /^(\d+) (\d+)$/.exec(line) ?? []
      expect([line, of]).toEqual([line, `${round}`])
      return Number(number)
    })
}
