import { expect, test } from 'vitest'
import { openTestLedger } from './harness.ts'

const day = 86_400

test('C43 a summary is kept with its size in bytes', async () => {
  const ledger = await openTestLedger()
  const saved = await ledger.call('session_save', {
    session_id: '2026-03-15-14-30',
    data_type: 'summary',
    content: '# hé',
    project: 'p',
  })
  expect(saved).toMatchObject({
    success: true,
    size_bytes: 5,
    data_type: 'summary',
    session_id: '2026-03-15-14-30',
  })
  expect(saved.file).toMatch(/sessions\/p\/session-2026-03-15-14-30\.md$/)
  const loaded = await ledger.call('session_load', {
    session_id: '2026-03-15-14-30',
    data_type: 'summary',
    project: 'p',
  })
  expect(loaded).toMatchObject({ success: true, data: '# hé' })
})

test('C44 a state is kept for its project', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_save', { session_id: 'x', data_type: 'state', content: '{"a":1}', project: 'p' })
  expect(await ledger.call('session_load', { project: 'p' })).toMatchObject({ success: true, data: { a: 1 } })
})

test('C46 a state may be any JSON and comes back as it is', async () => {
  const ledger = await openTestLedger()
  for (const [content, data] of [
    ['[1,2]', [1, 2]],
    ['"text"', 'text'],
    ['7', 7],
    ['null', null],
  ] as const) {
    await ledger.call('session_save', { session_id: 'x', data_type: 'state', content })
    const loaded = await ledger.call('session_load', {})
    expect(loaded.data).toEqual(data)
    expect(loaded).not.toHaveProperty('recovered')
  }
  await ledger.call('session_save', { session_id: 'x', data_type: 'state', content: 'not json' })
  expect((await ledger.call('session_load', {})).data).toMatchObject({ content: 'not json' })
})

test('C47 a context that is no JSON is refused', async () => {
  const ledger = await openTestLedger()
  const refused = await ledger.call('session_save', {
    session_id: 'x',
    data_type: 'context',
    content: 'not json',
  })
  expect(refused).toMatchObject({ success: false, error_type: 'ValueError' })
  expect(refused.error).toContain('Invalid JSON')
  expect([ledger.count('ledger_artifacts'), ledger.count('ledger_sessions')]).toEqual([0, 0])
})

test('C49 names that are paths are refused and nothing is kept', async () => {
  const ledger = await openTestLedger()
  for (const project of ['../x', 'a/b', 'a\\b', 'C:', '', '..', 'a\0b'])
    for (const data_type of ['state', 'summary', 'context']) {
      const refused = await ledger.call('session_save', {
        session_id: 's',
        data_type,
        content: '{}',
        project,
      })
      expect(refused, project).toMatchObject({ success: false, error_type: 'ValueError' })
    }
  // The id is checked also where it is not used.
  expect(
    await ledger.call('session_save', { session_id: '../s', data_type: 'state', content: '{}' }),
  ).toMatchObject({ success: false })
  expect(ledger.count('ledger_artifacts')).toBe(0)
})

test('an unknown data_type is told by name', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_save', { session_id: 's', data_type: 'poem', content: '' })).toEqual({
    success: false,
    error: 'Unknown data_type: poem',
  })
  expect(await ledger.call('session_load', { session_id: 's', data_type: 'poem' })).toEqual({
    success: false,
    error: 'Unknown data_type: poem',
  })
})

test('C50 a project without a state has an empty one', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_load', { project: 'unknown' })).toMatchObject({
    success: true,
    data: {},
    message: expect.any(String),
  })
  expect(await ledger.call('session_load', { data_type: 'summary', project: 'unknown' })).toMatchObject({
    success: true,
    data: '',
    message: expect.any(String),
  })
})

test('C52 what is not there is told in three ways', async () => {
  const ledger = await openTestLedger()
  const errors = [
    await ledger.call('session_load', { session_id: 'x', data_type: 'summary' }),
    await ledger.call('session_load', { session_id: '', data_type: 'context' }),
    await ledger.call('session_load', { session_id: 'x', data_type: 'context' }),
  ].map((answer) => [answer.success, answer.error])
  expect(errors).toEqual([
    [false, 'Session not found: x'],
    [false, expect.stringContaining('required')],
    [false, 'Context not found: x'],
  ])
})

