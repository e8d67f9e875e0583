/** Outputs of .ipynb files, and everything that is read from the store without a room; on the real store with its writer thread. */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { outputsForFile, prepareFileOutputs } from '../../daemon/executions/file-outputs.ts'
import { readExecution, readOutputText } from '../../daemon/executions/reading.ts'
import { collectBlobs, KEPT_EXECUTIONS, KEPT_MS, pruneExecutions } from '../../daemon/executions/retention.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { CellId, type ExecutionId, NotebookId } from '../../protocol/ids.ts'
import { until } from '../support/until.ts'
import { kernelRow, log, roomRow, ScriptedKernel, TestClock, TestRoom, textOf } from './support.ts'

let folder: string
let store: Store
let room: TestRoom

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-files-'))
  store = await openStore({ file: join(folder, 'roomd.db'), log })
  const id = NotebookId.parse(randomUUID())
  const kernel = new ScriptedKernel()
  await store.write([roomRow(id), kernelRow(kernel, id)])
  const { openBlobs } = await import('../../daemon/executions/blobs.ts')
  room = new TestRoom({ store, id, kernel, clock: new TestClock(), blobs: openBlobs(join(folder, 'blobs')) })
})

afterEach(async () => {
  await room.close()
  rmSync(folder, { recursive: true, force: true })
})

const image = Buffer.alloc(20_000, 9).toString('base64')
const longLines = Array.from({ length: 5_000 }, (_, i) => `line ${i}\r\n`)
const cells = [
  {
    cell_id: CellId.parse('one'),
    source: '1',
    execution_count: 7,
    outputs: [
      { output_type: 'stream', name: 'stdout', text: longLines },
      {
        output_type: 'execute_result',
        execution_count: 7,
        metadata: { a: 1 },
        data: { 'text/plain': ['a\n', 'b'], 'image/png': image, 'application/json': [1, 2] },
      },
    ],
  },
  {
    cell_id: CellId.parse('two'),
    source: '2',
    execution_count: null,
    outputs: [
      { output_type: 'error', ename: 'E', evalue: 'v', traceback: ['t'] },
      { output_type: 'from the future', x: 1 },
    ],
  },
  { cell_id: CellId.parse('bare'), source: '3', execution_count: null, outputs: [] },
]

async function take(): Promise<void> {
  const taken = room.executions.takeFileOutputs(await prepareFileOutputs(room.blobs, cells))
  const committed = room.commit({ statements: taken.statements, events: taken.events })
  // Shown at once, before the commit.
  expect(
    room.executions.outputs(room.executions.ofCell(cells[1]?.cell_id as CellId)?.execution_id as ExecutionId),
  ).toHaveLength(2)
  await committed
}

describe('outputs that came with a file', () => {
  test('are shown as executions of origin file, and peers are told the same', async () => {
    await take()
    const one = room.executions.ofCell(CellId.parse('one'))
    expect(one).toMatchObject({ origin: 'file', status: 'done', execution_count: 7 })
    expect(room.executions.ofCell(CellId.parse('two'))).toMatchObject({ status: 'error' })
    expect(room.executions.ofCell(CellId.parse('bare'))).toBeUndefined()
    const id = one?.execution_id as ExecutionId
    expect(room.executions.outputMark(CellId.parse('one'))).toBe(`file:${id}`)
    expect(room.mirror.outputs.get(id)).toEqual(room.executions.outputs(id))
    room.executions.trim()
    expect(room.mirror.outputs.get(id)).toEqual(room.executions.outputs(id))
    expect(readExecution(store, id)?.outputs).toEqual(room.executions.outputs(id))
    const slice = await readOutputText(store, room.blobs, {
      execution_id: id,
      index: 0,
      offset: 7,
      length: 8,
    })
    expect(slice.text).toBe('\nline 1\r')
  })

  test('go back into a file in full', async () => {
    await take()
    const one = await outputsForFile(store, room.blobs, room.id, CellId.parse('one'))
    expect(one?.execution_count).toBe(7)
    expect(one?.outputs).toEqual([
      { output_type: 'stream', name: 'stdout', text: longLines.join('') },
      {
        output_type: 'execute_result',
        execution_count: 7,
        metadata: { a: 1 },
        data: { 'text/plain': 'a\nb', 'image/png': image, 'application/json': [1, 2] },
      },
    ])
    expect(await outputsForFile(store, room.blobs, room.id, CellId.parse('bare'))).toBeNull()
  })

  test('give way to a run, and a cell that runs keeps its run', async () => {
    const cell = room.addCell('1', 'one')
    await take()
    const id = await room.run(cell)
    await take()
    expect(room.executions.ofCell(cell)?.execution_id).toBe(id)
  })
})

