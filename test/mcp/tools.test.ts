/** Every tool against the real daemon and kernel. The SDK's client checks each structured result against the tool's own schema. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type Child, startChild, withDaemon } from './harness.ts'

interface CellResult {
  cell: { cell_id: string; source: string; cell_type: string; status?: string; metadata?: unknown }
  execution?: { execution_id: string; status: string; outputs: unknown[] }
  diff?: string
}

async function create(child: Child, args: Record<string, unknown>): Promise<CellResult> {
  return (await child.must('create_cell', args)).structured as unknown as CellResult
}

test('a notebook is made, edited, run, read and saved', () =>
  withDaemon(async (home) => {
    const child = await startChild(home, { title: 'Claude Code' })
    const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const path = join(home.work, 'a.ipynb')
    expect(made.structured).toMatchObject({
      path,
      status: 'connected',
      source_state: 'ready',
      readiness: { projection: 'ready', document: 'interactive', runtime: 'none' },
      capabilities: { read: true, mutate: true, execute: true },
      kernel: { name: 'javascript', state: 'none', language: 'javascript' },
      peers: [{ label: 'Claude Code', kind: 'mcp', scope: 'owner' }],
      cells: [],
    })
    const first = await create(child, { source: 'const x = 41\nx + 1', and_run: true })
    expect(first.execution).toMatchObject({
      status: 'done',
      outputs: [{ output_type: 'execute_result', data: { 'text/plain': '42' } }],
    })
    expect(first.cell).toMatchObject({ cell_type: 'code', status: 'done' })
    const id = first.cell.cell_id
    const title = await create(child, { source: '# Title', cell_type: 'markdown', after_cell_id: null })
    const last = await create(child, { source: 'x * 2', after_cell_id: id })
    const cells = await child.must('get_all_cells')
    expect(cells.structured).toMatchObject({
      total: 3,
      start: 0,
      cells: [{ cell_id: title.cell.cell_id }, { cell_id: id, preview: 'const x = 41', lines: 2 }, {}],
    })
    expect(cells.text).toContain(`${id}  code [1] done  const x = 41 … (2 lines) → 42`)

    const changed = await child.must('replace_match', { cell_id: id, match: 'x + 1', content: 'x + 2' })
    expect(changed.structured.diff).toContain('-x + 1\n+x + 2')
    const again = await child.must('replace_regex', {
      cell_id: id,
      pattern: 'x \\+ \\d$',
      content: 'x - 1',
      and_run: 'true',
    })
    expect(again.structured).toMatchObject({
      cell: { source: 'const x = 41\nx - 1' },
      execution: { status: 'done' },
    })
    expect(again.text).toContain('40')
    const set = await child.must('set_cell', { cell_id: last.cell.cell_id, source: 'x * 3', and_run: true })
    expect(set.text).toContain('123')
    await child.must('move_cell', { cell_id: last.cell.cell_id, after_cell_id: null })
    await child.must('set_cell_metadata', { cell_id: id, metadata: { tags: ['keep'] } })
    const read = await child.must('get_cell', { cell_id: id })
    expect(read.structured).toMatchObject({
      cell: { metadata: { tags: ['keep'] }, source: 'const x = 41\nx - 1' },
    })
    expect(read.text).toContain('--- outputs\n40')
    const cleared = await child.must('clear_outputs', { cell_ids: id })
    expect(cleared.structured).toMatchObject({ cell_ids: [id] })
    await child.must('delete_cell', { cell_id: title.cell.cell_id })
    const full = await child.must('get_all_cells', { format: 'full' })
    expect((full.structured.cells as { cell_id: string }[]).map((cell) => cell.cell_id)).toEqual([
      last.cell.cell_id,
      id,
    ])

    const all = await child.must('run_all_cells')
    expect(all.structured.executions).toMatchObject([{ status: 'done' }, { status: 'done' }])
    const listed = await child.must('list_executions', { limit: 2 })
    expect(listed.structured.executions).toMatchObject([{ outputs_omitted: true }, { outputs_omitted: true }])
    const saved = await child.must('save_notebook')
    expect(saved.structured).toMatchObject({ path, outcome: 'saved' })
    expect(JSON.parse(readFileSync(path, 'utf8')).cells).toHaveLength(2)
    expect((await child.must('save_notebook')).structured.outcome).toBe('already_current')
    expect((await child.must('get_source_status')).structured).toMatchObject({
      path,
      source_state: 'ready',
      conflicts: [],
    })
    expect((await child.must('list_notebooks')).structured.notebooks).toMatchObject([
      { path, kind: 'in-place' },
    ])
    expect((await child.must('list_active_notebooks')).structured).toMatchObject({
      notebooks: [{ path, kernel: { name: 'javascript', state: 'idle' }, peers: [{ label: 'Claude Code' }] }],
      active: made.structured.notebook_id,
      parked: [],
    })
    expect((await child.must('show_notebook')).structured).toMatchObject({ opened: false, path })
    expect((await child.must('daemon_status')).structured).toMatchObject({
      running: true,
      rooms: 1,
      peers: 1,
    })
    expect((await child.must('reconnect')).structured).toMatchObject({ reconnected: true })
  }))

test('the kernel is asked, interrupted and restarted', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    expect(await child.call('inspect', { code: 'x' })).toMatchObject({
      isError: true,
      structured: { error: { code: 'runtime_not_ready' } },
    })
    await create(child, { source: 'const answer = 42', and_run: true })
    expect((await child.must('inspect', { code: 'answer' })).text).toContain('42')
    expect((await child.must('complete', { code: 'answ' })).structured.matches).toContain('answer')
    const endless = await create(child, { source: 'for (;;) {}', and_run: true, timeout_secs: 0 })
    const queued = await create(child, { source: '1', and_run: true, timeout_secs: 0 })
    expect(queued.execution?.status).toBe('queued')
    const interrupted = await child.must('interrupt_kernel')
    expect(interrupted.structured).toMatchObject({
      interrupted: endless.execution?.execution_id,
      cancelled: [queued.execution?.execution_id],
    })
    const results = await child.must('get_results', { execution_id: endless.execution?.execution_id })
    expect(results.structured.status).toBe('interrupted')
    const restarted = await child.must('restart_kernel')
    expect(restarted.structured).toMatchObject({ kernel: { name: 'javascript', state: 'idle' } })
    expect(
      (await create(child, { source: 'typeof answer', and_run: true })).execution?.outputs,
    ).toMatchObject([{ data: { 'text/plain': "'undefined'" } }])
    const asleep = await create(child, {
      source: 'await new Promise(() => {})',
      and_run: true,
      timeout_secs: 0,
    })
    const cancelled = await child.must('cancel_execution', { execution_id: asleep.execution?.execution_id })
    expect(cancelled.structured.status).toBe('interrupted')
  }))

test('results are read without an active notebook', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const { execution } = await create(child, { source: '6 * 7', and_run: true })
    await child.must('disconnect_notebook')
    const results = await child.must('get_results', { execution_id: execution?.execution_id })
    expect(results.structured).toMatchObject({ status: 'done', outputs: [{ data: { 'text/plain': '42' } }] })
    const missing = await child.call('get_results', { execution_id: '00000000-0000-4000-8000-000000000000' })
    expect(missing.structured.error).toMatchObject({ code: 'not_found' })
  }))

test('errors have a code, say what to do, and change nothing', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const codes = async (name: string, args: Record<string, unknown> = {}) => {
      const answer = await child.call(name, args)
      expect(answer.isError, `${name}: ${answer.text}`).toBe(true)
      expect(answer.text).toContain(`Error (${answer.structured.error?.code})`)
      return answer.structured.error
    }
    expect(await codes('get_all_cells')).toMatchObject({
      code: 'notebook_not_ready',
      next: { tool: 'list_notebooks' },
    })
    expect(await codes('connect_notebook', { path: 'missing.ipynb' })).toMatchObject({
      code: 'not_found',
      next: { tool: 'create_notebook', arguments: { path: join(home.work, 'missing.ipynb') } },
    })
    expect(
      await codes('connect_notebook', { notebook_id: '00000000-0000-4000-8000-000000000000' }),
    ).toMatchObject({ code: 'notebook_unavailable' })
    expect(await codes('connect_notebook')).toMatchObject({ code: 'invalid_argument' })
    expect(await codes('connect_notebook', { path: 'a', notebook_id: 'b' })).toMatchObject({
      code: 'invalid_argument',
    })
    expect(await codes('no_such_tool')).toMatchObject({ code: 'not_found' })
    expect(await codes('create_notebook', { kernel: 'cobol' })).toMatchObject({ code: 'kernel_not_found' })
    writeFileSync(join(home.work, 'bad.ipynb'), '{"cells": 3}')
    expect(await codes('connect_notebook', { path: 'bad.ipynb' })).toMatchObject({
      code: 'invalid_argument',
      cause: { path: join(home.work, 'bad.ipynb') },
    })
    await child.must('create_notebook', { kernel: 'javascript' })
    const { cell } = await create(child, { source: 'a b a' })
    const cell_id = cell.cell_id
    expect(await codes('get_cell', { cell_id: 'none' })).toMatchObject({ code: 'not_found' })
    expect(await codes('execute_cell', { cell_id: 'none' })).toMatchObject({ code: 'not_found' })
    expect(await codes('set_cell', { cell_id })).toMatchObject({ code: 'invalid_argument' })
    expect(await codes('replace_match', { cell_id, match: 'a', content: 'c' })).toMatchObject({
      code: 'invalid_argument',
      cause: {
        matches: [
          { offset: 0, line: 1 },
          { offset: 4, line: 1 },
        ],
      },
    })
    expect(await codes('replace_match', { cell_id, match: 'zz', content: 'c' })).toMatchObject({
      code: 'not_found',
    })
    expect(await codes('replace_regex', { cell_id, pattern: '(', content: 'c' })).toMatchObject({
      code: 'invalid_argument',
    })
    expect(await codes('set_cell', { cell_id, cell_type: 'markdown', and_run: true })).toMatchObject({
      code: 'invalid_argument',
    })
    expect(
      await codes('send_input', { execution_id: '00000000-0000-4000-8000-000000000000', value: '' }),
    ).toMatchObject({ code: 'not_found' })
    expect((await child.must('get_cell', { cell_id })).structured).toMatchObject({
      cell: { source: 'a b a', cell_type: 'code' },
    })
    const broken = await create(child, { source: 'null.foo', and_run: true })
    expect(broken.execution).toMatchObject({ status: 'error' })
  }))

test('an old file is read, and converted when that is asked for', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const old = {
      nbformat: 3,
      nbformat_minor: 0,
      metadata: { name: '' },
      worksheets: [{ cells: [{ cell_type: 'code', input: 'print(1)', language: 'python', outputs: [] }] }],
    }
    writeFileSync(join(home.work, 'old.ipynb'), JSON.stringify(old))
    const read = await child.must('connect_notebook', { path: 'old.ipynb' })
    expect(read.structured).toMatchObject({
      source_state: 'read_only',
      capabilities: { read: true, mutate: false, execute: false },
      cells: [{ preview: 'print(1)' }],
    })
    const edit = await child.call('create_cell', { source: 'x' })
    expect(edit.structured.error).toMatchObject({
      code: 'source_degraded',
      next: { tool: 'get_source_status' },
    })
    // By its path while it is the active one already, then by its id, which has nothing left to do.
    const converted = await child.must('connect_notebook', { path: 'old.ipynb', convert: true })
    expect(converted.structured).toMatchObject({ status: 'already_connected', source_state: 'ready' })
    const { notebook_id } = converted.structured
    expect((await child.must('connect_notebook', { notebook_id, convert: true })).structured).toMatchObject({
      capabilities: { mutate: true },
    })
    await create(child, { source: 'x = 1' })
    await child.must('save_notebook', {})
    const file = JSON.parse(readFileSync(join(home.work, 'old.ipynb'), 'utf8'))
    expect([file.nbformat, file.cells.map((cell: { source: unknown }) => cell.source)]).toEqual([
      4,
      [['print(1)'], ['x = 1']],
    ])
  }))

test('saving gives an untitled notebook a path, by which it is found', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const made = await child.must('create_notebook', { kernel: 'javascript' })
    expect(made.structured.path).toBeUndefined()
    await create(child, { source: '1' })
    const saved = await child.must('save_notebook', { path: 'sub.ipynb' })
    expect(saved.structured).toMatchObject({ path: join(home.work, 'sub.ipynb'), outcome: 'saved' })
    const again = await child.must('connect_notebook', { path: 'sub.ipynb' })
    expect(again.structured).toMatchObject({
      status: 'already_connected',
      notebook_id: made.structured.notebook_id,
    })
  }))

test('show_notebook opens the browser of this machine with a token that stands in no command line', () =>
  withDaemon(async (home) => {
    const bin = join(home.path, 'bin')
    const said = join(home.path, 'opened')
    mkdirSync(bin)
    writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\nprintf %s "$1" > '${said}'\n`, { mode: 0o755 })
    const env = { DISPLAY: ':0', PATH: `${bin}:${process.env.PATH}` }
    const child = await startChild(home, { env })
    const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const shown = await child.must('show_notebook')
    expect(shown.structured).toEqual({
      opened: true,
      notebook_id: made.structured.notebook_id,
      path: join(home.work, 'a.ipynb'),
    })
    const page = readFileSync(fileURLToPath(readFileSync(said, 'utf8')), 'utf8')
    expect(page).toContain(`notebook=${made.structured.notebook_id}`)
    expect(`${shown.text}${readFileSync(said, 'utf8')}`).not.toContain('token=')
    // No screen: said, with what the user can do.
    const blind = await startChild(home, { env: { DISPLAY: '', WAYLAND_DISPLAY: '' } })
    const not = await blind.must('show_notebook', { notebook: 'a.ipynb' })
    expect(not.structured).toMatchObject({
      opened: false,
      reason: expect.stringContaining(`roomd open ${made.structured.notebook_id}`),
    })
  }))
