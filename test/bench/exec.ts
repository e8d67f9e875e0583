/**
 * `execute "1"` to the terminal event at the client, recorded durably, against a bare ZeroMQ client on the same kernel, and
 * Jupyter Server's way of the same (its client over WebSocket) against ours.
 */
import { join } from 'node:path'
import { connect, type Room } from '../../client/sdk/index.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { has } from '../support/machine.ts'
import { bareKernelClient } from './bare-zeromq.ts'
import { type Figure, figure, percentile } from './figure.ts'
import { startJupyterServer } from './jupyter-server.ts'

const BLOCKS = 20
const PER_BLOCK = 20

export async function* benchExec(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    await startDaemon(home)
    const client = await connect({ env: home.env, label: 'bench' })
    const figures: Figure[] = []
    const javascript = await client.openRoom({ create: { kernel: 'javascript' } })
    const embedded = await againstBare(home, javascript, [])
    figures.push(
      figure('exec/javascript', embedded.ours, 'ms', { name: 'zeromq', value: embedded.bare }, null),
      figure('exec/javascript/overhead', embedded.ours - embedded.bare, 'ms', null, { max: 0.8 }),
    )
    if (has('Python kernel')) {
      const python = await client.openRoom({ create: { kernel: 'python3' } })
      const jupyter = has('Jupyter Server') ? await startJupyterServer(home, 'python3') : null
      const others = jupyter ? [() => jupyter.execute('1')] : []
      const measured = await againstBare(home, python, others)
      figures.push(
        figure('exec/ipykernel', measured.ours, 'ms', { name: 'zeromq', value: measured.bare }, { max: 1.3 }),
      )
      const theirs = measured.others[0]
      if (jupyter && theirs !== undefined) {
        figures.push(
          figure('exec/jupyter-server', theirs, 'ms', { name: 'roomd', value: measured.ours }, { min: 10 }),
        )
        await jupyter.end()
      }
    }
    await client.close()
    return figures
  })
}

async function againstBare(
  home: TestHome,
  room: Room,
  others: readonly (() => Promise<unknown>)[],
): Promise<{ ours: number; bare: number; others: number[] }> {
  await (await room.execute({ code: '1' })).done
  const kernel = room.state.kernel
  if (!kernel) throw new Error('the room has no kernel')
  const bare = await bareKernelClient(join(home.places.state, 'kernels', kernel.kernel_id, 'connection.json'))
  const ways = [
    async () => {
      const run = await room.execute({ code: '1' })
      const { status } = await run.done
      if (status !== 'done') throw new Error(`the execution ended as ${status}`)
    },
    () => bare.execute('1'),
    ...others,
  ]
  const times: number[][] = ways.map(() => [])
  for (let block = -2; block < BLOCKS; block++) {
    for (const [i, way] of ways.entries()) {
      for (let n = 0; n < PER_BLOCK; n++) {
        const start = performance.now()
        await way()
        if (block >= 0) times[i]?.push(performance.now() - start)
      }
    }
  }
  bare.close()
  const [ours = Number.NaN, bareP50 = Number.NaN, ...rest] = times.map((samples) => percentile(samples, 0.5))
  return { ours, bare: bareP50, others: rest }
}
