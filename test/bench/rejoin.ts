/** kill -9 of the daemon under 100 clients in 50 rooms: from the moment the next daemon's socket answers until all are bound again. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ClientProcess, spawnClient } from '../support/client-process.ts'
import { answers, startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { until } from '../support/until.ts'
import { type Figure, figure, percentile } from './figure.ts'

const CLIENTS = 100
const ROOMS = 50
/** A process each would measure how two cores share a hundred processes. */
const PROCESSES = 4
const KILLS = 5

export async function* benchRejoin(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    let daemon = await startDaemon(home)
    const notebook = JSON.stringify({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 })
    for (let i = 0; i < ROOMS; i++) writeFileSync(join(home.work, `${i}.ipynb`), notebook)
    const processes = Array.from({ length: PROCESSES }, (_, i) => clients(home, i))
    for (const process of processes) await process.next(120_000)
    const times: number[] = []
    for (let i = 0; i < KILLS; i++) {
      for (const process of processes) process.send('a kill comes')
      await daemon.kill9()
      const answering = momentItAnswers(home)
      daemon = await startDaemon(home)
      const bound: number[] = []
      for (const process of processes) bound.push(Number(await process.next(120_000)))
      times.push(Math.max(...bound) - (await answering))
    }
    for (const process of processes) await process.kill9()
    return [
      figure('rejoin', percentile(times, 0.5), 'ms', null, { max: 1000 }),
      figure('rejoin/worst', Math.max(...times), 'ms', null, null),
    ]
  })
}

/** Epoch milliseconds, comparable between the processes of one machine. */
async function momentItAnswers(home: TestHome): Promise<number> {
  await until('the socket to answer', () => answers(home.places.socket), { every: 1, timeout: 60_000 })
  return performance.timeOrigin + performance.now()
}

/** A process with its share of the clients. After each kill it tells when the last of them was bound again. */
function clients(home: TestHome, index: number): ClientProcess {
  return spawnClient(
    home,
    `
  const [index, clients, processes, rooms, work] = ${JSON.stringify([index, CLIENTS, PROCESSES, ROOMS, home.work])}
  let back = 0
  let all = () => {}
  let count = 0
  for (let i = index; i < clients; i += processes) {
    const client = await connect({ label: 'client ' + i })
    const room = await client.openRoom({ path: work + '/' + (i % rooms) + '.ipynb' })
    count++
    room.on('resumed', () => ++back === count && all())
    room.on('lost', (error) => { throw error })
  }
  say('bound')
  for (;;) {
    await heard()
    back = 0
    await new Promise((resolve) => { all = resolve })
    say(performance.timeOrigin + performance.now())
  }`,
  )
}
