/** Two SDK clients in two processes on one room; processes are killed, and nothing acknowledged is lost or doubled. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { type ClientProcess, spawnClient } from '../support/client-process.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { until } from '../support/until.ts'

let home: TestHome
let daemon: TestDaemon

beforeEach(async () => {
  home = createHome()
  daemon = await startDaemon(home)
})

afterEach(() => home.dispose())

const KERNEL = process.env.ROOMD_TEST_KERNEL ?? 'javascript'

function notebook(name: string): string {
  const path = join(home.work, name)
  const cell = (id: string) => ({
    cell_type: 'code',
    execution_count: null,
    id,
    metadata: {},
    outputs: [],
    source: '',
  })
  const metadata = { kernelspec: { name: KERNEL, display_name: KERNEL, language: KERNEL } }
  const cells = [cell('from-a'), cell('from-b'), cell('run')]
  writeFileSync(path, JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1))
  return path
}

/** What a client tells of the order in which it saw things: `e12` event 12, `d7` document update 7. */
const follow = `
const client = await connect({ label: process.env.LABEL, waitMs: 60_000 })
const room = await client.openRoom({ path: process.env.NOTEBOOK })
const seen = []
room.on('event', (envelope) => {
  if (envelope.event_seq !== undefined) seen.push('e' + envelope.event_seq)
  else if (envelope.event.type === 'cells') seen.push('d' + envelope.event.doc_seq)
})
let gaps = 0
room.on('gap', () => gaps++)
`

function client(label: string, path: string, script: string): ClientProcess {
  return spawnClient(home, `${follow}\n${script}`, { LABEL: label, NOTEBOOK: path })
}

/** Source, in the client's script, of code that prints `lines` numbered lines slowly and remembers that run `n` ran. */
function printing(mine: string): string {
  return KERNEL === 'python3'
    ? `\`import time
for i in range(\${lines}):
    print("${mine}", \${n}, i, flush=True)
    time.sleep(0.002)
ran = globals().get("ran", []) + ["${mine} \${n}"]\``
    : `\`for (let i = 0; i < \${lines}; i++) {
  console.log("${mine}", \${n}, i)
  await new Promise((resolve) => setTimeout(resolve, 2))
}
globalThis.ran = [...(globalThis.ran ?? []), "${mine} \${n}"]
undefined\``
}

/** The items both saw, in the order of the first and of the second. */
function common(a: string[], b: string[]): [string[], string[]] {
  const inA = new Set(a)
  const inB = new Set(b)
  return [a.filter((item) => inB.has(item)), b.filter((item) => inA.has(item))]
}

const numbers = (seen: string[], kind: string): number[] =>
  seen.filter((item) => item.startsWith(kind)).map((item) => Number(item.slice(1)))

function risingOnce(list: number[]): boolean {
  return list.every((n, i) => i === 0 || n > (list[i - 1] ?? 0))
}

test('two clients see each edit and output in the same order', async () => {
  const path = notebook('order.ipynb')
  const script = (mine: string) => `
  say('ready')
  await heard()
  const code = 'for (let i = 0; i < 50; i++) console.log("${mine}", i)'
  for (let n = 1; n <= 40; n++) {
    await room.setSource('${mine}', 'value ' + n)
    if (n % 10 === 0) await (await room.execute({ code })).done
  }
  say('done')
  const until = await heard()
  await new Promise((resolve) => {
    const look = () => room.state.event_seq >= until.event_seq && room.state.doc_seq >= until.doc_seq && resolve()
    room.state.on('change', look)
    look()
  })
  say({ seen, gaps, sources: room.state.cells.map((cell) => cell.source) })
  `
  const a = client('A', path, script('from-a'))
  const b = client('B', path, script('from-b'))
  expect([await a.next(), await b.next()]).toEqual(['ready', 'ready'])
  a.send('go')
  b.send('go')
  expect([await a.next(), await b.next()]).toEqual(['done', 'done'])
  const observer = await connect({ env: home.env })
  const { rooms } = await observer.call('list_rooms', {})
  const counters = { event_seq: rooms[0]?.event_seq, doc_seq: rooms[0]?.doc_seq }
  a.send(counters)
  b.send(counters)
  const [fromA, fromB] = (await Promise.all([a.next(), b.next()])) as {
    seen: string[]
    gaps: number
    sources: string[]
  }[]
  await observer.close()
  if (!fromA || !fromB) throw new Error('a client said nothing')
  const [inA, inB] = common(fromA.seen, fromB.seen)
  expect(inA).toEqual(inB)
  expect(fromA.gaps + fromB.gaps).toBe(0)
  for (const { seen, sources } of [fromA, fromB]) {
    expect(numbers(seen, 'd').at(-1)).toBe(80)
    expect(risingOnce(numbers(seen, 'd')) && risingOnce(numbers(seen, 'e'))).toBe(true)
    expect(numbers(seen, 'e').length).toBeGreaterThan(8 * 3)
    expect(sources).toEqual(['value 40', 'value 40', ''])
  }
})

