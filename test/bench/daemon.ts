/**
 * The daemon itself: from its start to its first answer about rooms with 1,000 rooms in the store, and its memory when idle: alone,
 * for each idle peer, for each idle room that is resident.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { connect } from '../../client/sdk/index.ts'
import { programFile } from '../../protocol/programs.ts'
import { spawnClient } from '../support/client-process.ts'
import { answers } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { gone, signal } from '../support/processes.ts'
import { type Figure, figure, percentile } from './figure.ts'
import { MIB, settledSize } from './proportional-size.ts'

const ROOMS = 1_000
const STARTS = 9
const RESIDENT = 300
/** Rooms visited before: what the first of them load (code, its compiled form) is not an idle room's. */
const FIRST_ROOMS = 20
const PEERS = 2_000
const KIB = 1024

export async function* benchDaemon(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    const first = start(home)
    await untilItAnswers(home)
    await makeRooms(home)
    await stop(first)
    const times: number[] = []
    for (let i = 0; i <= STARTS; i++) {
      const begun = performance.now()
      const daemon = start(home)
      await untilItAnswers(home)
      if (i > 0) times.push(performance.now() - begun)
      await stop(daemon)
    }
    const figures = [figure('daemon/start', percentile(times, 0.5), 'ms', null, { max: 200 })]
    if (process.platform === 'linux') figures.push(...(await memory(home)))
    return figures
  })
}

async function memory(home: TestHome): Promise<Figure[]> {
  const daemon = start(home)
  const { pid } = daemon
  if (pid === undefined) throw new Error('the daemon could not be started')
  await untilItAnswers(home)
  const alone = await settledSize(pid)

  await visit(home, 0, FIRST_ROOMS)
  const withFew = await settledSize(pid)
  await visit(home, FIRST_ROOMS, FIRST_ROOMS + RESIDENT)
  const withRooms = await settledSize(pid)

  const watcher = spawnClient(home, WATCHER)
  watcher.send(PEERS)
  await watcher.next(120_000)
  const withPeers = await settledSize(pid)
  await watcher.kill9()
  await stop(daemon)
  return [
    figure('daemon/idle', alone / MIB, 'MiB', null, { max: 110 }),
    figure('daemon/idle-room', (withRooms - withFew) / RESIDENT / KIB, 'KiB', null, { max: 10 }),
    figure('daemon/idle-peer', (withPeers - withRooms) / PEERS / KIB, 'KiB', null, { max: 12 }),
  ]
}

async function visit(home: TestHome, from: number, to: number): Promise<void> {
  const visitor = spawnClient(home, VISITOR)
  visitor.send([from, to])
  await visitor.next(120_000)
  await visitor.exited
}

function start(home: TestHome): ChildProcess {
  return spawn(process.execPath, [programFile('daemon')], {
    env: home.env,
    cwd: home.work,
    detached: true,
    stdio: 'ignore',
  })
}

async function stop({ pid }: ChildProcess): Promise<void> {
  if (pid === undefined) throw new Error('the daemon could not be started')
  signal(pid, 'SIGTERM')
  await gone(pid)
}

/** Until it has told which rooms there are. */
async function untilItAnswers(home: TestHome): Promise<void> {
  while (!(await answers(home.places.socket))) await new Promise((resolve) => setTimeout(resolve, 1))
  const client = await connect({ env: home.env, label: 'bench' })
  await client.call('list_rooms', { inactive: true, limit: 20 })
  await client.close()
}

async function makeRooms(home: TestHome): Promise<void> {
  const client = await connect({ env: home.env, label: 'bench' })
  for (let at = 0; at < ROOMS; at += 50) {
    await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const room = await client.openRoom({ create: {} })
        await room.createCell({ source: `print(${at + i})` })
        await room.close()
      }),
    )
  }
  await client.close()
}

/** Attaches to rooms, one after another, and leaves: they stay resident. */
const VISITOR = `
const [from, to] = await heard()
const client = await connect({ label: 'visitor' })
const { rooms } = await client.call('list_rooms', { inactive: true, limit: 500 })
for (const { notebook_id } of rooms.slice(from, to)) await (await client.openRoom({ notebook_id })).close()
await client.close()
say('left')
`

/** So many peers, 100 on a connection, in rooms that are resident. */
const WATCHER = `
const count = await heard()
let rooms
for (let at = 0; at < count; at += 100) {
  const client = await connect({ label: 'watcher ' + at })
  rooms ??= (await client.call('list_rooms', { inactive: true, limit: 500 })).rooms.slice(0, 100)
  for (const { notebook_id } of rooms) await client.openRoom({ notebook_id })
}
say('attached')
await heard()
`
