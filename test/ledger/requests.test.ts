import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { roundHalfEven } from '../../daemon/ledger/numbers.ts'
import { openTestLedger, type TestLedger } from './harness.ts'

/** Files that other programs leave for finalizing. */
function leave(ledger: TestLedger, sessionId: string, files: Record<string, string | Buffer>): void {
  const folder = join(ledger.tree, 'logs', 'sessions', sessionId)
  mkdirSync(folder, { recursive: true })
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content)
}

const lines = (...values: unknown[]): string =>
  values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join('\n')

async function markdownOf(ledger: TestLedger, session_id: string): Promise<string> {
  const loaded = await ledger.call('session_load', { session_id, data_type: 'summary' })
  return String(loaded.data)
}

test('C14 a request keeps the beginning of its prompt, and its supplementary skills in order', async () => {
  const ledger = await openTestLedger()
  const answer = await ledger.call('session_accumulate', {
    session_id: 'S',
    prompt: `😀${'x'.repeat(599)}`,
    complexity: 14,
    model: 'SONNET',
    context_pct: 22,
    supplementary_skills: 'redis-core, perf,,redis-core',
  })
  expect(answer).toMatchObject({ success: true, request_number: 1, peak_context: 22, skills_used: [] })
  const row = ledger.store.get<{ prompt: string; prompt_chars: number; supplementary: string }>(
    'SELECT prompt, prompt_chars, supplementary FROM ledger_requests',
  )
  expect([...(row?.prompt ?? '')]).toHaveLength(500)
  expect(row?.prompt_chars).toBe(600)
  expect(JSON.parse(row?.supplementary ?? '')).toEqual(['redis-core', 'perf', 'redis-core'])
  await ledger.call('session_finalize', { session_id: 'S' })
  expect(await markdownOf(ledger, 'S')).toContain('**Supplementary Skills:** redis-core, perf\n')
})

test('C16 numbers out of range are refused before anything is stored', async () => {
  const ledger = await openTestLedger()
  for (const params of [
    { complexity: 26 },
    { context_pct: 101 },
    { complexity: -1 },
    { complexity: 2.5 },
    { rules_count: -1 },
  ])
    await expect(ledger.call('session_accumulate', { session_id: 'S', ...params })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
  expect(ledger.count('ledger_sessions')).toBe(0)
})

test('C17 ids that are paths are refused by every tool that takes one, and nothing is stored', async () => {
  const ledger = await openTestLedger()
  for (const id of ['../../../escape', '/abs/x', 'a\\b', 'C:', '..', 'nul\0l', 'x'.repeat(201), 'a\nb', '']) {
    const answers = [
      await ledger.call('session_accumulate', { session_id: id }),
      await ledger.call('session_finalize', { session_id: id }),
      await ledger.call('session_save', { session_id: id, data_type: 'summary', content: 'x' }),
      await ledger.call('session_link', { child_id: id, parent_id: 'p' }),
      await ledger.call('session_link', { child_id: 'c', parent_id: id }),
      await ledger.call('session_tag', { session_id: id, tags: 'a' }),
      await ledger.call('session_untag', { session_id: id, tags: 'a' }),
      await ledger.call('session_add_work_item', { session_id: id, description: 'd' }),
      await ledger.call('session_complete_work_item', { session_id: id, work_id: 'w' }),
      await ledger.call('session_get_work_items', { session_id: id }),
      await ledger.call('session_get_context', { session_id: id }),
      await ledger.call('session_unarchive', { session_id: id }),
      await ledger.call('session_show', { session_id: id }),
    ]
    for (const answer of answers) expect(answer, JSON.stringify(id)).toMatchObject({ success: false })
    if (id !== '')
      for (const answer of answers) expect(answer.error_type, JSON.stringify(id)).toBe('ValueError')
  }
  for (const table of ['ledger_sessions', 'ledger_artifacts', 'ledger_docs', 'ledger_tags'])
    expect(ledger.count(table)).toBe(0)
})

test('C19 the context history keeps its order, the peak is the highest', async () => {
  const ledger = await openTestLedger()
  const peaks: Array<number | undefined> = []
  for (const context_pct of [10, 5, 7])
    peaks.push((await ledger.call('session_accumulate', { session_id: 'S', context_pct })).peak_context)
  expect(peaks).toEqual([10, 10, 10])
  const history = ledger.store.all<{ context_pct: number }>(
    'SELECT context_pct FROM ledger_requests ORDER BY n',
  )
  expect(history.map((row) => row.context_pct)).toEqual([10, 5, 7])
})

test('C20 a session that nobody made is registered by its first request', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'never-made', skill: 'x' })
  const context = await ledger.call('session_get_context', { session_id: 'never-made' })
  expect(context).toMatchObject({ success: true, current: { project: 'default' }, chain_depth: 0 })
  const { sessions } = await ledger.call('session_list', {})
  expect(sessions).toEqual([
    expect.objectContaining({ session_id: 'never-made', synthetic: true, requests: 1 }),
  ])
})