test('without an id the newest summary of the project is loaded, saved or finalized', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_save', { session_id: 'zz-old', data_type: 'summary', content: 'old' })
  ledger.pass(10)
  await ledger.call('session_save', { session_id: 'aa-new', data_type: 'summary', content: 'new' })
  expect(await ledger.call('session_load', { data_type: 'summary' })).toMatchObject({
    data: 'new',
    session_id: 'aa-new',
  })
  ledger.pass(10)
  const { session_id = '' } = await ledger.call('session_create', {})
  await ledger.call('session_accumulate', { session_id })
  await ledger.call('session_finalize', { session_id })
  const latest = await ledger.call('session_load', { data_type: 'summary' })
  expect(latest).toMatchObject({
    session_id,
    data: expect.stringContaining(`# Session Summary: ${session_id}`),
  })
})

test('C55 a limit out of range is refused', async () => {
  const ledger = await openTestLedger()
  for (const limit of [0, 501])
    await expect(ledger.call('session_list', { limit })).rejects.toMatchObject({ code: 'invalid_argument' })
})

test('C56 an id that begins as a file name does stays whole', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_save', {
    session_id: 'my-session-1',
    data_type: 'summary',
    content: 'x',
    project: 'p',
  })
  const { sessions } = await ledger.call('session_list', { project: 'p' })
  expect(sessions?.map((session) => session.session_id)).toEqual(['my-session-1'])
})

test('lists tell what there is beyond their limit', async () => {
  const ledger = await openTestLedger()
  for (let i = 0; i < 5; i++) {
    await ledger.call('session_create', { project: i < 3 ? 'a' : 'b' })
    ledger.pass(1)
  }
  expect(await ledger.call('session_list', { project: 'a', limit: 2 })).toMatchObject({
    count: 2,
    total_matched: 3,
    truncated: true,
  })
  expect(await ledger.call('session_list', {})).toMatchObject({
    count: 5,
    total_matched: 5,
    truncated: false,
  })
})

test('C58 filters that are not what they should be are failures', async () => {
  const ledger = await openTestLedger()
  const errors: unknown[] = []
  for (const filters of [
    'not json',
    '[]',
    '{"limit":0}',
    '{"limit":null}',
    '{"limit":10.5}',
    '{"keyword":5}',
    '{"project":"../x"}',
  ])
    errors.push(await ledger.call('session_query', { filters }))
  for (const answer of errors) expect(answer).toMatchObject({ success: false, error: expect.any(String) })
  expect(errors[0]).toMatchObject({ error: expect.stringContaining('Invalid JSON') })
  expect(await ledger.call('session_query', { filters: '{"limit":true}' })).toMatchObject({ success: true })
})

test('C59 a keyword is found in any case', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_save', {
    session_id: 'a',
    data_type: 'summary',
    content: 'Built MCP servers today',
  })
  await ledger.call('session_save', { session_id: 'b', data_type: 'summary', content: 'Nothing of it' })
  const found = await ledger.call('session_query', { filters: '{"keyword":"mcp"}' })
  expect(found.results).toEqual([
    expect.objectContaining({ session_id: 'a', snippet: expect.stringContaining('[MCP]') }),
  ])
})

test('a keyword of one or two characters, a part of a word and several words are found too', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_save', {
    session_id: 'a',
    data_type: 'summary',
    content: 'The mc%p reconnects to "quoted" things',
  })
  const count = async (keyword: string) =>
    (await ledger.call('session_query', { filters: JSON.stringify({ keyword }) })).total_matched
  for (const keyword of ['m', 'c%', 'econn', 'things reconnects', '"quoted"', 'to "quo'])
    expect([keyword, await count(keyword)]).toEqual([keyword, 1])
  for (const keyword of ['c_', 'zz', 'reconnects elsewhere'])
    expect([keyword, await count(keyword)]).toEqual([keyword, 0])
})

test('C61 a date that cannot be read is named', async () => {
  const ledger = await openTestLedger()
  const answer = await ledger.call('session_query', { filters: '{"date_from":"nope"}' })
  expect(answer).toMatchObject({ success: false, error: expect.stringContaining('date_from') })
})

test('C62 a date alone is the whole day, and offsets are understood', async () => {
  const ledger = await openTestLedger()
  ledger.now = new Date(2026, 2, 15, 10).getTime()
  await ledger.call('session_save', { session_id: 'a', data_type: 'summary', content: 'x' })
  const count = async (filters: object) =>
    (await ledger.call('session_query', { filters: JSON.stringify(filters) })).count
  expect(await count({ date_to: '2026-03-15' })).toBe(1)
  expect(await count({ date_to: '2026-03-14' })).toBe(0)
  expect(await count({ date_from: '20260315' })).toBe(1)
  expect(await count({ date_from: '2026-03-16' })).toBe(0)
  const utc = new Date(ledger.now).toISOString()
  expect(await count({ date_from: utc, date_to: utc.replace('Z', '+00:00') })).toBe(1)
})

