/** Several notebooks in one client, several clients in one notebook. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import { until } from '../support/until.ts'
import { startChild, withDaemon } from './harness.ts'

interface Peer {
  label: string
  kind: string
}

test('two clients are in one room under their own labels; one runs, the other reads the result', () =>
  withDaemon(async (home) => {
    const one = await startChild(home, { name: 'claude-code', title: 'Claude Code' })
    const two = await startChild(home, { name: 'codex' })
    const made = await one.must('create_notebook', { path: 'shared.ipynb', kernel: 'javascript' })
    const joined = await two.must('connect_notebook', { path: join(home.work, 'shared.ipynb') })
    expect(joined.structured.notebook_id).toBe(made.structured.notebook_id)
    expect((joined.structured.peers as Peer[]).map(({ label }) => label).sort()).toEqual([
      'Claude Code',
      'codex',
    ])
    expect(joined.text).toContain('Also here: Claude Code.')
    const { cell, execution } = (await one.must('create_cell', { source: '6 * 7', and_run: true }))
      .structured as { cell: { cell_id: string }; execution: { execution_id: string } }
    const read = await two.must('get_cell', { cell_id: cell.cell_id })
    expect(read.structured.cell).toMatchObject({ outputs: [{ data: { 'text/plain': '42' } }] })
    const results = await two.must('get_results', { execution_id: execution.execution_id })
    expect(results.structured).toMatchObject({ status: 'done', by: 'Claude Code' })
    // Both edit the same cell at the same time: both edits are there.
    await one.must('set_cell', { cell_id: cell.cell_id, source: 'a = 1\nb = 2' })
    await Promise.all([
      one.must('replace_match', { cell_id: cell.cell_id, match: 'a = 1', content: 'a = 10' }),
      two.must('replace_regex', { cell_id: cell.cell_id, pattern: '^b = 2$', content: 'b = 20' }),
    ])
    expect((await one.must('get_cell', { cell_id: cell.cell_id })).structured.cell).toMatchObject({
      source: 'a = 10\nb = 20',
    })
    await two.close()
    await until('one peer to be left', async () => {
      const { notebooks } = (await one.must('list_active_notebooks')).structured as {
        notebooks: { peers: Peer[] }[]
      }
      return notebooks[0]?.peers.length === 1
    })
  }))

test('a parked notebook has no peer, and coming back tells what happened', () =>
  withDaemon(async (home) => {
    const child = await startChild(home, { title: 'Claude Code' })
    const other = await connect({ env: home.env, label: 'Ada' })
    try {
      const a = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
      await child.must('create_cell', { source: '1', and_run: true })
      const b = await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
      expect(b.structured.switched_from).toEqual({
        notebook_id: a.structured.notebook_id,
        path: join(home.work, 'a.ipynb'),
      })
      const room = await other.openRoom({ path: join(home.work, 'a.ipynb') })
      await until('Ada to be alone', () => room.state.peers.map((peer) => peer.label).join() === 'Ada')
      await room.createCell({ source: 'x' })
      await (await room.execute({ code: '2 + 2' })).done
      const listed = await child.must('list_active_notebooks')
      expect(listed.structured).toMatchObject({
        active: b.structured.notebook_id,
        parked: [{ notebook_id: a.structured.notebook_id }],
      })
      const back = await child.must('connect_notebook', { notebook_id: a.structured.notebook_id })
      expect(back.structured).toMatchObject({
        status: 'resumed',
        path: join(home.work, 'a.ipynb'),
        since: {
          edits: 1,
          editors: [{ by: 'Ada', edits: 1 }],
          executions: [{ by: 'Ada', status: 'done' }],
        },
      })
      expect(back.text).toContain('1 execution, 1 edit by Ada since you left')
      expect(back.structured.activation_generation).toBeGreaterThan(
        b.structured.activation_generation as number,
      )
    } finally {
      await other.close()
    }
  }))

test('"notebook" works on another notebook without switching, and calls under way survive a switch', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const a = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const running = child.must('create_cell', {
      source: "await new Promise((r) => setTimeout(r, 400)); console.log('from a')",
      and_run: true,
    })
    await until('it to be queued', async () => {
      const { executions } = (await child.must('list_executions')).structured as { executions: unknown[] }
      return executions.length === 1
    })
    const b = await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
    const inA = await child.must('create_cell', { source: '7', notebook: 'a.ipynb', and_run: true })
    expect(inA.structured.execution).toMatchObject({ status: 'done' })
    expect((await running).text).toContain('from a')
    const cells = await child.must('get_all_cells', { notebook: String(a.structured.notebook_id) })
    expect(cells.structured.total).toBe(2)
    expect((await child.must('get_all_cells')).structured.total).toBe(0)
    expect((await child.must('list_active_notebooks')).structured.active).toBe(b.structured.notebook_id)
    // What an error advises names the notebook that the call named.
    const wrong = await child.call('get_cell', { cell_id: 'none', notebook: 'a.ipynb' })
    expect(wrong.structured.error).toMatchObject({
      code: 'not_found',
      next: { tool: 'get_all_cells', arguments: { notebook: 'a.ipynb' } },
    })
    expect((await child.must('disconnect_notebook', { notebook: 'a.ipynb' })).structured).toEqual({
      notebook_id: a.structured.notebook_id,
      path: join(home.work, 'a.ipynb'),
      was: 'parked',
    })
    expect((await child.must('disconnect_notebook')).structured.was).toBe('active')
    const none = await child.call('get_all_cells')
    expect(none.structured.error).toMatchObject({
      code: 'notebook_not_ready',
      cause: { reason: 'disconnected', notebook_id: b.structured.notebook_id },
      next: { tool: 'connect_notebook', arguments: { path: join(home.work, 'b.ipynb') } },
    })
  }))

test('a room that somebody closes is evicted, and the error names the call that opens it again', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const other = await connect({ env: home.env })
    try {
      await other.call('close_room', { notebook_id: String(made.structured.notebook_id) })
    } finally {
      await other.close()
    }
    const error = await until('the session to be gone', async () => {
      const answer = await child.call('get_all_cells')
      return answer.isError && answer.structured.error
    })
    expect(error).toMatchObject({
      code: 'notebook_unavailable',
      cause: { reason: 'evicted', notebook_id: made.structured.notebook_id },
    })
    const { next } = error as { next: { tool: string; arguments: Record<string, unknown> } }
    expect((await child.must(next.tool, next.arguments)).structured.notebook_id).toBe(
      made.structured.notebook_id,
    )
  }))

test('parallel calls to open one file share one attach; the newest target wins', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const a = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
    await child.must('disconnect_notebook')
    const opened = await Promise.all([
      child.must('connect_notebook', { path: 'a.ipynb' }),
      child.must('connect_notebook', { notebook_id: a.structured.notebook_id }),
      child.must('connect_notebook', { path: join(home.work, 'a.ipynb') }),
    ])
    expect(new Set(opened.map(({ structured }) => structured.activation_generation)).size).toBe(1)
    const { notebooks } = (await child.must('list_active_notebooks')).structured as {
      notebooks: { notebook_id: string; peers: Peer[] }[]
    }
    expect(notebooks.find(({ notebook_id }) => notebook_id === a.structured.notebook_id)?.peers).toHaveLength(
      1,
    )
    const [first, second] = await Promise.all([
      child.call('create_notebook', { path: 'c.ipynb', kernel: 'javascript' }),
      child.call('connect_notebook', { path: 'b.ipynb' }),
    ])
    expect(first?.structured.error).toMatchObject({ code: 'session_superseded' })
    const { cause } = first?.structured.error ?? {}
    // The room that was made is named, or was never begun.
    if (cause) expect(cause).toMatchObject({ notebook_id: expect.stringMatching(/^[0-9a-f-]{36}$/) })
    expect(second?.structured.path).toBe(join(home.work, 'b.ipynb'))
  }))