test('C22 finalizing what is not there says so and makes nothing', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_finalize', { session_id: 'none' })).toEqual({
    success: false,
    error: 'No accumulated data for none',
  })
  expect(await ledger.call('session_finalize', { session_id: '' })).toEqual({
    success: false,
    error: 'session_id is required',
  })
  expect(ledger.count('ledger_sessions')).toBe(0)
})

test('C23 averages are rounded half to even on the binary value', async () => {
  const ledger = await openTestLedger()
  for (const complexity of [3, 3, 3, 0])
    await ledger.call('session_accumulate', { session_id: 'S', complexity })
  await ledger.call('session_finalize', { session_id: 'S' })
  expect(await markdownOf(ledger, 'S')).toContain('**Complexity:** avg 2.2, max 3\n')
  expect([2.25, 2.35, 0.25, 0.75, 66.65, 83.333].map(roundHalfEven)).toEqual([2.2, 2.4, 0.2, 0.8, 66.7, 83.3])
})

test('C25 hours are not bounded', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S' })
  ledger.pass(49 * 3600 + 2 * 60 + 3)
  await ledger.call('session_accumulate', { session_id: 'S' })
  expect(await ledger.call('session_finalize', { session_id: 'S' })).toMatchObject({
    duration: '49h 2m 3s',
    requests: 2,
    source_warnings: [],
  })
})

test('C26 a clock that went back gives 0s and a warning', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S' })
  ledger.pass(-5)
  await ledger.call('session_accumulate', { session_id: 'S' })
  const final = await ledger.call('session_finalize', { session_id: 'S' })
  expect(final.duration).toBe('0s')
  expect(final.source_warnings).toEqual([expect.stringContaining('0s')])
})

test('C28 tools of a tracker are counted, and the files of those that write', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S' })
  leave(ledger, 'S', {
    'tool-tracker.jsonl': lines(
      { tool: 'Write', file: 'a', status: 'success' },
      { tool: 'Edit', file: 'a' },
      { tool: 'Edit', file: 'z' },
      { tool: 'NotebookEdit', file: 'n' },
      { tool: 'Read', file: 'r' },
      { tool: 'Bash', command: 'ls' },
    ),
  })
  const final = await ledger.call('session_finalize', { session_id: 'S' })
  // The reference leaves the notebook out.
  expect(final).toMatchObject({ tools: 6, files_modified: 3, source_warnings: [] })
  const text = await markdownOf(ledger, 'S')
  expect(text).toContain('| Tool Calls | 6 (success rate: 100.0%) |')
  expect(text).toContain('| Files Read | 1 |')
  expect(text).toContain('## Files Modified\n\n- a\n- n\n- z\n')
})

test('C29 a tool that failed is an error, by status as by an error member', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S' })
  leave(ledger, 'S', {
    'tool-tracker.jsonl': lines({ tool: 'Edit', status: 'error' }, ...Array(4).fill({ tool: 'Bash' }), {
      tool: 'Bash',
      status: 'success',
    }),
  })
  await ledger.call('session_finalize', { session_id: 'S' })
  expect(await markdownOf(ledger, 'S')).toContain('| Tool Calls | 6 (success rate: 83.3%) |')
})

