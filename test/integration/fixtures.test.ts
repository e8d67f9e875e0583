/** Real notebooks, run by the command line with each kernel of the machine, and judged by Python's nbformat. */

import { chmodSync, copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { needs } from '../support/machine.ts'
import { complaints } from '../support/nbformat.ts'
import { until } from '../support/until.ts'

const fixtures = fileURLToPath(new URL('../../../shared/fixtures/notebooks/', import.meta.url))
const tour = fileURLToPath(new URL('../../examples/tour.ipynb', import.meta.url))

let home: TestHome

beforeEach(async () => {
  home = createHome({ SHELL: '/bin/sh' })
  await startDaemon(home)
})

afterEach(() => home.dispose())

interface FileOutput {
  output_type: string
  name?: string
  text?: string[]
  data?: Record<string, unknown>
  execution_count?: number | null
  ename?: string
  traceback?: string[]
}

interface File {
  nbformat: number
  nbformat_minor: number
  cells: {
    cell_type: string
    execution_count?: number | null
    outputs?: FileOutput[]
  }[]
}

const read = (path: string): File => JSON.parse(readFileSync(path, 'utf8')) as File

/** What nbformat says against it; empty: nothing. */
const complaint = (path: string): string | undefined => complaints([path]).get(path)

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
  chmodSync(join(home.work, name), 0o644)
  return name
}

/** Outputs but for what no two runs have in common: counts, tracebacks (paths, versions) and the ids of widgets. */
const shown = ({ cells }: File): unknown[] =>
  cells.map((cell) =>
    cell.outputs?.map((output) => {
      const view = 'application/vnd.jupyter.widget-view+json'
      const data = output.data && view in output.data ? { [view]: 'a widget' } : output.data
      return {
        ...output,
        ...(output.execution_count === undefined ? {} : { execution_count: 0 }),
        ...(output.traceback === undefined ? {} : { traceback: [] }),
        ...(data === undefined ? {} : { data }),
      }
    }),
  )

/** What the notebook with Output widgets needs of ipywidgets: the comm of an OutputModel, as version 7 opens and updates it. */
const IPYWIDGETS = `
import sys
from IPython import get_ipython
from IPython.display import display
from ipykernel.comm import Comm

class Output:
    def __init__(self):
        module = "@jupyter-widgets/output"
        state = {"_model_module": module, "_model_module_version": "1.0.0", "_model_name": "OutputModel",
                 "_view_module": module, "_view_module_version": "1.0.0", "_view_name": "OutputView",
                 "msg_id": "", "outputs": []}
        self._comm = Comm(target_name="jupyter.widget", data={"state": state, "buffer_paths": []}, metadata={"version": "2.0.0"})

    def _capture(self, msg_id):
        sys.stdout.flush()
        sys.stderr.flush()
        self._comm.send({"method": "update", "state": {"msg_id": msg_id}, "buffer_paths": []})

    def __enter__(self):
        self._capture(get_ipython().kernel.get_parent("shell")["header"]["msg_id"])

    def __exit__(self, etype, evalue, tb):
        if etype is not None:
            get_ipython().showtraceback((etype, evalue, tb), tb_offset=0)
        self._capture("")
        return True

    def _ipython_display_(self):
        view = {"version_major": 2, "version_minor": 0, "model_id": self._comm.comm_id}
        display({"text/plain": "Output()", "application/vnd.jupyter.widget-view+json": view}, raw=True)
`

test('notebooks of other projects run with ipykernel come to the outputs they carry, and nbformat accepts them', async (context) => {
  needs(context, 'Python kernel', 'Python nbformat')
  if (!existsSync(fixtures)) context.skip('no notebook fixtures beside the project')
  writeFileSync(join(home.work, 'ipywidgets.py'), IPYWIDGETS)
  for (const name of [
    '24-nbclient-Clear_Output.ipynb',
    '25-nbclient-update-display-id.ipynb',
    '27-nbclient-Output.ipynb',
  ]) {
    const before = read(join(fixtures, name))
    const { code, file, path } = await runs(inFixtures(name))
    expect([name, code]).toEqual([name, 0])
    // One of them is not valid itself.
    expect(complaint(path)).toBe(complaint(join(fixtures, name)))
    expect(file.nbformat_minor).toBe(before.nbformat_minor)
    expect([name, shown(file)]).toEqual([name, shown(before)])
  }
})

