/**
 * From asking for a notebook to its first result. Cold: against a bare start of the same kernel. Warm: a room of the pool, or the kernel
 * that is kept ready for new notebooks, against the same step cold; with and without something heavy in preload.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, connect, type Room } from '../../client/sdk/index.ts'
import { Repository } from '../projects/repository.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { has } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { bareStart } from './bare-start.ts'
import { type Figure, figure, percentile } from './figure.ts'

const COLD_ROUNDS = 5
const WARM_ROUNDS = 7

export async function* benchStart(): AsyncGenerator<Figure> {
  const kernels = ['javascript', ...(has('Python kernel') ? ['python3'] : [])]
  for (const kernel of kernels) yield* await withHome((home) => coldFigures(home, kernel))
  for (const kernel of kernels) yield* await withHome((home) => notebookFigures(home, kernel), {}, null)
  const kernel = kernels.at(-1) ?? 'javascript'
  yield* await withHome((home) => claimFigures(home, kernel, 'plain'))
  yield* await withHome((home) => claimFigures(home, kernel, 'heavy'))
}

/** Creating a notebook and its first result, block by block with bare starts of the same kernel. */
async function coldFigures(home: TestHome, kernel: string): Promise<Figure[]> {
  await startDaemon(home)
  const client = await connect({ env: home.env, label: 'bench' })
  const spec = await kernelspec(client, kernel)
  const ours: number[] = []
  const bare: number[] = []
  for (let round = -1; round < COLD_ROUNDS; round++) {
    const took = await timed(() => newNotebook(client, kernel))
    await took.value.call('shutdown_kernel', {})
    const reference = await bareStart({ path: spec, env: home.env }, '1')
    if (round < 0) continue
    ours.push(took.ms)
    bare.push(reference)
  }
  await client.close()
  const name = kernel === 'python3' ? 'ipykernel' : kernel
  const p50 = percentile(ours, 0.5)
  return [
    figure(`start/cold/${name}`, p50, 'ms', { name: 'bare', value: percentile(bare, 0.5) }, { max: 1.15 }),
    ...(kernel === 'javascript' ? [figure('start/cold/embedded', p50, 'ms', null, { max: 300 })] : []),
  ]
}

/** A new notebook that takes the kernel which is kept ready, against one that finds none. */
async function notebookFigures(home: TestHome, kernel: string): Promise<Figure[]> {
  await startDaemon(home)
  const client = await connect({ env: home.env, label: 'bench' })
  const cold = await timed(() => newNotebook(client, kernel))
  const warm: number[] = []
  for (let round = 0; round < 3; round++) {
    await until('a kernel that is kept ready', async () => {
      const { standbys } = await client.call('list_kernels', {})
      return standbys.some(({ state, name }) => state === 'ready' && name === kernel)
    })
    const took = await timed(() => newNotebook(client, kernel))
    warm.push(took.ms)
  }
  await client.close()
  const reference = { name: 'cold', value: cold.ms }
  const name = kernel === 'python3' ? 'ipykernel' : kernel
  return [figure(`start/notebook/${name}`, percentile(warm, 0.5), 'ms', reference, null)]
}

async function newNotebook(client: Client, kernel: string): Promise<Room> {
  const room = await client.openRoom({ create: { kernel } })
  await firstResult(room)
  return room
}

async function claimFigures(home: TestHome, kernel: string, what: 'plain' | 'heavy'): Promise<Figure[]> {
  const folder = join(home.work, 'project')
  mkdirSync(folder)
  const repository = new Repository(folder)
  repository.commit(
    { 'README.md': 'first\n', 'heavy.py': HEAVY_PYTHON, 'heavy.js': HEAVY_JAVASCRIPT },
    'first',
  )
  const preload =
    what === 'plain'
      ? []
      : [kernel === 'python3' ? 'import heavy' : "globalThis.heavy = require('./heavy.js')"]
  await startDaemon(home)
  const client = await connect({ env: home.env, label: 'bench' })
  const { project } = await client.call('add_project', {
    source: folder,
    kernel,
    preload,
    depth: 1,
    trust: true,
  })
  const claim = async (skip_warm: boolean) => {
    const given = await client.call('claim_room', { project: project.id, interactive: false, skip_warm })
    const room = await client.openRoom({ notebook_id: given.notebook_id })
    await firstResult(room)
    return { room, given }
  }
  const pooled = () =>
    until(
      'a warm room',
      async () =>
        (await client.call('pool_status', {})).projects[0]?.slots.some(
          ({ state, standby }) => state === 'pooled' && standby === 'ready',
        ),
      { timeout: 60_000 },
    )
  const times = { cold: [] as number[], warm: [] as number[], moved: [] as number[] }
  for (let round = -1; round < WARM_ROUNDS; round++) {
    for (const way of ['cold', 'warm', 'moved'] as const) {
      if (way === 'cold' && round > 1) continue
      await pooled()
      if (way === 'moved') repository.commit({ 'README.md': `round ${round}\n` }, 'documentation')
      const { ms, value } = await timed(() => claim(way === 'cold'))
      if (way !== 'cold' && (value.given.claim !== 'warm' || value.given.standby !== 'ready'))
        throw new Error(`a claim found ${value.given.claim}, ${value.given.standby}`)
      if (round >= 0) times[way].push(ms)
      await value.room.call('shutdown_kernel', {})
      await value.room.close()
    }
  }
  await client.close()
  const cold = percentile(times.cold, 0.5)
  const reference = { name: 'cold', value: cold }
  const fresh = percentile(times.warm, 0.5)
  const moved = percentile(times.moved, 0.5)
  return [
    figure(`start/claim/${what}`, fresh, 'ms', null, { max: 30 }),
    figure(`start/claim/${what}/fetched`, moved, 'ms', null, { max: 60 }),
    figure(`start/claim/${what}/against-cold`, fresh, 'ms', reference, null),
  ]
}

async function firstResult(room: Room): Promise<void> {
  const { status } = await (await room.execute({ code: '1' })).done
  if (status !== 'done') throw new Error(`the first execution ended as ${status}`)
}

async function timed<T>(work: () => Promise<T>): Promise<{ ms: number; value: T }> {
  const start = performance.now()
  const value = await work()
  return { ms: performance.now() - start, value }
}

async function kernelspec(client: Client, name: string): Promise<string> {
  const { specs } = await client.call('list_kernels', {})
  const found = specs.find((spec) => spec.name === name)
  if (!found) throw new Error(`there is no kernel ${name}`)
  return found.path
}

/** Takes its time as a big package does: many modules, and tables that are built once. */
const HEAVY_PYTHON = `import asyncio, concurrent.futures, ctypes, decimal, email.mime.multipart, fractions, html.parser
import http.server, logging.handlers, multiprocessing, sqlite3, statistics, unittest.mock, xml.dom.minidom, xmlrpc.client
table = {str(n): decimal.Decimal(n) / 7 for n in range(200_000)}
`

const HEAVY_JAVASCRIPT = `const table = new Map()
for (let n = 0; n < 500_000; n++) table.set(String(n), { n, text: 'row ' + n })
module.exports = table
`
