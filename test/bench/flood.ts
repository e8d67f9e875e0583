/**
 * 100 MB of stdout to eight peers, as one message, as six and as a million lines, against a bare ZeroMQ reader of the same kernel; and
 * from a source that costs nothing. Beside the rate: what daemon and host take for it, how long another room waits, and how long an
 * endless loop goes on printing after an interrupt.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Client, connect, type Room } from '../../client/sdk/index.ts'
import { type ClientProcess, spawnClient } from '../support/client-process.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { has } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { bareKernelClient } from './bare-zeromq.ts'
import { type Figure, figure, percentile } from './figure.ts'
import { MIB, proportionalSize } from './proportional-size.ts'

const PEERS = 8
const MEGABYTES = 100
const MB = 1_000_000
const ROUNDS = 3

const shapes = {
  'one-message': `print('x' * ${MEGABYTES * MB})`,
  'six-messages': `import sys
for _ in range(6): sys.stdout.write('x' * ${Math.ceil((MEGABYTES * MB) / 6)}); sys.stdout.flush()`,
  'million-lines': `for _ in range(1_000_000): print('${'x'.repeat(MEGABYTES - 1)}')`,
}

export async function* benchFlood(): AsyncGenerator<Figure> {
  const folder = new URL('../test/bench/synthetic-kernel.mjs', import.meta.url)
  const home = createHome()
  try {
    installSynthetic(home, fileURLToPath(folder))
    const env = { JUPYTER_PATH: join(home.work, 'jupyter') }
    const daemon = await startDaemon(home, env)
    const client = await connect({ env: home.env, label: 'bench' })
    const neighbour = await spawnNeighbour(home)

    const synthetic = await flooded(home, client, 'synthetic', daemon.pid, neighbour)
    const text = await synthetic.rate(`${MEGABYTES * 10} ${MEGABYTES * MB}`)
    yield figure('flood/synthetic', text, 'MB/s', null, { min: 100 })
    yield* await synthetic.end('synthetic')

    if (has('Python kernel')) {
      const python = await flooded(home, client, 'python3', daemon.pid, neighbour)
      const bare = await bareKernelClient(python.connectionFile)
      for (const [name, code] of Object.entries(shapes)) {
        const ours: number[] = []
        const theirs: number[] = []
        for (let round = 0; round < ROUNDS; round++) {
          ours.push(await python.rate(code))
          const start = performance.now()
          await bare.execute(code)
          theirs.push((MEGABYTES / (performance.now() - start)) * 1000)
        }
        const reference = { name: 'zeromq', value: percentile(theirs, 0.5) }
        yield figure(`flood/${name}`, percentile(ours, 0.5), 'MB/s', reference, { min: 0.9 })
      }
      bare.close()
      yield* await python.interrupt(`'${'x'.repeat(99)}'`)
      yield* await python.end('ipykernel')
    }
    await Promise.all([client.close(), neighbour.kill9()])
  } finally {
    await home.dispose()
  }
}

/** A room with its peers, watched. */
async function flooded(
  home: TestHome,
  client: Client,
  kernel: string,
  daemonPid: number,
  neighbour: ClientProcess,
) {
  const room = await client.openRoom({ create: { kernel } })
  const first = await (await room.execute({ code: kernel === 'synthetic' ? '0 0' : '1' })).done
  const { kernel: running } = room.state
  if (!running?.host_pid) throw new Error(`the room has no kernel: ${JSON.stringify(first)}`)
  const peers = spawnPeers(home, room)
  await peers.next(60_000)
  const pids = [daemonPid, running.host_pid]
  const before = together(pids)
  let peak = before
  neighbour.send('begin')
  await neighbour.next()

  /** Watches until `work` is over. */
  async function watched<T>(work: Promise<T>): Promise<T> {
    let over = false
    const done = work.finally(() => {
      over = true
    })
    while (!over) {
      peak = Math.max(peak, together(pids))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    return done
  }

  async function run(code: string): Promise<number> {
    const start = performance.now()
    const flood = await room.execute({ code })
    const { status } = await flood.done
    if (status !== 'done') throw new Error(`the flood ended as ${status}`)
    return (MEGABYTES / (performance.now() - start)) * 1000
  }

  return {
    connectionFile: join(home.places.state, 'kernels', running.kernel_id, 'connection.json'),
    /** MB a second from the request to the terminal event at a peer. */
    rate: (code: string) => watched(run(code)),
    /**
     * From the request to interrupt until the loop has stopped (the kernel says when, on the same machine's clock), and until all that it
     * had printed by then has been taken in and the end is told.
     */
    async interrupt(line: string): Promise<Figure[]> {
      const code = `import time\ntry:\n  while True: print(${line})\nexcept KeyboardInterrupt: print('stopped at', time.time() * 1000)`
      const stops: number[] = []
      const ends: number[] = []
      for (let i = 0; i < 5; i++) {
        const run = await room.execute({ code })
        await until('the flood', () => (room.state.execution(run.id)?.outputs.length ?? 0) > 0)
        const asked = Date.now()
        await room.interrupt()
        await run.done
        ends.push(Date.now() - asked)
        const last = room.state.execution(run.id)?.outputs.at(-1)
        const text = last?.output_type === 'stream' ? last.text : ''
        const stopped = /stopped at ([\d.]+)/.exec(typeof text === 'string' ? text : text.tail)?.[1]
        if (stopped === undefined) throw new Error('the loop did not say when it stopped')
        stops.push(Number(stopped) - asked)
      }
      return [
        figure('flood/interrupt', percentile(stops, 0.5), 'ms', null, { max: 250 }),
        figure('flood/interrupt-told', percentile(ends, 0.5), 'ms', null, { max: 250 }),
      ]
    },
    async end(name: string): Promise<Figure[]> {
      neighbour.send('take')
      const waits = (await neighbour.next(30_000)) as number[]
      await peers.kill9()
      await room.call('shutdown_kernel', {})
      await room.close()
      return [
        figure(`flood/${name}/memory`, (peak - before) / MIB, 'MiB', null, { max: 96 }),
        figure(`flood/${name}/other-room-p99`, percentile(waits, 0.99), 'ms', null, { max: 10 }),
      ]
    },
  }
}

/** Somebody at work in another room, in a process of its own: how long each of its requests takes, from `begin` to `take`. */
async function spawnNeighbour(home: TestHome): Promise<ClientProcess> {
  const neighbour = spawnClient(
    home,
    `
  const client = await connect({ label: 'other room' })
  const room = await client.openRoom({ create: { kernel: 'javascript' } })
  await (await room.execute({ code: '1' })).done
  let waits = []
  const work = async () => {
    for (;;) {
      const start = performance.now()
      await room.call('get_cells', { count: 1 })
      waits.push(performance.now() - start)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  work()
  say('ready')
  for (;;) {
    if ((await heard()) === 'take') say(waits)
    else say('begun')
    waits = []
  }`,
  )
  await neighbour.next(60_000)
  return neighbour
}

/** All peers but the one that measures, in a process of their own. */
function spawnPeers(home: TestHome, room: Room): ClientProcess {
  return spawnClient(
    home,
    `
  for (let i = 1; i < ${PEERS}; i++) {
    const client = await connect({ label: 'peer ' + i })
    const room = await client.openRoom({ notebook_id: ${JSON.stringify(room.id)} })
    room.on('lost', (error) => { throw error })
  }
  say('ready')
  await heard()`,
  )
}

/** Bytes that the processes hold, shared ones by their share. */
const together = (pids: readonly number[]): number =>
  pids.map(proportionalSize).reduce((sum, one) => sum + one, 0)

function installSynthetic(home: TestHome, script: string): void {
  const folder = join(home.work, 'jupyter', 'kernels', 'synthetic')
  mkdirSync(folder, { recursive: true })
  const spec = {
    argv: [process.execPath, script, '{connection_file}'],
    display_name: 'Synthetic',
    language: 'none',
    interrupt_mode: 'message',
  }
  writeFileSync(join(folder, 'kernel.json'), JSON.stringify(spec))
}