test('C64 a filter that is not known is ignored and told back', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_query', { filters: '{"foo":[1]}' })).toMatchObject({
    success: true,
    filters: { foo: [1] },
  })
})

test('C65 what only finalizing knows is found', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_accumulate', { session_id: 'S', skill: 'zanzibar-skill', complexity: 3 })
  await ledger.call('session_finalize', { session_id: 'S' })
  expect((await ledger.call('session_query', { filters: '{"keyword":"complexity avg 3.0"}' })).count).toBe(1)
})

test('C67 archiving a ledger without sessions answers with four members', async () => {
  const ledger = await openTestLedger()
  expect(await ledger.call('session_archive', {})).toEqual({
    success: true,
    archived: [],
    count: 0,
    failed: [],
  })
})

test('C68 what was archived before a session was saved again is kept beside it', async () => {
  const ledger = await openTestLedger()
  const save = (content: string) =>
    ledger.call('session_save', { session_id: 's', data_type: 'summary', content, project: 'p' })
  await save('first')
  ledger.pass(40 * day)
  expect(await ledger.call('session_archive', { days_old: 30 })).toMatchObject({
    count: 1,
    failed_count: 0,
    archived: [{ project: 'p', age_days: 40, session_id: 's' }],
  })
  await save('second')
  ledger.pass(40 * day)
  expect(await ledger.call('session_archive', { days_old: 30 })).toMatchObject({ count: 1 })
  const bodies = ledger.store.all<{ body: Uint8Array }>(
    'SELECT body FROM ledger_artifact_history WHERE archived = 1',
  )
  expect(bodies.map((row) => Buffer.from(row.body).toString())).toEqual(['first'])
  const load = (include_archived: boolean) =>
    ledger.call('session_load', { session_id: 's', data_type: 'summary', project: 'p', include_archived })
  expect(await load(true)).toMatchObject({ data: 'second' })
  expect(await load(false)).toMatchObject({ success: false, error: 'Session not found: s' })
})

test('an archived session is left out of every listing until it is asked for, unarchived, or worked on', async () => {
  const ledger = await openTestLedger()
  await ledger.call('session_tag', { session_id: 's', tags: 'red,green' })
  ledger.pass(2 * day)
  await ledger.call('session_archive', { days_old: 1 })
  const seen = async (include_archived: boolean) => [
    (await ledger.call('session_list', { include_archived })).count,
    (await ledger.call('session_query', { filters: '{"keyword":"red"}', include_archived })).count,
    (await ledger.call('session_search_tags', { tags: 'red', include_archived })).count,
  ]
  expect(await seen(false)).toEqual([0, 0, 0])
  expect(await seen(true)).toEqual([1, 1, 1])
  await ledger.call('session_unarchive', { session_id: 's' })
  expect(await seen(false)).toEqual([1, 1, 1])
  ledger.pass(2 * day)
  await ledger.call('session_archive', { days_old: 1 })
  await ledger.call('session_accumulate', { session_id: 's' })
  expect(await seen(false)).toEqual([1, 1, 1])
})

test('retention archives and deletes as the settings say, with all that belongs to a session', async () => {
  const ledger = await openTestLedger({
    settings: { archive_after_days: 10, delete_archived_after_days: 20 },
  })
  await ledger.call('session_create', { prompt: 'redis' })
  await ledger.call('session_accumulate', { session_id: 's', prompt: 'kafka' })
  ledger.pass(11 * day)
  await ledger.ledger.forgetOld()
  expect([(await ledger.call('session_list', {})).count, ledger.count('ledger_sessions')]).toEqual([0, 2])
  ledger.pass(21 * day)
  await ledger.ledger.forgetOld()
  for (const table of [
    'ledger_sessions',
    'ledger_requests',
    'ledger_docs',
    'ledger_session_tags',
    'ledger_pointers',
  ])
    expect([table, ledger.count(table)]).toEqual([table, 0])
  expect(ledger.store.all('SELECT sessions FROM ledger_tags')).toEqual([{ sessions: 0 }])
})
