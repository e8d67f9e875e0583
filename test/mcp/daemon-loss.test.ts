/** The daemon, or the child, dies in the middle: sessions come back, nothing runs twice. */
import { randomUUID } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import { signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type Child, startChild, startTestDaemon, withDaemon } from './harness.ts'

const slow = (count: number) =>
  `for (let i = 0; i < ${count}; i++) { console.log('line ' + i); await new Promise((r) => setTimeout(r, 40)) }`

async function news(child: Child, kind: string) {
  return until(`the child to tell of its ${kind}`, () => child.news.find((one) => one.kind === kind))
}

test('the daemon is killed in the middle of execute_cell: the call is answered with every line', () =>
  withDaemon(async (home, daemon) => {
    const child = await startChild(home)
    const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    let told = ''
    const call = child.must(
      'create_cell',
      { source: slow(40), and_run: true },
      {
        onprogress: ({ message }) => {
          told += message
        },
      },
    )
    await until('some lines', () => told.includes('line 3'))
    await daemon.kill9()
    // Asked while nobody is there: the next daemon answers.
    const meanwhile = child.must('get_all_cells')
    await startTestDaemon(home)
    const { execution } = (await call).structured as {
      execution: { status: string; outputs: { text: string }[] }
    }
    expect(execution.status).toBe('done')
    expect(execution.outputs.map((output) => output.text).join('')).toBe(
      Array.from({ length: 40 }, (_, i) => `line ${i}\n`).join(''),
    )
    expect((await meanwhile).structured.total).toBe(1)
    expect((await child.must('list_executions')).structured.executions).toHaveLength(1)
    const again = await child.must('connect_notebook', { path: 'a.ipynb' })
    expect(again.structured).toMatchObject({
      status: 'already_connected',
      notebook_id: made.structured.notebook_id,
    })
    expect((again.structured.daemon as { boot_id: string }).boot_id).not.toBe(
      (made.structured.daemon as { boot_id: string }).boot_id,
    )
  }))

test('a daemon that stays away is daemon_lost after the wait, and is waited for again by the next call', () =>
  withDaemon(async (home, daemon) => {
    const child = await startChild(home)
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await daemon.kill9()
    const lost = await child.call('get_all_cells')
    expect(lost.structured.error).toMatchObject({
      code: 'daemon_lost',
      retryable: true,
      next: { tool: 'daemon_status' },
    })
    await startTestDaemon(home)
    expect((await child.must('get_all_cells')).structured.total).toBe(0)
  }))

test('a new child rejoins what the proxy names, and calls that come before wait for it', () =>
  withDaemon(async (home) => {
    const instance = `test-${randomUUID()}`
    const first = await startChild(home, { env: { ROOMD_CLIENT_INSTANCE: instance } })
    const made = await first.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await first.must('create_cell', { source: 'let x = 1', and_run: true })
    expect(await news(first, 'rejoin')).toEqual({ kind: 'rejoin', outcome: 'none' })
    signal(first.pid, 'SIGKILL')
    const path = join(home.work, 'a.ipynb')
    const second = await startChild(home, { env: { ROOMD_CLIENT_INSTANCE: instance, ROOMD_REJOIN: path } })
    // The first thing that many clients ask.
    const listed = await second.must('list_active_notebooks')
    expect(listed.structured.active).toBe(made.structured.notebook_id)
    const cells = await second.must('get_all_cells')
    expect(cells.structured.total).toBe(1)
    expect(await news(second, 'rejoin')).toMatchObject({
      outcome: 'succeeded',
      target: path,
      readiness: { projection: 'ready' },
    })
    const again = await second.must('connect_notebook', { notebook_id: made.structured.notebook_id })
    expect(again.structured.status).toBe('already_connected')
    expect(again.structured.activation_generation).toBeGreaterThan(
      made.structured.activation_generation as number,
    )
  }))

test('missing_saved_path_is_refused_before_uuid_connect_fallback', () =>
  withDaemon(async (home) => {
    const env = { ROOMD_CLIENT_INSTANCE: `test-${randomUUID()}` }
    const first = await startChild(home, { env })
    await first.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await first.close()
    const path = join(home.work, 'a.ipynb')
    rmSync(path)
    const second = await startChild(home, { env: { ...env, ROOMD_REJOIN: path } })
    expect(await news(second, 'rejoin')).toMatchObject({ outcome: 'failed', target: path })
    const none = await second.call('get_all_cells')
    expect(none.structured.error).toMatchObject({
      code: 'notebook_unavailable',
      cause: { reason: 'evicted', path },
    })
    expect(existsSync(path)).toBe(false)
  }))

