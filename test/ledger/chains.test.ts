import { expect, test } from 'vitest'
import { openTestLedger } from './harness.ts'

test('C70 linking two unknown sessions makes both; the parent is a stub without a time', async () => {
  const ledger = await openTestLedger()
  const linked = await ledger.call('session_link', { child_id: 'C', parent_id: 'P' })
  expect(linked).toMatchObject({ success: true, child: 'C', parent: 'P', message: 'Linked C -> P' })
  const created = ledger.store.all<{ session_id: string; created_text: string }>(
    'SELECT session_id, created_text FROM ledger_sessions ORDER BY session_key',
  )
  expect(created).toEqual([
    { session_id: 'P', created_text: '' },
    { session_id: 'C', created_text: '2026-04-14T09:30:15.421083' },
  ])
})

test('C71 linking again changes nothing', async () => {
  const ledger = await openTestLedger()
  const first = await ledger.call('session_link', { child_id: 'C', parent_id: 'P' })
  expect(await ledger.call('session_link', { child_id: 'C', parent_id: 'P' })).toEqual(first)
  expect((await ledger.call('session_show', { session_id: 'P' })).children).toEqual(['C'])
})

test('a session that gets another parent is the child of that one alone', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_link', { child_id: 'C', parent_id: 'P' })
  await ledger.call('session_link', { child_id: 'C', parent_id: 'Q' })
  expect((await ledger.call('session_show', { session_id: 'P' })).children).toEqual([])
  expect((await ledger.call('session_show', { session_id: 'Q' })).children).toEqual(['C'])
})

test('C73 a session is not its own ancestor', async () => {
  const ledger = await openTestLedger()
  const refused = [await ledger.call('session_link', { child_id: 'X', parent_id: 'X' })]
  expect(ledger.count('ledger_sessions')).toBe(0)
  await ledger.call('session_link', { child_id: 'B', parent_id: 'A' })
  await ledger.call('session_link', { child_id: 'C', parent_id: 'B' })
  const before = ledger.store.all('SELECT * FROM ledger_sessions')
  refused.push(await ledger.call('session_link', { child_id: 'A', parent_id: 'B' }))
  refused.push(await ledger.call('session_link', { child_id: 'A', parent_id: 'C' }))
  for (const answer of refused) expect(answer).toMatchObject({ success: false, error_type: 'ValueError' })
  expect(ledger.store.all('SELECT * FROM ledger_sessions')).toEqual(before)
})

test('C74 the nearest ancestors are told, as many as asked for', async () => {
  const ledger = await openTestLedger()
  for (let i = 1; i < 8; i++) await ledger.call('session_link', { child_id: `s${i}`, parent_id: `s${i - 1}` })
  const context = await ledger.call('session_get_context', { session_id: 's7' })
  expect(context.ancestors?.map((ancestor) => ancestor.session_id)).toEqual(['s6', 's5', 's4', 's3', 's2'])
  expect(context.chain_depth).toBe(5)
  expect(await ledger.call('session_get_context', { session_id: 's7', max_ancestors: 0 })).toMatchObject({
    ancestors: [],
    chain_depth: 0,
  })
  await expect(
    ledger.call('session_get_context', { session_id: 's7', max_ancestors: 101 }),
  ).rejects.toMatchObject({ code: 'invalid_argument' })
})

test('C76 a parent without a record ends the chain', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_create', {})
  await ledger.store.write([
    { sql: "UPDATE ledger_sessions SET parent = 'gone', session_id = 's'", values: [] },
  ])
  expect(await ledger.call('session_get_context', { session_id: 's' })).toMatchObject({
    ancestors: [],
    chain_depth: 0,
  })
})

test('C77 the context of a session that is not known is empty', async () => {
  const ledger = await openTestLedger()
  const context = await ledger.call('session_get_context', { session_id: 'nope' })
  expect(context).toEqual({
    success: true,
    session_id: 'nope',
    ancestors: [],
    related: [],
    message: expect.stringContaining('nope'),
  })
})