test('a notebook without cell ids runs and keeps its format', async (context) => {
  needs(context, 'Python kernel', 'Python nbformat')
  if (!existsSync(fixtures)) context.skip('no notebook fixtures beside the project')
  const name = '13-nbformat-v4_5_no_cell_id.ipynb'
  const { code, file, path } = await runs(inFixtures(name))
  expect([code, complaint(path)]).toEqual([0, ''])
  expect(file.nbformat_minor).toBe(read(join(fixtures, name)).nbformat_minor)
  expect(file.cells.some((cell) => typeof cell.execution_count === 'number')).toBe(true)
})

/** Runs cell by cell, interrupts what says that it runs for ever, and saves. */
async function runsInterrupted(name: string, endless: (source: string) => boolean): Promise<File> {
  const path = join(home.work, name)
  const client = await connect({ env: home.env })
  try {
    const room = await client.openRoom({ path })
    for (const cell of room.state.cells) {
      const run = await room.execute(cell.cell_id)
      if (endless(cell.source)) {
        await until('it to run', () => run.execution.status === 'running')
        expect((await room.interrupt()).interrupted).toBe(run.id)
      }
      await run.done
    }
    await room.save()
    await client.call('close_room', { notebook_id: room.id })
  } finally {
    await client.close()
  }
  return read(path)
}

test('a notebook whose first cell never ends is interrupted, and carries what it carried', async (context) => {
  needs(context, 'Python kernel', 'Python nbformat')
  if (!existsSync(fixtures)) context.skip('no notebook fixtures beside the project')
  const name = inFixtures('23-nbclient-Interrupt.ipynb')
  const file = await runsInterrupted(name, (source) => source.includes('while True'))
  expect(complaint(join(home.work, name))).toBe('')
  expect(shown(file)).toEqual(shown(read(join(fixtures, name))))
})

/** A cell and what it is to show in the end: streams as [name, text], values as their plain text, errors as their name. */
type Case = readonly [source: string, ...outputs: (readonly [string, string] | string)[]]

const displays: readonly Case[] = [
  ['from IPython.display import clear_output, display, update_display'],
  // What is cleared at once is gone; what is to be cleared stays until something comes.
  ['for i in range(20):\n  clear_output()\n  print(i)', ['stdout', '19\n']],
  ['print("gone")\nclear_output()'],
  ['print("stays", end="")\nclear_output(wait=True)', ['stdout', 'stays']],
  ['print("old", end="")\nclear_output(wait=True)\nprint("new", end="")', ['stdout', 'new']],
  ['print("before")\nclear_output(wait=True)\ndisplay("picture")', "'picture'"],
  // Updates reach every cell that shows the id, and none that was cleared.
  ['a = display("first", display_id="a")', "'third'"],
  ['display("above")\ndisplay("second", display_id="a")\ndisplay("below")', "'above'", "'third'", "'below'"],
  ['a.update("third")'],
  ['b = display("lost", display_id="b")\nclear_output()'],
  ['c = display("kept", display_id="c")\nclear_output(wait=True)', "'kept now'"],
  [
    'd = display("lost", display_id="d")\nclear_output(wait=True)\nprint("instead", end="")',
    ['stdout', 'instead'],
  ],
  ['for each in (b, c, d): each.update("kept now")'],
  [
    'import sys\nprint("out", flush=True)\nprint("err", file=sys.stderr, flush=True)\nprint("out again")',
    ['stdout', 'out\n'],
    ['stderr', 'err\n'],
    ['stdout', 'out again\n'],
  ],
  ['while True: pass', 'KeyboardInterrupt'],
  ['print("goes on")', ['stdout', 'goes on\n']],
]

test('cleared, updated and interrupted: every cell shows in the file what a notebook would show', async (context) => {
  needs(context, 'Python kernel', 'Python nbformat')
  const cells = displays.map(([source], i) => ({
    cell_type: 'code',
    execution_count: null,
    id: `cell-${i}`,
    metadata: {},
    outputs: [],
    source,
  }))
  const metadata = { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } }
  writeFileSync(
    join(home.work, 'shown.ipynb'),
    JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }),
  )
  const file = await runsInterrupted('shown.ipynb', (source) => source.startsWith('while True'))
  expect(complaint(join(home.work, 'shown.ipynb'))).toBe('')
  const came = file.cells.map((cell, i) => [
    displays[i]?.[0],
    ...(cell.outputs ?? []).map((output) => {
      if (output.output_type === 'stream') return [output.name, [output.text].flat().join('')]
      return output.ename ?? [output.data?.['text/plain']].flat().join('')
    }),
  ])
  expect(came).toEqual(displays)
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
