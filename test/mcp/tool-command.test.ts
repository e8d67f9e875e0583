import { expect, test } from 'vitest'
import { roomd } from '../support/command.ts'
import { withHome } from '../support/home.ts'
import { withDaemon } from './harness.ts'

test('roomd tool calls the same handlers from a shell', () =>
  withDaemon(async (home) => {
    const made = await roomd(home, ['tool', 'create_notebook', '{"path": "a.ipynb", "kernel": "javascript"}'])
    expect(made.code, made.stderr).toBe(0)
    const { notebook_id } = JSON.parse(made.stdout)
    const run = await roomd(home, [
      'tool',
      'create_cell',
      '{"source": "6 * 7", "and_run": true}',
      '--room',
      'a.ipynb',
    ])
    expect(JSON.parse(run.stdout)).toMatchObject({ execution: { status: 'done', outputs: [{}] } })
    const byPrefix = await roomd(home, ['tool', 'get_all_cells', '--room', notebook_id.slice(0, 8)])
    expect(JSON.parse(byPrefix.stdout)).toMatchObject({ total: 1 })
    const piped = await roomd(home, ['tool', 'get_all_cells', '-'], { input: '{"notebook": "a.ipynb"}' })
    expect(JSON.parse(piped.stdout)).toMatchObject({ total: 1 })
    const failed = await roomd(home, ['tool', 'get_cell', '{"cell_id": "none", "notebook": "a.ipynb"}'])
    expect(failed.code).toBe(1)
    expect(JSON.parse(failed.stdout)).toMatchObject({ error: { code: 'not_found' } })
    expect(failed.stderr).toContain('get_all_cells')
    const usage = await roomd(home, ['tool', 'get_cell', 'cell_id=3'])
    expect(usage.code).toBe(2)
  }))

test('roomd tool without a daemon ends with 69', () =>
  withHome(async (home) => {
    const lost = await roomd(home, ['tool', 'daemon_status'])
    expect(lost.code).toBe(69)
    expect(JSON.parse(lost.stdout)).toMatchObject({ error: { code: 'daemon_lost', retryable: true } })
  }))
