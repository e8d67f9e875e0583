/** A trivial request over the socket against a bare echo between two processes, with 1, 100 and 10,000 idle peers attached. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect as connectSocket, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect } from '../../client/sdk/index.ts'
import { spawnClient } from '../support/client-process.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { type Figure, figure, percentile } from './figure.ts'

/** Bytes of a request frame for `ping`, there and back. */
const ECHO_BYTES = 48
const BLOCKS = 40
const PER_BLOCK = 100
const ROOMS = 100
/** A daemon lives for weeks: what is measured is compiled code, on both sides. */
const WARM_UP = 5000

export async function* benchRtt(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    await startDaemon(home)
    const echo = await bareEcho(home)
    const client = await connect({ env: home.env, label: 'bench' })
    const figures: Figure[] = []
    let alone: number | null = null
    let attached = 0
    for (const peers of [1, 100, 10_000]) {
      await attachIdle(home, attached, peers)
      attached = peers
      const measured = await measure(() => client.call('ping', {}), echo.once)
      const named = peers === 1 ? 'rtt' : `rtt/${peers}-peers`
      const reference = { name: 'echo', value: measured.reference.p50 }
      figures.push(figure(`${named}/p50`, measured.subject.p50, 'ms', reference, { max: 2.5 }))
      figures.push(
        figure(
          `${named}/p99`,
          measured.subject.p99,
          'ms',
          { name: 'echo', value: measured.reference.p99 },
          null,
        ),
      )
      // Against the echo of its own moment, so that a machine that slowed down meanwhile is not our growth.
      const relative: number = measured.subject.p50 / measured.reference.p50
      if (alone === null) alone = relative
      else {
        const before = { name: 'rtt with 1 peer', value: alone }
        figures.push(figure(`${named}/growth`, relative, 'x echo', before, { max: 1.5 }))
      }
    }
    echo.end()
    await client.close()
    return figures
  })
}

interface Spread {
  readonly p50: number
  readonly p99: number
}

/** Blocks of both in turn, so that both see the same machine. */
async function measure(
  subject: () => Promise<unknown>,
  reference: () => Promise<unknown>,
): Promise<{ subject: Spread; reference: Spread }> {
  const times = { subject: [] as number[], reference: [] as number[] }
  for (let i = 0; i < WARM_UP; i++) {
    await subject()
    await reference()
  }
  for (let block = 0; block < BLOCKS; block++) {
    for (const [name, once] of [
      ['subject', subject],
      ['reference', reference],
    ] as const) {
      for (let i = 0; i < PER_BLOCK; i++) {
        const start = performance.now()
        await once()
        times[name].push(performance.now() - start)
      }
    }
  }
  const spread = (samples: number[]): Spread => ({
    p50: percentile(samples, 0.5),
    p99: percentile(samples, 0.99),
  })
  return { subject: spread(times.subject), reference: spread(times.reference) }
}

async function bareEcho(home: TestHome): Promise<{ once: () => Promise<void>; end: () => void }> {
  const path = join(home.path, 'echo.sock')
  const server = `require('node:net').createServer((s) => s.on('data', (d) => s.write(d))).listen(${JSON.stringify(path)}, () => console.log('up'))`
  const child = spawn(process.execPath, ['-e', server], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: home.env,
  })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const socket: Socket = connectSocket(path)
  await new Promise((resolve) => socket.once('connect', resolve))
  const message = Buffer.alloc(ECHO_BYTES, 1)
  let answered: (() => void) | null = null
  socket.on('data', () => answered?.())
  return {
    once: () =>
      new Promise((resolve) => {
        answered = resolve
        socket.write(message)
      }),
    end() {
      socket.destroy()
      child.kill('SIGKILL')
    },
  }
}

/** Attaches peers `from`…`to` in a process of their own, over 100 rooms, 250 peers a connection. */
async function attachIdle(home: TestHome, from: number, to: number): Promise<void> {
  const notebook = JSON.stringify({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 })
  for (let i = 0; i < ROOMS; i++) writeFileSync(join(home.work, `${i}.ipynb`), notebook, { flag: 'w' })
  const script = `
  const [from, to, rooms, work] = ${JSON.stringify([from, to, ROOMS, home.work])}
  let client
  const pending = []
  for (let i = from; i < to; i++) {
    if (!client || i % 250 === 0) client = await connect({ label: 'idle' })
    pending.push(client.openRoom({ path: work + '/' + (i % rooms) + '.ipynb' }, { projection: false }))
    if (pending.length === 50) await Promise.all(pending.splice(0))
  }
  await Promise.all(pending)
  say('attached')
  await heard()`
  const idle = spawnClient(home, script)
  await idle.next(300_000)
}