test('an id that no room has is not made anew by rejoining it', () =>
  withDaemon(async (home) => {
    const target = randomUUID()
    const child = await startChild(home, {
      env: { ROOMD_CLIENT_INSTANCE: `test-${randomUUID()}`, ROOMD_REJOIN: target },
    })
    expect(await news(child, 'rejoin')).toMatchObject({ outcome: 'failed', target })
    expect((await child.must('list_notebooks')).structured.notebooks).toEqual([])
  }))

test('calls sent again to a new child under their mutation ids take effect once', () =>
  withDaemon(async (home) => {
    const env = { ROOMD_CLIENT_INSTANCE: `test-${randomUUID()}` }
    const meta = (base: number) => ({ meta: { 'roomd/mutation': base, 'roomd/settled': 64 } })
    const first = await startChild(home, { env })
    const made = await first.must('create_notebook', { kernel: 'javascript' }, meta(64))
    const notebook = String(made.structured.notebook_id)
    const cell = await first.must('create_cell', { source: 'let n = 0', and_run: true }, meta(128))
    const counter = await first.must('create_cell', { source: '++n', and_run: true }, meta(192))
    const { cell_id } = counter.structured.cell as { cell_id: string }
    await first.must('execute_cell', { cell_id }, meta(256))
    await first.must('replace_match', { cell_id, match: 'n', content: 'nn' }, meta(320))
    await first.must('replace_regex', { cell_id, pattern: 'nn', content: 'nnn' }, meta(384))
    signal(first.pid, 'SIGKILL')

    const second = await startChild(home, { env: { ...env, ROOMD_REJOIN: notebook } })
    const remade = await second.must('create_notebook', { kernel: 'javascript' }, meta(64))
    expect(remade.structured.notebook_id).toBe(notebook)
    const recreated = await second.must('create_cell', { source: 'let n = 0', and_run: true }, meta(128))
    expect(recreated.structured.cell).toMatchObject({
      cell_id: (cell.structured.cell as { cell_id: string }).cell_id,
    })
    await second.must('create_cell', { source: '++n', and_run: true }, meta(192))
    const rerun = await second.must('execute_cell', { cell_id }, meta(256))
    expect(rerun.structured).toMatchObject({ status: 'done', outputs: [{ data: { 'text/plain': '2' } }] })
    await second.must('replace_match', { cell_id, match: 'n', content: 'nn' }, meta(320))
    await second.must('replace_regex', { cell_id, pattern: 'nn', content: 'nnn' }, meta(384))
    // As the proxy does, every call has a base of its own: the child records each under an id of its block.
    const cells = await second.must('get_all_cells', { format: 'full' }, meta(448))
    expect(cells.structured.total).toBe(2)
    expect(cells.structured.cells).toMatchObject([{}, { cell_id, source: '++nnn' }])
    // What is new runs as new.
    const fresh = await second.must('create_cell', { source: 'n', and_run: true }, meta(512))
    expect(fresh.text).toContain('\n2')
    expect((await second.must('list_executions')).structured.executions).toHaveLength(4)
  }))

test('explicit intent beats a rejoin that waits for the daemon', () =>
  withDaemon(async (home, daemon) => {
    const client = await connect({ env: home.env })
    const room = await client.openRoom({ create: { kernel: 'javascript' } })
    const target = room.id
    await client.close()
    await daemon.kill9()
    const child = await startChild(home, {
      env: { ROOMD_CLIENT_INSTANCE: `test-${randomUUID()}`, ROOMD_REJOIN: target },
    })
    const off = await child.must('disconnect_notebook')
    expect(off.structured).toEqual({ notebook_id: target, was: 'pending_rejoin' })
    await startTestDaemon(home)
    expect(await news(child, 'rejoin')).toMatchObject({ outcome: 'none' })
    const none = await child.call('get_all_cells')
    expect(none.structured.error?.code).toBe('notebook_not_ready')
  }))
