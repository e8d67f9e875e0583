/** How it is told who was at work in a room that was left. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Text, Map as YMap } from 'yjs'
import { describeSince, type Since } from '../../client/mcp/sessions/since.ts'
import { connect } from '../../client/sdk/connect.ts'
import { execution } from '../sdk/fixture.ts'
import { startChild, withDaemon } from './harness.ts'

const nothing: Since = { executions: [], edits: 0, editors: [] }
const done = (n: number, by: string) => execution(n, { by, status: 'done' })

test.each<[string, Since, string | null]>([
  ['nothing', nothing, null],
  [
    'one who did both',
    {
      executions: [done(1, 'Claude Code'), done(2, 'Claude Code'), done(3, 'Claude Code')],
      edits: 2,
      editors: [{ by: 'Claude Code', edits: 2 }],
    },
    '3 executions, 2 edits by Claude Code since you left',
  ],
  [
    'each another',
    {
      executions: [execution(1, { by: 'Ada', status: 'error' })],
      edits: 5,
      editors: [
        { by: 'disk', edits: 1 },
        { by: 'Eve', edits: 4 },
      ],
    },
    '1 execution (1 not done) by Ada, 5 edits by disk, Eve (4) since you left',
  ],
  [
    'only edits',
    { ...nothing, edits: 1, editors: [{ by: 'Ada', edits: 1 }] },
    '1 edit by Ada since you left',
  ],
  ['only executions', { ...nothing, executions: [done(1, 'Ada')] }, '1 execution by Ada since you left'],
  [
    'folded edits',
    { ...nothing, edits: 9, editors: [{ by: 'Ada', edits: 2 }] },
    '9 edits by Ada, others since you left',
  ],
  ['all folded', { ...nothing, edits: 9 }, '9 edits since you left'],
])('%s', (_what, since, words) => {
  expect(describeSince(since)).toBe(words)
})

test('coming back to a parked notebook names everybody who edited it, also by the Yjs document', () =>
  withDaemon(async (home) => {
    const child = await startChild(home, { title: 'Claude Code' })
    const a = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('create_cell', { source: '1' })
    await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
    const path = join(home.work, 'a.ipynb')
    const thin = await connect({ env: home.env, label: 'Ada' })
    const thick = await connect({ env: home.env, label: 'Editor' })
    try {
      const room = await thin.openRoom({ path })
      await room.createCell({ source: 'x' })
      await room.createCell({ source: 'y' })
      const typing = await thick.openRoom({ path })
      const doc = await typing.doc()
      const [first] = doc.getArray<YMap<unknown>>('cells').toArray()
      const source = first?.get('source') as Text | undefined
      source?.insert(0, '# ')
      await typing.flush()
      // The same client, without going back.
      await child.must('create_cell', { source: 'z', notebook: 'a.ipynb' })
    } finally {
      await Promise.all([thin.close(), thick.close()])
    }
    const back = await child.must('connect_notebook', { notebook_id: a.structured.notebook_id })
    expect(back.structured.since).toEqual({
      executions: [],
      edits: 4,
      editors: [
        { by: 'Claude Code', edits: 1 },
        { by: 'Editor', edits: 1 },
        { by: 'Ada', edits: 2 },
      ],
    })
    expect(back.text).toContain('4 edits by Claude Code, Editor, Ada (2) since you left\n')
  }))
