import { afterEach, expect, test, vi } from 'vitest'
import { ExecutionRecord } from '../../client/sdk/execution-record.ts'
import { MirrorExecutions } from '../../client/sdk/mirror-executions.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import type { Cell, ExecutionSummary } from '../../protocol/notebook.ts'

afterEach(() => vi.restoreAllMocks())

const execution = (n: number, cell: number): ExecutionSummary => ({
  execution_id: `execution-${n}` as ExecutionId,
  notebook_id: '8b9d0c52-1f33-4f0e-9d0d-2b8c1b7a5f10' as NotebookId,
  cell_id: `cell-${cell}` as CellId,
  status: 'done',
  origin: 'file',
  by: '',
  source_hash: '',
  execution_count: n,
  queued_at: n,
  started_at: n,
  finished_at: n,
  truncated: false,
})

const cells = (count: number): Cell[] =>
  Array.from({ length: count }, (_, n) => ({
    cell_id: `cell-${n}` as CellId,
    cell_type: 'code',
    source: '',
    source_hash: '',
    metadata: {},
    outputs: [],
    execution: execution(n, n),
  }))

test('a picture of many cells is taken in by looking at each of their executions a few times', () => {
  const looked = vi.spyOn(ExecutionRecord.prototype, 'terminal', 'get')
  const executions = new MirrorExecutions()
  executions.install(cells(5000), true)
  expect(executions.all.size).toBe(5000)
  expect(looked.mock.calls.length).toBeLessThan(10 * 5000)
  // So are runs that come one by one.
  for (let n = 5000; n < 10_000; n++)
    executions.apply({ type: 'execution_finished', execution: execution(n, n % 5000) })
  expect(looked.mock.calls.length).toBeLessThan(40 * 5000)
})

test('what no cell shows any more is forgotten but for some, and what a picture shows again is kept', () => {
  const executions = new MirrorExecutions()
  executions.install(cells(300), true)
  for (let n = 300; n < 5000; n++)
    executions.apply({ type: 'execution_finished', execution: execution(n, 0) })
  expect(executions.all.size).toBeLessThan(1000)
  expect(executions.ofCell('cell-0' as CellId)?.id).toBe('execution-4999')
  const before = executions.ofCell('cell-200' as CellId)
  executions.install(cells(300), false)
  expect(executions.ofCell('cell-200' as CellId)).toBe(before)
})