test('C79 sessions that share two tags are related both ways, each time they are asked for', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: 'docker,react,x' })
  const tagged = await ledger.call('session_tag', { session_id: 'B', tags: 'docker, React' })
  expect(tagged).toMatchObject({ tags: ['React', 'docker'], auto_related: ['A'] })
  expect((await ledger.call('session_tag', { session_id: 'B', tags: 'docker' })).auto_related).toEqual(['A'])
  for (const [id, other] of [
    ['A', 'B'],
    ['B', 'A'],
  ] as const) {
    const { related } = await ledger.call('session_get_context', { session_id: id })
    expect(
      related?.map((session) => [session.session_id, session.shared_tags.map((tag) => tag.toLowerCase())]),
    ).toEqual([[other, expect.arrayContaining(['docker', 'react'])]])
  }
})

test('C80 no tags change no tags', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: 'docker,react' })
  await ledger.call('session_tag', { session_id: 'B', tags: 'docker,react' })
  expect(await ledger.call('session_tag', { session_id: 'B', tags: '' })).toMatchObject({
    success: true,
    tags: ['docker', 'react'],
    auto_related: ['A'],
  })
})

test('C82 as many related sessions as asked for, rare tags before common ones, then the same project and the newest', async () => {
  const ledger = await openTestLedger()
  for (let i = 0; i < 7; i++) {
    await ledger.call('session_tag', { session_id: `common${i}`, tags: 'a,b' })
    ledger.pass(1)
  }
  await ledger.call('session_tag', { session_id: 'rare', tags: 'a,seldom' })
  await ledger.call('session_tag', { session_id: 'me', tags: 'a,b,seldom' })
  const { related } = await ledger.call('session_get_context', { session_id: 'me', max_related: 5 })
  expect(related?.map((session) => session.session_id)).toEqual([
    'rare',
    'common6',
    'common5',
    'common4',
    'common3',
  ])
})

test('C83 sessions with more of the tags come first', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'both', tags: 'docker,react,z' })
  ledger.pass(1)
  await ledger.call('session_tag', { session_id: 'one', tags: 'react', summary: 'told' })
  const found = await ledger.call('session_search_tags', { tags: 'docker,react' })
  expect(found).toMatchObject({
    success: true,
    count: 2,
    total_matched: 2,
    truncated: false,
    searched_tags: ['docker', 'react'],
    results: [
      { session_id: 'both', matched_tags: ['docker', 'react'], all_tags: ['docker', 'react', 'z'] },
      {
        session_id: 'one',
        matched_tags: ['react'],
        all_tags: ['react'],
        summary: 'told',
        project: 'default',
      },
    ],
  })
  expect(await ledger.call('session_search_tags', { tags: 'docker,react', limit: 1 })).toMatchObject({
    count: 1,
    total_matched: 2,
    truncated: true,
  })
})

test('C85 a search for nothing finds nothing', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_search_tags', { tags: ' , ' })).toMatchObject({
    success: true,
    count: 0,
    searched_tags: [],
  })
})

test('C86 tags are found in any case', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: 'docker' })
  expect((await ledger.call('session_search_tags', { tags: 'Docker' })).count).toBe(1)
})

test('tags can be taken away again', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: 'Docker,react' })
  expect(await ledger.call('session_untag', { session_id: 'A', tags: 'docker,none' })).toMatchObject({
    tags: ['react'],
    removed: ['Docker'],
  })
  expect((await ledger.call('session_search_tags', { tags: 'docker' })).count).toBe(0)
  expect(await ledger.call('session_untag', { session_id: 'nobody', tags: 'a' })).toMatchObject({
    success: false,
    error: 'Session not found: nobody',
  })
})

