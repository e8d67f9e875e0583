import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CommandResult, roomd, spawnRoomd } from '../support/command.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { LineReader } from '../support/line-reader.ts'

let home: TestHome
let daemon: TestDaemon
beforeAll(async () => {
  home = createHome()
  daemon = await startDaemon(home)
})
afterAll(() => home.dispose())

let count = 0

/** A notebook of the embedded kernel with these code cells. */
function notebook(...sources: string[]): string {
  const name = `notebook-${++count}.ipynb`
  const cells = sources.map((source, i) => ({
    cell_type: 'code',
    id: `cell-${i + 1}`,
    metadata: {},
    execution_count: null,
    outputs: [],
    source,
  }))
  const metadata = { kernelspec: { name: 'javascript', display_name: 'JavaScript', language: 'javascript' } }
  writeFileSync(
    join(home.work, name),
    `${JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`,
  )
  return name
}

function json(result: CommandResult): Record<string, unknown> {
  return JSON.parse(result.stdout) as Record<string, unknown>
}

async function kernels(): Promise<{ notebook_id: string; pid: number }[]> {
  return json(await roomd(home, ['kernels', '--json'])).running as { notebook_id: string; pid: number }[]
}

test('run shows outputs in order without ANSI, saves them, and leaves no kernel behind', async () => {
  const name = notebook(
    'console.log("one"); console.log("\\x1b[31mtwo\\x1b[0m")',
    'const answer = 6 * 7',
    'answer',
  )
  const result = await roomd(home, ['run', name])
  expect(result.stdout).toBe('one\ntwo\n42\n')
  expect(result.stderr).toContain('3 cells')
  expect(result.code).toBe(0)
  const saved = JSON.parse(readFileSync(join(home.work, name), 'utf8'))
  expect(saved.cells[2].outputs[0].data['text/plain']).toEqual(expect.anything())
  expect(saved.cells.map((cell: { execution_count: number }) => cell.execution_count)).toEqual([1, 2, 3])
  expect(await kernels()).toEqual([])
})

test('run ends with 1 at an error, names the cell, and does not run what is behind it', async () => {
  const name = notebook(
    'console.log("before")',
    '// this one fails\nthrow new Error("boom")',
    'console.log("after")',
  )
  const result = await roomd(home, ['run', name, '--json'])
  expect(result.code).toBe(1)
  const value = json(result)
  expect(value.status).toBe('error')
  const statuses = (value.executions as { status: string }[]).map((execution) => execution.status)
  expect(statuses).toEqual(['done', 'error', 'cancelled'])
  const plain = await roomd(home, ['run', name])
  expect(plain.code).toBe(1)
  expect(plain.stdout).toContain('boom')
  expect(plain.stdout).not.toContain('after')
  expect(plain.stderr).toContain('cell 2 of 3 (// this one fails)')
})

test('--no-save leaves every byte of the file, --keep leaves the kernel with its variables', async () => {
  const name = notebook('let kept = "still here"')
  const before = readFileSync(join(home.work, name))
  const result = await roomd(home, ['run', name, '--no-save', '--keep'])
  expect(result.code).toBe(0)
  expect(readFileSync(join(home.work, name)).equals(before)).toBe(true)
  const rooms = json(await roomd(home, ['ps', '--json'])).rooms as { notebook_id: string; path: string }[]
  const room = rooms.find(({ path }) => path === join(home.work, name))
  expect(room).toMatchObject({ peers: [], kernel: { name: 'javascript', state: 'idle' } })
  const id = room?.notebook_id ?? ''
  for (const named of [id, id.slice(0, 8), name, `./${name}`]) {
    const exec = await roomd(home, ['exec', named, 'kept.toUpperCase()'])
    expect([exec.code, exec.stdout]).toEqual([0, "'STILL HERE'\n"])
  }
  // A run in a room whose kernel was there before does not end that kernel.
  expect((await roomd(home, ['run', name])).code).toBe(0)
  expect((await kernels()).map((kernel) => kernel.notebook_id)).toContain(id)
  const closed = await roomd(home, ['close', id, '--json'])
  expect(json(closed)).toEqual({ notebook_id: id, kernel_ended: true })
  expect((await kernels()).map((kernel) => kernel.notebook_id)).not.toContain(id)
})

test('--timeout interrupts the run, and a run that was interrupted by Ctrl-C keeps what it printed', async () => {
  const name = notebook('console.log("begun"); await new Promise(() => {})')
  // Its kernel runs already: how long that takes to start is another matter.
  await roomd(home, ['exec', name, '0'])
  const late = await roomd(home, ['run', name, '--timeout', '3'])
  expect(late.code).toBe(1)
  expect(late.stdout).toContain('begun')
  expect(late.stderr).toContain('longer than 3 s')
  await roomd(home, ['close', name])

  const running = spawnRoomd(home, ['run', name])
  if (running.child.stdout === null) throw new Error('no stdout')
  await new LineReader(running.child.stdout).next(/begun/)
  running.child.kill('SIGINT')
  const result = await running.result
  expect(result.code).toBe(1)
  expect(result.stderr).toContain('interrupted')
  expect(await kernels()).toEqual([])
})

