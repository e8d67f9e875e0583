/** Calls that take time: waiting, progress, cancelling, input. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { type Child, startChild, withDaemon } from './harness.ts'

interface Made {
  cell: { cell_id: string }
  execution: { execution_id: string; status: string; prompt?: string; password?: boolean }
}

async function run(child: Child, source: string, args: Record<string, unknown> = {}): Promise<Made> {
  return (await child.must('create_cell', { source, and_run: true, ...args })).structured as unknown as Made
}

async function status(child: Child, id: string): Promise<unknown> {
  return (await child.must('get_results', { execution_id: id })).structured.status
}

const lines = (count: number) =>
  `for (let i = 0; i < ${count}; i++) { console.log('line ' + i); await new Promise((r) => setTimeout(r, 20)) }`

test('a call whose time is over returns the present state, and the execution goes on', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    // It prints until it is told to end.
    const go = join(home.work, 'go')
    const source = `const { existsSync } = require('node:fs')
for (let i = 0; !existsSync(${JSON.stringify(go)}); i++) { console.log(i); await new Promise((r) => setTimeout(r, 20)) }`
    const { execution, cell } = await run(child, source, { timeout_secs: 0.2 })
    expect(['queued', 'running']).toContain(execution.status)
    // Run again while it runs: the same execution, not a second one.
    const followed = await child.must(
      'execute_cell',
      { cell_id: cell.cell_id },
      { onprogress: () => writeFileSync(go, '') },
    )
    expect(followed.structured).toMatchObject({ execution_id: execution.execution_id, status: 'done' })
    expect(followed.text).toContain('queued or running already')
    expect((await child.must('list_executions')).structured.executions).toHaveLength(1)
  }))

test('new lines of output are told as progress', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const told: string[] = []
    const numbers: number[] = []
    await child.must(
      'create_cell',
      { source: lines(40), and_run: true },
      {
        onprogress: ({ message, progress }) => {
          told.push(message ?? '')
          numbers.push(progress)
        },
      },
    )
    expect(told.length).toBeGreaterThan(1)
    const shown = told.join('\n').split('\n')
    expect(shown).toEqual(Array.from({ length: shown.length }, (_, i) => `line ${i}`))
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
    expect(new Set(numbers).size).toBe(numbers.length)
  }))

test('cancelling a call interrupts what it started, unless it said detach', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const { cell } = (await child.must('create_cell', { source: 'for (;;) {}' }))
      .structured as unknown as Made
    const cell_id = cell.cell_id
    const newest = async () => {
      const { executions } = (await child.must('list_executions', { limit: 1 })).structured as {
        executions: { execution_id: string; status: string }[]
      }
      return executions[0]
    }
    const leave = new AbortController()
    const call = child.call('execute_cell', { cell_id }, { signal: leave.signal })
    await until('it to run', async () => (await newest())?.status === 'running')
    leave.abort()
    await expect(call).rejects.toThrow()
    await until('it to be interrupted', async () => (await newest())?.status === 'interrupted')

    const detach = new AbortController()
    const detached = child.call('execute_cell', { cell_id, cancel: 'detach' }, { signal: detach.signal })
    await until('it to run again', async () => (await newest())?.status === 'running')
    detach.abort()
    await expect(detached).rejects.toThrow()
    expect((await newest())?.status).toBe('running')

    // Following what somebody else started, and leaving, ends nothing.
    const follower = new AbortController()
    const followed = child.call('execute_cell', { cell_id }, { signal: follower.signal })
    follower.abort()
    await expect(followed).rejects.toThrow()
    expect((await newest())?.status).toBe('running')

    const queue = new AbortController()
    const all = child.call('run_all_cells', {}, { signal: queue.signal })
    await until('all to be queued', async () => (await newest())?.status !== undefined)
    queue.abort()
    await expect(all).rejects.toThrow()
    await child.must('interrupt_kernel')
  }))

test('input(): the state says so at once, send_input answers, a second answer is a conflict', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const made = await child.must('create_cell', {
      source: "const name = await input('Your name? ')\n'Hello ' + name",
      and_run: true,
    })
    const { execution } = made.structured as unknown as Made
    expect(execution).toMatchObject({ status: 'waiting_for_input', prompt: 'Your name? ', password: false })
    expect(made.text).toContain('send_input')
    const { execution_id } = execution
    expect((await child.must('send_input', { execution_id, value: 'Ada' })).structured).toEqual({
      accepted: true,
    })
    await until('it to end', async () => (await status(child, execution_id)) === 'done')
    const results = await child.must('get_results', { execution_id })
    expect(results.text).toContain("'Hello Ada'")
    const late = await child.call('send_input', { execution_id, value: 'Bob' })
    expect(late.structured.error?.code).toBe('conflict')
  }))

test('a client that can ask its user is asked', () =>
  withDaemon(async (home) => {
    const asked: string[] = []
    const child = await startChild(home, {
      capabilities: { elicitation: {} },
      prepare: (client) =>
        client.setRequestHandler(ElicitRequestSchema, (request) => {
          asked.push(request.params.message)
          return asked.length < 3
            ? { action: 'accept', content: { value: `answer ${asked.length}` } }
            : { action: 'decline' }
        }),
    })
    await child.must('create_notebook', { kernel: 'javascript' })
    const source =
      "const a = await input('one '); const b = await input('two '); console.log(a, b); await input('three ')"
    const { execution } = await run(child, source)
    expect(asked).toEqual(['one ', 'two ', 'three '])
    expect(execution).toMatchObject({ status: 'waiting_for_input', prompt: 'three ' })
    // What was printed comes on another of the kernel's channels than the question, and may be a moment behind it.
    await until('the printed answers', async () => {
      const results = await child.must('get_results', { execution_id: execution.execution_id })
      return results.text.includes('answer 1 answer 2')
    })
  }))