test('tags that are too long or hold control characters are refused', async () => {
  const ledger = await openTestLedger()
  for (const tags of ['ok,a\0b', 'x'.repeat(201), 'line\nbreak'])
    expect(await ledger.call('session_tag', { session_id: 'A', tags })).toMatchObject({
      success: false,
      error_type: 'ValueError',
    })
  expect([ledger.count('ledger_sessions'), ledger.count('ledger_tags')]).toEqual([0, 0])
})

test('C88 a work item has an id by its type and is in progress', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: '' })
  const added = await ledger.call('session_add_work_item', {
    session_id: 'A',
    description: 'd',
    work_type: 'BUG',
    metadata: '{"pr":7}',
  })
  expect(added).toMatchObject({
    success: true,
    session_id: 'A',
    description: 'd',
    status: 'IN_PROGRESS',
    work_id: expect.stringMatching(/^BUG-20260414-093015-[A-Z0-9]{4}$/),
  })
  const { work_items } = await ledger.call('session_get_work_items', { session_id: 'A' })
  expect(work_items).toEqual([
    {
      work_id: added.work_id,
      type: 'BUG',
      description: 'd',
      started_at: '2026-04-14T09:30:15.421083',
      completed_at: null,
      status: 'IN_PROGRESS',
      metadata: { pr: 7 },
    },
  ])
  expect((await ledger.call('session_get_context', { session_id: 'A' })).work_items).toEqual([
    expect.objectContaining({ work_id: added.work_id, session_id: 'A' }),
  ])
})

test('C89 metadata that is no JSON is empty; any JSON is kept', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: '' })
  for (const metadata of ['{bad', '[1, NaN]', '"é"'])
    expect(
      (await ledger.call('session_add_work_item', { session_id: 'A', description: 'd', metadata })).success,
    ).toBe(true)
  const { work_items } = await ledger.call('session_get_work_items', { session_id: 'A' })
  expect(work_items?.map((item) => item.metadata)).toEqual([{}, [1, 'NaN'], 'é'])
})

test('C91 a work item ends as COMPLETED, FAILED or SKIPPED', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: '' })
  const { work_id = '' } = await ledger.call('session_add_work_item', { session_id: 'A', description: 'd' })
  for (const status of ['WHATEVER', 'IN_PROGRESS', 'completed', ''])
    expect(
      await ledger.call('session_complete_work_item', { session_id: 'A', work_id, status }),
    ).toMatchObject({ success: false, error_type: 'ValueError' })
  expect(
    (await ledger.call('session_get_work_items', { session_id: 'A', status: 'IN_PROGRESS' })).count,
  ).toBe(1)
})

test('C92 the first end of a work item stays', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 'A', tags: '' })
  const { work_id = '' } = await ledger.call('session_add_work_item', { session_id: 'A', description: 'd' })
  const first = await ledger.call('session_complete_work_item', { session_id: 'A', work_id })
  ledger.pass(60)
  expect(await ledger.call('session_complete_work_item', { session_id: 'A', work_id })).toEqual(first)
  expect(
    await ledger.call('session_complete_work_item', { session_id: 'A', work_id, status: 'FAILED' }),
  ).toMatchObject({ success: false, error_type: 'CONFLICT' })
  const { work_items } = await ledger.call('session_get_work_items', { session_id: 'A' })
  expect(work_items?.[0]).toMatchObject({ status: 'COMPLETED', completed_at: first.completed_at })
})

test('work items of a session or an id that is not there are failures', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_add_work_item', { session_id: 'none', description: 'd' })).toEqual({
    success: false,
    error: 'Session not found: none',
  })
  expect(await ledger.call('session_complete_work_item', { session_id: 'none', work_id: 'w' })).toEqual({
    success: false,
    error: 'Session not found: none',
  })
  await ledger.call('session_tag', { session_id: 'A', tags: '' })
  expect(await ledger.call('session_complete_work_item', { session_id: 'A', work_id: 'w' })).toEqual({
    success: false,
    error: 'Work item not found: w',
  })
  expect(ledger.count('ledger_sessions')).toBe(1)
})
