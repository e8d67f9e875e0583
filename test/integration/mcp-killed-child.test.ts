/** The real child, killed at each part of the way of 20 parallel calls: each takes effect once, and each caller gets its answer. */
import { expect, test } from 'vitest'
import { type Installed, startInstalled, type ToolResult } from '../mcp-proxy/support/installed.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { until } from '../support/until.ts'

const CALLS = 20

interface Made {
  cell: { cell_id: string; source: string }
  execution: { execution_id: string; status: string; outputs: { text?: string }[] }
}

function withSession(use: (mcp: Installed) => Promise<void>): Promise<void> {
  return withHome(async (home) => {
    const daemon = await startDaemon(home, { SHELL: '/bin/sh' })
    const mcp = await startInstalled(home)
    await mcp.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await mcp.must('create_cell', { source: 'let seen = []', and_run: true })
    await use(mcp)
    await mcp.close()
    await daemon.stop()
  })
}

const numbers = Array.from({ length: CALLS }, (_, n) => n)

/** Document and kernel know of each call once, and its own caller was told of it. */
async function eachOnce(mcp: Installed, results: readonly ToolResult[]): Promise<void> {
  const answers = results.map((result) => {
    expect(result.isError, JSON.stringify(result)).toBeFalsy()
    return result.structuredContent as unknown as Made
  })
  expect(answers.map(({ execution }) => execution.status)).toEqual(numbers.map(() => 'done'))
  expect(answers.map(({ cell }) => Number(/\d+/.exec(cell.source)?.[0]))).toEqual(numbers)
  expect(new Set(answers.map(({ cell }) => cell.cell_id)).size).toBe(CALLS)
  expect(new Set(answers.map(({ execution }) => execution.execution_id)).size).toBe(CALLS)
  const { cells } = (await mcp.must('get_all_cells', { format: 'full', count: 200 })) as {
    cells: { source: string }[]
  }
  const made = cells.flatMap(({ source }) => /^seen\.push\((\d+)\)/.exec(source)?.[1] ?? [])
  expect(made.map(Number).sort((a, b) => a - b)).toEqual(numbers)
  const { execution } = (await mcp.must('create_cell', {
    source: 'console.log(JSON.stringify(seen))',
    and_run: true,
  })) as unknown as Made
  const seen = JSON.parse(execution.outputs.map(({ text = '' }) => text).join('')) as number[]
  expect(seen.sort((a, b) => a - b)).toEqual(numbers)
  const { executions } = (await mcp.must('list_executions')) as { executions: unknown[] }
  expect(executions).toHaveLength(CALLS + 2)
}

for (const share of [0, 25, 50, 100]) {
  test(`the child is killed when ${share} % of 20 parallel calls are answered: each took effect once, each is answered`, () =>
    withSession(async (mcp) => {
      let answered = 0
      const calls = numbers.map(async (n) => {
        const result = await mcp.call('create_cell', { source: `seen.push(${n})`, and_run: true })
        answered++
        return result
      })
      await until(`${share} % of the answers`, () => answered >= (CALLS * share) / 100)
      await mcp.killChild()
      await eachOnce(mcp, await Promise.all(calls))
    }))

  test(`the child is killed when ${share} % of one call is done, with 19 behind it: every line once, each is answered`, () =>
    withSession(async (mcp) => {
      const lines = 8
      const told: string[] = []
      const source = (n: number) =>
        n > 0
          ? `seen.push(${n})`
          : `seen.push(0)
for (let i = 0; i < ${lines}; i++) { console.log('line ' + i); await new Promise((r) => setTimeout(r, 30)) }`
      const calls = numbers.map(
        (n) =>
          mcp.client.callTool(
            { name: 'create_cell', arguments: { source: source(n), and_run: true } },
            undefined,
            {
              ...(n > 0
                ? {}
                : { onprogress: ({ message }) => told.push(...(message ?? '').trim().split('\n')) }),
              timeout: 60_000,
            },
          ) as Promise<ToolResult>,
      )
      // The last lines may come with the answer.
      let done = false
      calls[0]?.then(() => {
        done = true
      })
      await until(`${share} % of the lines`, () => done || new Set(told).size >= (lines * share) / 100)
      await mcp.killChild()
      const results = await Promise.all(calls)
      const { execution } = (results[0]?.structuredContent ?? {}) as unknown as Made
      expect(execution.outputs.map(({ text = '' }) => text).join('')).toBe(
        Array.from({ length: lines }, (_, i) => `line ${i}\n`).join(''),
      )
      await eachOnce(mcp, results)
    }))
}