test('C31 lines that cannot be read are one warning with their number; the others count', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S' })
  leave(ledger, 'S', {
    'tool-tracker.jsonl': lines({ tool: 'Bash' }, '{"tool": "Ba', '[1]', 'oops', { tool: 'Read', file: 'r' }),
  })
  const final = await ledger.call('session_finalize', { session_id: 'S' })
  expect(final.tools).toBe(2)
  expect(final.source_warnings).toEqual([expect.stringMatching(/\b3 malformed/)])
})

test('C32 the last ten decisions are told, in order', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S' })
  const decisions = Array.from({ length: 12 }, (_, i) => ({ policy: `p${i + 1}`, decision: `d${i + 1}` }))
  leave(ledger, 'S', {
    'flow-trace.json': JSON.stringify({
      all_policies_executed: [
        { policy_name: 'a', duration_ms: 5 },
        { policy_name: 'b', duration_ms: 7 },
      ],
      decisions_timeline: decisions,
    }),
  })
  expect((await ledger.call('session_finalize', { session_id: 'S' })).policies).toBe(2)
  const text = await markdownOf(ledger, 'S')
  expect(text).toContain('| Policies Executed | 2 (12ms total) |')
  expect(text).toContain(
    `## Pipeline Decisions\n\n${decisions
      .slice(2)
      .map(({ policy, decision }) => `- **${policy}**: ${decision}`)
      .join('\n')}\n`,
  )
})

test('C34 a pipeline trace counts its steps, and of a list of traces the last counts', async () => {
  const ledger = await openTestLedger()
  const pipeline = [
    { name: 'one', decision: 'go' },
    { name: 'two', duration_ms: 3 },
  ]
  for (const [id, trace] of [
    ['S', { pipeline }],
    ['T', [{ pipeline: [] }, { pipeline }]],
  ] as const) {
    await ledger.call('session_accumulate', { session_id: id })
    leave(ledger, id, { 'flow-trace.json': JSON.stringify(trace) })
    expect(await ledger.call('session_finalize', { session_id: id })).toMatchObject({
      policies: 2,
      source_warnings: [],
    })
    expect(await markdownOf(ledger, id)).toContain('- **one**: go')
  }
})

test('C35 a trace that is cut off, or no UTF-8, is a warning', async () => {
  const ledger = await openTestLedger()
  for (const [id, content] of [
    ['S', '{"all_policies'],
    ['T', Buffer.from([0x22, 0xff, 0x22])],
  ] as const) {
    await ledger.call('session_accumulate', { session_id: id })
    leave(ledger, id, { 'flow-trace.json': content })
    const final = await ledger.call('session_finalize', { session_id: id })
    expect(final).toMatchObject({ success: true, policies: 0 })
    expect(final.source_warnings).toEqual([expect.stringContaining('flow-trace.json')])
  }
})

test('C37 a summary of people stands before the one that finalizing makes; both are kept', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S', skill: 'a', complexity: 4 })
  await ledger.call('session_tag', { session_id: 'S', tags: 'x', summary: 'mine' })
  await ledger.call('session_finalize', { session_id: 'S' })
  const row = ledger.store.get('SELECT user_summary, auto_summary FROM ledger_sessions')
  expect(row).toEqual({ user_summary: 'mine', auto_summary: '1 requests, a, complexity avg 4.0' })
  expect((await ledger.call('session_list', {})).sessions?.[0]?.summary).toBe('mine')
})

test('C38 a request after finalizing takes the session up again', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S', complexity: 2 })
  await ledger.call('session_finalize', { session_id: 'S' })
  const next = await ledger.call('session_accumulate', { session_id: 'S', complexity: 4 })
  expect(next.request_number).toBe(2)
  expect(ledger.store.get('SELECT status FROM ledger_sessions')).toEqual({ status: 'IN_PROGRESS' })
  expect(ledger.store.get('SELECT stale FROM ledger_totals')).toEqual({ stale: 1 })
  await ledger.call('session_finalize', { session_id: 'S' })
  expect(await markdownOf(ledger, 'S')).toContain('avg 3.0, max 4')
  expect(ledger.store.get('SELECT stale FROM ledger_totals')).toEqual({ stale: 0 })
})

