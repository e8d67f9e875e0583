/**
 * Run all, save, and let Python's nbformat judge the file: for notebooks of every minor version and kind of text, made here, and for
 * the real ones beside the project. ROOMD_TEST_NOTEBOOKS=all runs all of those; otherwise three, to save time.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Client, connect } from '../../client/sdk/index.ts'
import { fixtures, haveFixtures, noFixtures } from '../documents/fixtures.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { needs } from '../support/machine.ts'
import { complaints } from '../support/nbformat.ts'

const ALL = process.env.ROOMD_TEST_NOTEBOOKS === 'all'
const FEW = [
  '07-nbformat-test4.5.ipynb',
  '13-nbformat-v4_5_no_cell_id.ipynb',
  '24-nbclient-Clear_Output.ipynb',
]
/** A notebook that runs for longer than this is interrupted: what it has shown by then is saved all the same. */
const LIMIT_MS = 30_000
/** Python packages and other kernels of this machine decide whether a cell ends well, not whether its file is valid. */
const OPTIONS = { onError: 'continue', allowStdin: false } as const

let home: TestHome
let client: Client
let kernels: Set<string>

beforeAll(async () => {
  // Notebooks of others may want to install what they need.
  home = createHome({ SHELL: '/bin/sh', PIP_NO_INDEX: '1' })
  await startDaemon(home)
  client = await connect({ env: home.env, label: 'test' })
  const { specs } = await client.call('list_kernels', {})
  kernels = new Set(specs.filter((spec) => spec.usable).map((spec) => spec.name))
})

afterAll(async () => {
  await client.close()
  await home.dispose()
})

beforeEach((context) => needs(context, 'Python nbformat'))

/** Runs all code cells and saves. Returns how each ended. */
async function runAndSave(path: string): Promise<string[]> {
  const room = await client.openRoom({ path })
  const runs = await room.runAll(OPTIONS)
  const late = setTimeout(() => void room.interrupt().catch(() => {}), LIMIT_MS)
  const ended = await Promise.all(runs.map(async (run) => (await run.done).status))
  clearTimeout(late)
  await room.save()
  await client.call('close_room', { notebook_id: room.id })
  return ended
}

interface FileCell {
  readonly cell_type: string
  readonly execution_count?: number | null
  readonly outputs?: readonly unknown[]
}

function cellsOf(path: string): FileCell[] {
  const text = readFileSync(path, 'utf8').replace(/^\ufeff/, '')
  return (JSON.parse(text.replaceAll(/\bNaN\b/g, 'null')) as { cells: FileCell[] }).cells
}

const sources = [
  'console.log("out"); console.error("err")',
  '40 + 2',
  'throw new Error("on purpose")',
  '({ deep: { list: [1, null, "\u00e9\ud83d\ude00"] } })',
]

/** A notebook of the embedded kernel in format 4.`minor`, as text. */
function notebook(minor: number, extra: { source?: 'text' | 'lines'; ids?: boolean } = {}): string {
  const { source: kind = 'lines', ids = minor >= 5 } = extra
  const sourceOf = (source: string) => (kind === 'text' ? source : [`${source}`])
  const cells = [
    { cell_type: 'markdown', metadata: { custom: 1e-5 }, source: sourceOf('# title') },
    ...sources.map((source) => ({
      cell_type: 'code',
      execution_count: null,
      metadata: { tags: ['kept'], unknown: { 10: 'b', 2: 'a' } },
      outputs: [],
      source: sourceOf(source),
    })),
    { cell_type: 'raw', metadata: {}, source: sourceOf('raw') },
  ].map((cell, i) => (ids ? { ...cell, id: `cell-${i}` } : cell))
  const metadata = {
    kernelspec: { display_name: 'JavaScript', language: 'javascript', name: 'javascript' },
    unknown: [12345678901234567890n.toString()],
  }
  return `${JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: minor }, null, 1)}\n`
}

const made: Readonly<Record<string, string>> = {
  'format 4.0': notebook(0),
  'format 4.2, sources as whole texts': notebook(2, { source: 'text' }),
  'format 4.5': notebook(5),
  'a byte-order mark and Windows line ends': `\ufeff${notebook(5).replaceAll('\n', '\r\n')}`,
  'NaN, and integers beyond 64 bits': notebook(4).replace(
    '"custom": 0.00001',
    '"custom": [NaN, 123456789012345678901]',
  ),
  'format 4.5 without ids': notebook(5, { ids: false }),
}

describe('run all and save leaves a file that nbformat accepts', () => {
  it('whatever the notebook is like', async () => {
    const paths: string[] = []
    for (const [name, text] of Object.entries(made)) {
      const path = join(home.work, `${name}.ipynb`)
      writeFileSync(path, text)
      expect([name, await runAndSave(path)]).toEqual([name, ['done', 'done', 'error', 'done']])
      const ran = cellsOf(path).filter((cell) => cell.cell_type === 'code')
      expect([name, ran.map((cell) => cell.execution_count)]).toEqual([name, [1, 2, 3, 4]])
      expect([name, ran.map((cell) => (cell.outputs ?? []).length > 0)]).toEqual([
        name,
        [true, true, true, true],
      ])
      paths.push(path)
    }
    // Python's json does not read a byte-order mark: nbformat judges what stands behind it.
    const marked = join(home.work, 'a byte-order mark and Windows line ends.ipynb')
    const behind = readFileSync(marked)
    expect([...behind.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf])
    writeFileSync(marked, behind.subarray(3))
    for (const [path, said] of complaints(paths)) expect([basename(path), said]).toEqual([basename(path), ''])
  })

  const real = fixtures().filter(({ name }) => ALL || FEW.includes(name))
  if (!haveFixtures) it('whatever other projects wrote', (context) => context.skip(noFixtures))
  for (const { name, bytes } of real) {
    it(`${name} of another project`, { timeout: 4 * LIMIT_MS }, async (context) => {
      const { nbformat, metadata } = JSON.parse(Buffer.from(bytes).toString('utf8')) as {
        nbformat: number
        metadata?: { kernelspec?: { name?: string } }
      }
      if (nbformat !== 4) context.skip(`it is of format ${nbformat}, which opens read-only`)
      const wanted = metadata?.kernelspec?.name
      if (wanted !== undefined && !kernels.has(wanted))
        context.skip(`the kernel ${wanted} is not on this machine`)
      if (wanted === undefined) needs(context, 'Python kernel')
      const original = join(home.work, `original-${name}`)
      const path = join(home.work, name)
      writeFileSync(original, bytes)
      writeFileSync(path, bytes)
      const before = complaints([original]).get(original)
      if (before !== '') context.skip(`nbformat does not accept it as it is: ${before?.split('\n', 1)[0]}`)
      await runAndSave(path)
      expect(complaints([path]).get(path)).toBe('')
      expect(cellsOf(path).map((cell) => cell.cell_type)).toEqual(
        cellsOf(original).map((cell) => cell.cell_type),
      )
    })
  }
})
