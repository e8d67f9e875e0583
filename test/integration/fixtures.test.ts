/** Real notebooks, run by the command line with each kernel of the machine, and judged by Python's nbformat. */

import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { needs, pythonFile } from '../support/machine.ts'

const fixtures = fileURLToPath(new URL('../../../shared/fixtures/notebooks/', import.meta.url))
const tour = fileURLToPath(new URL('../../examples/tour.ipynb', import.meta.url))

let home: TestHome

beforeEach(async () => {
  home = createHome()
  await startDaemon(home)
})

afterEach(() => home.dispose())

interface File {
  nbformat: number
  nbformat_minor: number
  cells: {
    cell_type: string
    execution_count?: number | null
    outputs?: { output_type: string; text?: string[] }[]
  }[]
}

const read = (path: string): File => JSON.parse(readFileSync(path, 'utf8')) as File

/** What nbformat says against it; empty: nothing. */
function complaint(path: string): string {
  const program =
    'import sys, nbformat; nbformat.validate(nbformat.read(sys.argv[1], as_version=nbformat.NO_CONVERT))'
  const { status, stderr } = spawnSync(pythonFile, ['-c', program, path], { encoding: 'utf8' })
  return status === 0 ? '' : stderr
}

async function runs(
  name: string,
  arguments_: string[] = [],
): Promise<{ code: number | null; file: File; path: string }> {
  const path = join(home.work, basename(name))
  const { code } = await roomd(home, ['run', path, ...arguments_])
  return { code, file: read(path), path }
}

const inFixtures = (name: string) => {
  copyFileSync(join(fixtures, name), join(home.work, name))
  return name
}

test('notebooks of other projects run with ipykernel, and nbformat accepts what is written', async (context) => {
  needs(context, 'Python kernel', 'Python nbformat')
  if (!existsSync(fixtures)) context.skip('no notebook fixtures beside the project')
  for (const name of [
    '24-nbclient-Clear_Output.ipynb',
    '25-nbclient-update-display-id.ipynb',
    '13-nbformat-v4_5_no_cell_id.ipynb',
  ]) {
    const before = read(join(fixtures, name))
    const { code, file, path } = await runs(inFixtures(name))
    expect([name, code]).toEqual([name, 0])
    expect(complaint(path)).toBe('')
    expect(file.nbformat_minor).toBe(before.nbformat_minor)
    const code_ = file.cells.filter((cell) => cell.cell_type === 'code')
    expect(code_.some((cell) => typeof cell.execution_count === 'number')).toBe(true)
    // These two carry what a front end showed; ours must come to the same.
    if (name.startsWith('24-') || name.startsWith('25-')) {
      const outputs = (notebook: File) =>
        notebook.cells.map((cell) => cell.outputs?.map((o) => ({ ...o, execution_count: 0 })))
      expect(outputs(file)).toEqual(outputs(before))
    }
  }
})

test('a notebook of another kernel is run with IRkernel where it is told so', async (context) => {
  needs(context, 'R kernel', 'Python nbformat')
  const cells = ['x <- c(1, 2, 3)', 'print(mean(x))', 'stop("on purpose")'].map((source, i) => ({
    cell_type: 'code',
    execution_count: null,
    id: `r${i}`,
    metadata: {},
    outputs: [],
    source,
  }))
  writeFileSync(
    join(home.work, 'r.ipynb'),
    JSON.stringify({
      cells,
      metadata: { kernelspec: { name: 'ir', display_name: 'R', language: 'R' } },
      nbformat: 4,
      nbformat_minor: 5,
    }),
  )
  const { code, file, path } = await runs('r.ipynb')
  expect(code).toBe(1)
  expect(complaint(path)).toBe('')
  expect(file.cells[1]?.outputs?.[0]).toMatchObject({
    output_type: 'stream',
    name: 'stdout',
    text: ['[1] 2\n'],
  })
  expect(file.cells[2]?.outputs?.at(-1)).toMatchObject({ output_type: 'error' })
})

test('the tour runs with the embedded kernel, and nbformat accepts what is written', async (context) => {
  needs(context, 'Python nbformat')
  copyFileSync(tour, join(home.work, 'tour.ipynb'))
  const { code, file, path } = await runs('tour.ipynb')
  expect(code).toBe(0)
  expect(complaint(path)).toBe('')
  expect(file.cells.filter((c) => c.cell_type === 'code').every((c) => (c.outputs?.length ?? 0) > 0)).toBe(
    true,
  )
})