describe('a run on the real store', () => {
  test('is written, read, and saved as it was printed', async () => {
    const cell = room.addCell('x', 'c')
    const kernel = room.present
    if (!kernel) throw new Error('no kernel')
    kernel.onExecute = (id) => {
      kernel.begin(id)
      kernel.print(id, '50%\r100%\n')
      kernel.display(id, { 'image/png': image }, 'shown')
      kernel.print(id, 'e'.repeat(20_000), 'stderr')
      kernel.display(id, { 'text/plain': '1' }, undefined, 'execute_result')
      kernel.end(id)
    }
    const id = await room.run(cell)
    await until('the end of the run', async () => {
      await room.rest(50)
      // What is committed: memory says it a moment earlier.
      return readExecution(store, id)?.status === 'done'
    })
    const execution = readExecution(store, id)
    expect(execution).toEqual(room.executions.get(id))
    const file = await outputsForFile(store, room.blobs, room.id, cell)
    expect(file?.outputs).toEqual([
      { output_type: 'stream', name: 'stdout', text: '100%\n' },
      { output_type: 'display_data', metadata: {}, data: { 'image/png': image } },
      { output_type: 'stream', name: 'stderr', text: 'e'.repeat(20_000) },
      { output_type: 'execute_result', metadata: {}, execution_count: null, data: { 'text/plain': '1' } },
    ])
    const row = store.get<{ consumed_seq: number }>('SELECT consumed_seq FROM kernels')
    expect(row?.consumed_seq).toBe(kernel.seq)
  })
})

describe('retention', () => {
  test('keeps the newest, the shown, the young and the open; their blobs stay', async () => {
    await take()
    const others = Array.from({ length: KEPT_EXECUTIONS + 1 }, (_, i) => ({
      cell_id: CellId.parse(`other-${i}`),
      source: '',
      execution_count: i,
      outputs: [
        { output_type: 'display_data', data: { 'text/plain': `${i}${'b'.repeat(9_000)}` }, metadata: {} },
      ],
    }))
    const prepared = await prepareFileOutputs(room.blobs, others)
    const first = prepared[0]?.execution_id as ExecutionId
    await room.commit(room.executions.takeFileOutputs(prepared))
    const shown = [CellId.parse('one')]
    const count = () => store.get<{ n: number }>('SELECT count(*) AS n FROM executions')?.n
    const now = Date.now()
    await store.write(pruneExecutions(room.id, shown, room.now() + 1_000))
    const all = KEPT_EXECUTIONS + 3
    expect(count()).toBe(all)
    await store.write(pruneExecutions(room.id, shown, now + 2 * KEPT_MS))
    // `first` and the one of cell `two` are gone.
    expect(count()).toBe(all - 2)
    expect(readExecution(store, first)).toBeUndefined()
    const one = store.get<{ execution_id: ExecutionId }>(
      "SELECT execution_id FROM cell_executions WHERE cell_id = 'one'",
    )
    expect(readExecution(store, one?.execution_id as ExecutionId)?.outputs.map(textOf)).toHaveLength(2)
    expect(await collectBlobs(store, room.blobs, Date.now() + 100 * 3_600_000)).toMatchObject({ removed: 1 })
    expect(await outputsForFile(store, room.blobs, room.id, CellId.parse('one'))).not.toBeNull()
  })
})
