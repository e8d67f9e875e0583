/**
 * Opening a large notebook: until its first page is at the client, until an edit of it is acknowledged, and how long another room
 * waits meanwhile. From its file, and from the store after the daemon was started anew.
 */
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Welcome } from '../../protocol/channels.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { FrameType } from '../../protocol/frames.ts'
import { dial } from '../../protocol/wire/dial.ts'
import { offer } from '../../protocol/wire/handshake.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import { spawnClient } from '../support/client-process.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { type Figure, figure, percentile } from './figure.ts'
import { largeNotebook } from './large-notebook.ts'

const LARGE = 10_000
const SMALL = 1_000
const ROUNDS = 3

/** Milliseconds. */
interface Opening {
  readonly firstPage: number
  readonly interactive: number
  readonly stall: number
}

export async function* benchOpen(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    let daemon = await startDaemon(home)
    await warmUp(home)
    const small = await rounds(home, SMALL)
    const large = await rounds(home, LARGE)
    await daemon.stop()
    daemon = await startDaemon(home)
    await warmUp(home)
    const back = await open(home, path(home, LARGE, 0))
    return [
      figure('open/first-page', large.firstPage, 'ms', null, { max: 200 }),
      figure('open/interactive', large.interactive, 'ms', null, { max: 1000 }),
      figure('open/stall', large.stall, 'ms', null, { max: 10 }),
      figure(
        'open/linear',
        large.interactive / LARGE,
        'ms/cell',
        { name: `${SMALL} cells`, value: small.interactive / SMALL },
        { max: 1.5 },
      ),
      figure('open/from-store/first-page', back.firstPage, 'ms', null, { max: 200 }),
      figure('open/from-store/interactive', back.interactive, 'ms', null, { max: 1000 }),
      figure('open/from-store/stall', back.stall, 'ms', null, { max: 10 }),
    ]
  })
}

function path(home: TestHome, cells: number, round: number): string {
  return join(home.work, `${cells}-${round}.ipynb`)
}

/** The thread for large files and compiled code are there: a daemon lives for weeks. */
async function warmUp(home: TestHome): Promise<void> {
  const file = join(home.work, `warm-${Date.now()}.ipynb`)
  writeFileSync(file, largeNotebook(500))
  await open(home, file)
}

async function rounds(home: TestHome, cells: number): Promise<Opening> {
  const all: Opening[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const file = path(home, cells, round)
    writeFileSync(file, largeNotebook(cells))
    all.push(await open(home, file))
  }
  const median = (of: keyof Opening): number =>
    percentile(
      all.map((one) => one[of]),
      0.5,
    )
  return { firstPage: median('firstPage'), interactive: median('interactive'), stall: median('stall') }
}

/** One client asks another room for a cell without a pause; meanwhile a second one opens the file and edits it. */
async function open(home: TestHome, file: string): Promise<Opening> {
  const other = spawnClient(home, NEIGHBOUR)
  await other.next()
  other.send('begin')
  const { firstPage, interactive } = await openAndEdit(home, file)
  other.send('end')
  const { stall } = (await other.next(60_000)) as Pick<Opening, 'stall'>
  await other.exited
  return { firstPage, interactive, stall }
}

/** With bare frames, as the SDK tells of the pages only when all are there. */
async function openAndEdit(home: TestHome, file: string): Promise<Omit<Opening, 'stall'>> {
  const seen = { page: () => {}, edited: () => {}, failed: (_: Error) => {} }
  const page = new Promise<void>((resolve, reject) => {
    seen.page = resolve
    seen.failed = reject
  })
  const edited = new Promise<void>((resolve, reject) => {
    seen.edited = resolve
    const before = seen.failed
    seen.failed = (error) => {
      before(error)
      reject(error)
    }
  })
  edited.catch(() => {}) // awaited below
  const hello = { client_instance: randomUUID(), client: { name: 'bench', version: '1', pid: process.pid } }
  const { wire } = await offer(
    socketTransport(await dial(home.places.socket)),
    { ...hello, label: 'opener', kind: 'editor' },
    {
      welcome: Welcome,
      handlers: () => ({
        value(type, _channel, payload) {
          if (type === FrameType.PROJECTION) seen.page()
          else if (type === FrameType.RESPONSE && (decode(payload) as { ok: boolean }).ok) seen.edited()
          else if (type === FrameType.RESPONSE) seen.failed(new Error(JSON.stringify(decode(payload))))
          else if (type === FrameType.CLOSE || type === FrameType.ERROR)
            seen.failed(new Error(JSON.stringify(decode(payload))))
        },
        closed: (end) => seen.failed(new Error(end.message)),
      }),
    },
  )
  const start = performance.now()
  wire.openChannel(1)
  wire.send(FrameType.OPEN, 1, encode({ target: { path: file }, mode: 'open' }))
  await page
  const firstPage = performance.now() - start
  const operations = [{ op: 'create_cell', cell_type: 'code', source: 'x' }]
  wire.send(FrameType.REQUEST, 1, encode({ id: 1, method: 'edit', params: { operations }, mutation_id: 1 }))
  await edited
  const interactive = performance.now() - start
  wire.end(1000)
  return { firstPage, interactive }
}

/** Says the longest wait for an answer between `begin` and `end`, less the usual one. */
const NEIGHBOUR = `
const client = await connect({ label: 'neighbour' })
const room = await client.openRoom({ create: {} })
const cell = await room.createCell({ source: 'x' })
const ask = async () => {
  const start = performance.now()
  await room.call('get_cell', { cell_id: cell })
  return performance.now() - start
}
for (let i = 0; i < 300; i++) await ask()
say('ready')
await heard()
let ended = false
const ending = heard().then(() => { ended = true })
let stall = 0
while (!ended) {
  stall = Math.max(stall, await ask())
  await new Promise((resolve) => setTimeout(resolve, 1))
}
await ending
say({ stall })
await client.close()
`