test('C40 bars and line breaks are escaped in tables, and left raw in compat', async () => {
  for (const compat of [false, true]) {
    const ledger = await openTestLedger({ settings: { compat } })
    await ledger.call('session_accumulate', { session_id: 'S', skill: 'a|b', task_type: 'one\ntwo' })
    await ledger.call('session_finalize', { session_id: 'S' })
    const text = await markdownOf(ledger, 'S')
    expect(text).toContain(compat ? '| one\ntwo | a|b | 0 |' : '| one two | a\\|b | 0 |')
  }
})

test('finalizing twice changes nothing but the time it was generated at', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S', skill: 'a', complexity: 7 })
  const first = await ledger.call('session_finalize', { session_id: 'S' })
  const before = await markdownOf(ledger, 'S')
  ledger.pass(60)
  const second = await ledger.call('session_finalize', { session_id: 'S' })
  const after = await markdownOf(ledger, 'S')
  const { rev: _first, ...one } = first
  const { rev: _second, ...two } = second
  expect(two).toEqual(one)
  const body = (text: string) => text.slice(0, text.lastIndexOf('*Generated at'))
  expect(body(after)).toBe(body(before))
  expect(after).not.toBe(before)
})

test('the summary has the layout of the reference, line by line', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', {
    session_id: 'S',
    task_type: 'Fix',
    skill: 'py',
    complexity: 14,
    model: 'OPUS',
    context_pct: 22,
    plan_mode: true,
  })
  await ledger.call('session_finalize', { session_id: 'S' })
  expect((await markdownOf(ledger, 'S')).split('\n')).toEqual([
    '# Session Summary: S',
    '',
    '**Duration:** 0s | **Requests:** 1 | **Complexity:** avg 14.0, max 14',
    '',
    '## Overview',
    '',
    '| Metric | Value |',
    '|--------|-------|',
    '| Skills Used | py |',
    '| Task Types | Fix |',
    '| Models Used | OPUS |',
    '| Plan Mode | 1 times |',
    '| Peak Context | 22% |',
    '| Tool Calls | 0 (success rate: 100.0%) |',
    '| Files Modified | 0 |',
    '| Files Read | 0 |',
    '| Policies Executed | 0 (0ms total) |',
    '',
    '## Request Log',
    '',
    '| # | Time | Type | Skill | Complexity | Model |',
    '|---|------|------|-------|-----------|-------|',
    '| 1 | 2026-04-14T09:30:15 | Fix | py | 14 | OPUS |',
    '',
    '---',
    '*Generated at 2026-04-14T09:30:15*',
  ])
})

test('C98 of two changes that expect the same rev one succeeds, the other is told the present one', async () => {
  const ledger = await openTestLedger()
  const { rev } = await ledger.call('session_accumulate', { session_id: 'S' })
  const answers = await Promise.all([
    ledger.call('session_tag', { session_id: 'S', tags: 'a', expect_rev: rev }),
    ledger.call('session_tag', { session_id: 'S', tags: 'b', expect_rev: rev }),
  ])
  expect(answers[0]).toMatchObject({ success: true, tags: ['a'] })
  expect(answers[1]).toMatchObject({ success: false, error_type: 'CONFLICT', rev: answers[0]?.rev })
  expect((await ledger.call('session_list', {})).sessions?.[0]?.tags).toEqual(['a'])
})

test('an idempotency key counts a request once', async () => {
  const ledger = await openTestLedger()
  const params = { session_id: 'S', prompt: 'p', idempotency_key: 'one' }
  const first = await ledger.call('session_accumulate', params)
  const second = await ledger.call('session_accumulate', params)
  expect(second).toEqual(first)
  expect(ledger.count('ledger_requests')).toBe(1)
})