test('a client killed with SIGKILL is no peer any more, at once', async () => {
  const path = notebook('killed.ipynb')
  const a = client('A', path, `say('ready'); await heard()`)
  const b = client('B', path, `say('ready'); await heard()`)
  await Promise.all([a.next(), b.next()])
  const observer = await connect({ env: home.env })
  const peers = async () => (await observer.call('list_rooms', {})).rooms[0]?.peers.map((p) => p.label).sort()
  expect(await peers()).toEqual(['A', 'B'])
  await b.kill9()
  await until('one peer', async () => (await peers())?.length === 1)
  expect(await peers()).toEqual(['A'])
  expect((await observer.call('status', {})).peers).toBe(1)
  await observer.close()
})

test('the daemon killed 20 times under load: every acknowledged edit and every line once', async () => {
  const path = notebook('chaos.ipynb')
  /** Edits its own cell and runs cells whose lines are numbered, until told to stop; remembers what was acknowledged. */
  const script = (mine: string) => `
  const acknowledged = []
  const runs = []
  let stop = false
  heard().then(() => { stop = true })
  say('ready')
  const edits = (async () => {
    for (let n = 1; !stop; n++) {
      await room.setSource('${mine}', '${mine} ' + n)
      acknowledged.push(n)
      if (n % 5 === 0) await room.createCell({ source: '${mine}/' + n, cell_type: 'markdown' })
      if (n % 5 === 0) say({ edits: n })
      await new Promise((resolve) => setTimeout(resolve, 4))
    }
  })()
  const executions = (async () => {
    // On a slow machine few runs end between the kills; some must, or there would be nothing to judge.
    for (let n = 1; !stop || n <= 4; n++) {
      const lines = 60
      const code = ${printing(mine)}
      const run = await room.execute({ code })
      let text = ''
      for await (const output of run.outputs()) if (output.output_type === 'stream') text += output.text
      const { status } = await run.done
      runs.push({ id: run.execution.execution_id, n, lines, status, text })
    }
  })()
  await Promise.all([edits, executions])
  say({ acknowledged, runs, seen, source: room.state.cells.find((c) => c.cell_id === '${mine}').source })
  `
  const a = client('A', path, script('from-a'))
  const b = client('B', path, script('from-b'))
  expect([await a.next(), await b.next()]).toEqual(['ready', 'ready'])

  let seed = 20261129
  const random = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed / 2147483648
  }
  for (let kill = 1; kill <= 20; kill++) {
    // A random moment of the load: after one of the two has gone on by some edits, and a little more.
    const one = random() < 0.5 ? a : b
    for (let i = Math.floor(random() * 4); i >= 0; i--) await one.next()
    await daemon.kill9()
    daemon = await startDaemon(home)
  }
  a.send('stop')
  b.send('stop')
  const last = async (process: ClientProcess) => {
    for (;;) {
      const said = (await process.next(60_000)) as { acknowledged?: number[] }
      if (said.acknowledged) return said as unknown as Report
    }
  }
  interface Report {
    acknowledged: number[]
    seen: string[]
    source: string
    runs: { id: string; n: number; lines: number; status: string; text: string }[]
  }
  const reports = await Promise.all([last(a), last(b)])

  const observer = await connect({ env: home.env })
  const room = await observer.openRoom({ path })
  const ran: string[] = []
  for (const [i, mine] of ['from-a', 'from-b'].entries()) {
    const report = reports[i]
    if (!report) throw new Error('a client said nothing')
    const count = report.acknowledged.length
    expect(report.acknowledged).toEqual(Array.from({ length: count }, (_, n) => n + 1))
    expect(report.source).toBe(`${mine} ${count}`)
    expect(room.state.cells.find((cell) => cell.cell_id === mine)?.source).toBe(`${mine} ${count}`)
    const made = room.state.cells.map((cell) => cell.source).filter((s) => s.startsWith(`${mine}/`))
    const wanted = Array.from({ length: Math.floor(count / 5) }, (_, n) => `${mine}/${(n + 1) * 5}`)
    expect(made).toEqual(wanted)
    expect(report.runs.length).toBeGreaterThan(3)
    for (const run of report.runs) {
      const lines = Array.from({ length: run.lines }, (_, n) => `${mine} ${run.n} ${n}\n`).join('')
      expect(run.status).toBe('done')
      const { execution } = await observer.call('get_execution', { execution_id: run.id })
      expect(execution.outputs.map((o) => (o.output_type === 'stream' ? o.text : o))).toEqual([lines])
      expect(run.text).toBe(lines)
      ran.push(`${mine} ${run.n}`)
    }
    expect(risingOnce(numbers(report.seen, 'e'))).toBe(true)
  }
  const [inA, inB] = common(reports[0]?.seen ?? [], reports[1]?.seen ?? [])
  expect(inA).toEqual(inB)
  // The kernel's own memory says that nothing ran twice and nothing was left out.
  const check = await room.execute({
    code: KERNEL === 'python3' ? 'print("\\n".join(ran))' : 'console.log(globalThis.ran.join("\\n"))',
  })
  await check.done
  const { execution } = await observer.call('get_execution', { execution_id: check.execution.execution_id })
  const said = execution.outputs.map((o) => (o.output_type === 'stream' ? o.text : '')).join('')
  expect(said.trim().split('\n').sort()).toEqual(ran.sort())
  await observer.close()
}, 240_000)