test('exec ends with 1 at an error and prints the traceback; --json gives the execution', async () => {
  const name = notebook('1')
  const failed = await roomd(home, ['exec', name, 'nothingOfThatName'])
  expect(failed.code).toBe(1)
  expect(failed.stdout).toContain('ReferenceError')
  const value = json(await roomd(home, ['exec', name, '--json', '-'], { input: 'console.log("from stdin")' }))
  expect(value).toMatchObject({
    status: 'done',
    outputs: [{ output_type: 'stream', name: 'stdout', text: 'from stdin\n' }],
  })
  await roomd(home, ['close', name])
})

test('interrupt and restart-kernel tell what they did', async () => {
  const name = notebook('console.log("begun"); await new Promise(() => {})')
  await roomd(home, ['exec', name, 'let x = 1'])
  expect(json(await roomd(home, ['interrupt', name, '--json']))).toEqual({ interrupted: null, cancelled: [] })
  const running = spawnRoomd(home, ['exec', name, 'console.log("begun"); while (true) {}'])
  if (running.child.stdout === null) throw new Error('no stdout')
  await new LineReader(running.child.stdout).next(/begun/)
  const interrupted = json(await roomd(home, ['interrupt', name, '--json']))
  expect(interrupted).toMatchObject({ cancelled: [] })
  expect(interrupted.interrupted).not.toBeNull()
  expect((await running.result).code).toBe(1)
  const [kernel] = await kernels()
  const restarted = json(await roomd(home, ['restart-kernel', name, '--json'])) as {
    kernel: { name: string; pid: number }
  }
  expect(restarted.kernel.name).toBe('javascript')
  expect(restarted.kernel.pid).not.toBe(kernel?.pid)
  expect((await roomd(home, ['exec', name, 'x'])).code).toBe(1)
  await roomd(home, ['close', name])
})

test('what cannot be found is named: a file, a room, a kernel', async () => {
  const file = await roomd(home, ['run', 'nowhere.ipynb', '--json'])
  expect([file.code, json(file)]).toMatchObject([1, { error: { code: 'not_found' } }])
  const room = await roomd(home, ['exec', 'ffffffff', '1', '--json'])
  expect([room.code, json(room)]).toMatchObject([1, { error: { code: 'not_found' } }])
  const kernel = await roomd(home, ['run', notebook('1'), '--kernel', 'cobol', '--json'])
  expect([kernel.code, json(kernel)]).toMatchObject([1, { error: { code: 'kernel_not_found' } }])
})

test('kernels tells each spec with where it comes from and whether it starts', async () => {
  const list = json(await roomd(home, ['kernels', '--json']))
  expect(Object.keys(list).sort()).toEqual(['running', 'specs', 'standbys'])
  const specs = list.specs as Record<string, unknown>[]
  expect(specs.find((spec) => spec.name === 'javascript')).toMatchObject({ source: 'embedded', usable: true })
  expect((await roomd(home, ['kernels'])).stdout).toMatch(/^NAME +LANGUAGE +STARTS +FROM +SPEC/)
})

test('the notebook of the demo runs with the embedded kernel', async () => {
  copyFileSync(new URL('../../examples/tour.ipynb', import.meta.url), join(home.work, 'tour.ipynb'))
  const result = await roomd(home, ['run', 'tour.ipynb'])
  expect(result.stdout).toContain('requests in 24 hours')
  expect(result.stdout).toContain('median by hour')
  expect([result.code, result.stderr]).toEqual([0, expect.stringContaining('6 cells')])
})

test('a run goes on when the daemon is killed: it is started again, and no line is lost or doubled', async () => {
  const name = notebook(
    // Goes on when the daemon has been killed.
    `const { existsSync } = require("node:fs")
for (let n = 1; n <= 20; n++) {
  console.log("line " + n)
  do await new Promise((r) => setTimeout(r, 60)); while (n === 10 && !existsSync("go"))
}`,
    '"the end"',
  )
  const running = spawnRoomd(home, ['run', name], { env: { ROOMD_NO_AUTOSTART: '' } })
  if (running.child.stdout === null) throw new Error('no stdout')
  await new LineReader(running.child.stdout).next(/^line 5$/)
  await daemon.kill9()
  writeFileSync(join(home.work, 'go'), '')
  const result = await running.result
  expect(result.stderr).toContain('the daemon is away')
  const expected = Array.from({ length: 20 }, (_, i) => `line ${i + 1}\n`).join('')
  expect(result.stdout).toBe(`${expected}'the end'\n`)
  expect(result.code).toBe(0)
})
