/** What tools answer around a lost session: scenarios of nteract's kernel and execution tools that no other test here pins. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startChild, startTestDaemon, withDaemon } from '../mcp/harness.ts'
import { until } from '../support/until.ts'

interface KernelAnswer {
  kernel: { kernel_id: string; state: string }
}

test('restart_retry_treats_missing_session_as_disconnected: a restart while the daemon is away waits for it', () =>
  withDaemon(async (home, daemon) => {
    const child = await startChild(home)
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('create_cell', { source: 'let x = 1', and_run: true })
    await daemon.kill9()
    const restarting = child.must('restart_kernel')
    await startTestDaemon(home)
    const { kernel } = (await restarting).structured as unknown as KernelAnswer
    expect(kernel.state).toBe('idle')
    const { execution } = (await child.must('create_cell', { source: 'typeof x', and_run: true }))
      .structured as { execution: unknown }
    expect(execution).toMatchObject({ outputs: [{ data: { 'text/plain': "'undefined'" } }] })
  }))

test('restart_retry_preserves_structured_session_access_error: code, reason and the call that helps', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    expect((await child.call('restart_kernel')).structured.error).toMatchObject({
      code: 'notebook_not_ready',
      next: { tool: 'list_notebooks' },
    })
    const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('disconnect_notebook')
    expect((await child.call('restart_kernel')).structured.error).toMatchObject({
      code: 'notebook_not_ready',
      cause: { reason: 'disconnected', notebook_id: made.structured.notebook_id },
      next: { tool: 'connect_notebook', arguments: { path: join(home.work, 'a.ipynb') } },
    })
  }))

test('get_results_missing_durable_record_omits_unknown_cell_recovery_hint: no call is named that cannot help', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const execution_id = '00000000-0000-4000-8000-000000000000'
    for (const active of [false, true]) {
      if (active) await child.must('create_notebook', { kernel: 'javascript' })
      const { error } = (await child.call('get_results', { execution_id })).structured
      expect(error).toMatchObject({ code: 'not_found' })
      expect(JSON.stringify(error?.next ?? null)).not.toContain('cell')
      expect(error?.message).not.toMatch(/get_cell|undefined|null/)
    }
  }))

test('run_all_queued_response: without waiting, every execution is told by its id and can be read when it is done', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    for (const n of [1, 2, 3]) await child.must('create_cell', { source: `${n} * 2` })
    const queued = await child.must('run_all_cells', { wait: false })
    const { executions } = queued.structured as { executions: { execution_id: string; status: string }[] }
    expect(executions).toHaveLength(3)
    for (const [i, { execution_id }] of executions.entries()) {
      expect(queued.text).toContain(execution_id)
      const result = await until(`execution ${i} to end`, async () => {
        const { structured } = await child.must('get_results', { execution_id })
        return structured.status === 'done' && structured
      })
      expect(result).toMatchObject({ outputs: [{ data: { 'text/plain': String((i + 1) * 2) } }] })
    }
  }))
