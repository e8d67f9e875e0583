import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { withClaim } from '../../daemon/ledger/tree/claim.ts'
import { openTestLedger, type TestLedger } from './harness.ts'
import { brokenFiles, goodFiles, ids, MTIME, readFolder, timesOf, writeTree } from './tree-fixture.ts'

/** Every row of an import, without what counts changes and without where files lay. */
function rows(ledger: TestLedger): Record<string, unknown[]> {
  const leaveOut = new Set(['rev', 'imported_rev', 'generation', 'set_us', 'archived_us'])
  const tables = ledger.store.all<{ name: string }>(
    `SELECT name FROM pragma_table_list WHERE type = 'table' AND name LIKE 'ledger%' AND schema = 'main'
       AND name NOT IN ('ledger_imports', 'ledger_tags')`,
  )
  const keyToId = new Map(
    ledger.store
      .all<{ session_key: number; session_id: string }>('SELECT session_key, session_id FROM ledger_sessions')
      .map((row) => [row.session_key, row.session_id]),
  )
  const tagNames = new Map(
    ledger.store
      .all<{ tag_key: number; folded: string }>('SELECT tag_key, folded FROM ledger_tags')
      .map((row) => [row.tag_key, row.folded]),
  )
  return Object.fromEntries(
    tables.map(({ name }) => [
      name,
      ledger.store
        .all<Record<string, unknown>>(`SELECT * FROM ${name}`)
        .map((row) =>
          JSON.stringify(
            Object.entries(row)
              .filter(([column]) => !leaveOut.has(column))
              .map(([column, value]) => {
                if (column === 'session_key') return [column, keyToId.get(value as number)]
                if (column === 'tag_key') return [column, tagNames.get(value as number)]
                if (column === 'doc_key')
                  return [
                    column,
                    keyToId.get(Math.floor((value as number) / 1_048_576)),
                    (value as number) % 1_048_576,
                  ]
                if (['artifact_key', 'work_key'].includes(column)) return [column]
                return [column, value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value]
              }),
          ),
        )
        .sort(),
    ]),
  )
}

test('C100 a tree is imported, and importing it again changes nothing', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, { ...goodFiles, ...brokenFiles })
  const before = readFolder(ledger.tree)
  const first = await ledger.call('session_import', {})
  expect(first.roots).toEqual([ledger.tree])
  const stored = rows(ledger)
  const second = await ledger.call('session_import', {})
  expect(second).toMatchObject({ imported: 0, updated: 0, unchanged: first.imported })
  expect(rows(ledger)).toEqual(stored)
  // Also when the files were touched, and so are read again.
  utimesSync(join(ledger.tree, '.chain-index.json'), 1, 1)
  await ledger.store.write([{ sql: "UPDATE ledger_imports SET sha256 = 'other'", values: [] }])
  expect(await ledger.call('session_import', {})).toMatchObject({ imported: 0, updated: 0 })
  expect(rows(ledger)).toEqual(stored)
  expect(readFolder(ledger.tree)).toEqual(before)
})

test('every session of a tree is in the list, however it was made', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, { ...goodFiles, ...brokenFiles })
  await ledger.call('session_import', {})
  const { sessions } = await ledger.call('session_list', { limit: 500, include_archived: true })
  expect(sessions?.map((session) => session.session_id).sort()).toEqual(
    [
      ids.A,
      ids.B,
      ids.hookEra,
      ids.stub,
      'seeded',
      'my-session-1',
      'old-one',
      'torn',
      'empty',
      'list',
    ].sort(),
  )
  expect(sessions?.find((session) => session.session_id === 'old-one')?.archived).toBe(true)
})

test('what a tree says is found by the tools', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, { ...goodFiles, ...brokenFiles })
  const report = await ledger.call('session_import', {})
  const context = await ledger.call('session_get_context', { session_id: ids.B })
  expect(context).toMatchObject({
    current: { project: 'shop', tags: ['late', 'redis'] },
    ancestors: [
      { session_id: ids.A, tags: ['React', 'redis'] },
      { session_id: ids.stub, created_at: '' },
    ],
  })
  // Written down in one direction, told in both.
  expect(context.related).toEqual([])
  expect(
    (await ledger.call('session_get_context', { session_id: ids.B, max_ancestors: 0 })).related?.[0]
      ?.session_id,
  ).toBe(ids.A)
  const items = await ledger.call('session_get_work_items', { session_id: ids.A })
  expect(items.work_items).toEqual([
    expect.objectContaining({ status: 'PAUSED', metadata: { score: 'NaN', limit: '-Infinity' } }),
  ])
  const find = async (keyword: string) =>
    (
      await ledger.call('session_query', { filters: JSON.stringify({ keyword }), include_archived: true })
    ).results?.map((session) => session.session_id)
  expect(await find('kumquat')).toEqual([ids.hookEra])
  expect(await find('quince')).toEqual(['my-session-1'])
  expect(await find('medlar')).toEqual(['old-one'])
  expect(await find('from the backup')).toEqual(['torn'])
  const summary = await ledger.call('session_load', { session_id: ids.A, data_type: 'summary' })
  expect(summary.data).toBe('# Session Summary: its own text\n')
  expect(
    (await ledger.call('session_load', { data_type: 'context', session_id: ids.B, project: 'shop' })).data,
  ).toEqual({ open: ['a.ts'] })
  expect((await ledger.call('session_load', { project: 'shop' })).data).toEqual({ step: 3, rate: 'NaN' })
  expect((await ledger.call('session_load', { project: 'list' })).data).toEqual([1, 2])
  expect(report.warnings).toEqual(
    expect.arrayContaining([
      expect.stringContaining('not-mine'),
      expect.stringContaining('requests come to 1'),
    ]),
  )
})

test('C53 C41 a file that cannot be read is quarantined, and its backup is used where there is one', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, { ...goodFiles, ...brokenFiles })
  const report = await ledger.call('session_import', {})
  expect(report.quarantined.map(({ file }) => file.slice(ledger.tree.length + 1)).sort()).toEqual(
    [
      '.state/broken.json',
      '.state/saved.json',
      'logs/sessions/list/session-summary.json',
      'logs/sessions/torn/session-summary.json',
      `logs/sessions/${ids.B}/flow-trace.json`,
      'sessions/shop/context-bytes.json',
    ].sort(),
  )
  for (const { reason } of report.quarantined) expect(reason).not.toBe('')
  expect(readdirSync(join(ledger.folder, 'quarantine')).length).toBe(report.quarantined.length)
  expect(await ledger.call('session_load', { project: 'saved' })).toMatchObject({
    success: true,
    data: { from: 'backup' },
    recovered: true,
    warning: expect.stringContaining('saved.json'),
  })
  // Never made up: what cannot be read is not there.
  expect(await ledger.call('session_load', { project: 'broken' })).toMatchObject({
    data: {},
    message: expect.any(String),
  })
  expect(await ledger.call('session_accumulate', { session_id: 'torn' })).toMatchObject({ request_number: 2 })
})

test('C101 a cut-off index is quarantined, and sessions are made of their folders', async () => {
  const ledger = await openTestLedger()
  const index = String(goodFiles['.chain-index.json']?.content)
  writeTree(ledger.tree, { ...goodFiles, '.chain-index.json': { content: index.slice(0, index.length / 2) } })
  const report = await ledger.call('session_import', {})
  expect(report.quarantined).toEqual([
    { file: join(ledger.tree, '.chain-index.json'), reason: expect.stringContaining('JSON') },
  ])
  const shown = await ledger.call('session_show', { session_id: ids.A })
  expect(shown).toMatchObject({ success: true, session: { requests: 2, synthetic: true } })
})

test('an exported tree is the imported one, and imports again to the same rows', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, goodFiles)
  await ledger.call('session_import', {})
  const stored = rows(ledger)
  const out = join(ledger.folder, 'out')
  rmSync(out, { recursive: true, force: true })
  const exported = await ledger.call('session_export', { dir: out })
  expect(exported.sessions).toBe(ledger.count('ledger_sessions'))
  const files = readFolder(out)
  // What the reference wrote is written again, byte for byte.
  for (const path of [
    `logs/sessions/${ids.A}/session-summary.json`,
    `logs/sessions/${ids.A}/session-summary.md`,
    `logs/sessions/${ids.A}/flow-trace.json`,
    'sessions/shop/session-my-session-1.md',
    `sessions/shop/context-${ids.B}.json`,
    'sessions/_archived/shop/session-old-one.md',
    '.state/shop.json',
  ])
    expect([path, files[path]]).toEqual([path, readFolder(ledger.tree)[path]])
  expect(files['.chain-index.json']).toContain('"last_prompt": "Half a pair \\ud83d and \\u00e9"')
  expect(files['.chain-index.json']).toContain('"score": NaN')
  expect(files['.chain-index.json']).toMatch(/^[\x20-\x7e\n]*[^\n]$/)
  const index = JSON.parse(files['.chain-index.json']?.replace(/NaN|-Infinity/g, '0') ?? '')
  expect(Object.keys(index)).toEqual(['version', 'sessions', 'tag_index'])
  expect(Object.keys(index.sessions[ids.A])).toEqual([
    'parent',
    'children',
    'related',
    'tags',
    'project',
    'skill',
    'task_type',
    'summary',
    'created_at',
    'last_prompt',
    'work_items',
  ])
  expect(index.sessions[ids.A].children).toEqual([ids.B])
  expect(index.sessions[ids.B]).toMatchObject({
    skill: null,
    related: [ids.A],
    unknown_member: { kept: true },
  })
  expect(index.tag_index).toMatchObject({ redis: [ids.A, ids.B], React: [ids.A], late: [ids.B] })
  expect(timesOf(out, ['sessions/shop/session-my-session-1.md'])).toEqual([Math.round(MTIME * 1000)])

  const other = await openTestLedger()
  const again = await other.call('session_import', { root: out })
  expect(again).toMatchObject({ quarantined: [], updated: 0, unchanged: 0 })
  const compared = rows(other)
  for (const [table, wanted] of Object.entries(stored))
    expect([table, compared[table]]).toEqual([table, wanted])
})

test('a session of our own is exported as the reference writes it', async () => {
  const ledger = await openTestLedger()
  const { session_id = '' } = await ledger.call('session_create', {
    project: 'p',
    prompt: 'Use redis 😀',
    skill: 's',
  })
  await ledger.call('session_accumulate', {
    session_id,
    prompt: 'Use redis 😀',
    skill: 's',
    complexity: 4,
    model: 'M',
  })
  await ledger.call('session_finalize', { session_id })
  const out = join(ledger.folder, 'out')
  rmSync(out, { recursive: true, force: true })
  await ledger.call('session_export', { dir: out })
  const summary = readFileSync(join(out, 'logs', 'sessions', session_id, 'session-summary.json'), 'utf8')
  expect(Object.keys(JSON.parse(summary))).toEqual([
    'session_id',
    'created_at',
    'requests',
    'request_count',
    'skills_used',
    'task_types',
    'models_used',
    'all_supplementary_skills',
    'plan_mode_count',
    'context_history',
    'peak_context_pct',
    'total_complexity',
    'max_complexity',
    'status',
    'last_updated',
    'duration_human',
    'duration_seconds',
    'avg_complexity',
    'files_modified',
    'files_read',
    'total_tool_calls',
    'error_count',
    'success_rate_pct',
    'source_warnings',
  ])
  expect(summary).toContain('"avg_complexity": 4.0,')
  expect(summary).toContain('"success_rate_pct": 100.0,')
  expect(summary).toContain('"prompt": "Use redis \\ud83d\\ude00"')
  expect(summary).toContain('"decision_rationale": "Complexity 4 -> Model M, Skill s"')
  expect(JSON.parse(readFileSync(join(out, '.current-session.json'), 'utf8'))).toEqual({
    current_session_id: session_id,
    project: 'p',
    created_at: '2026-04-14T09:30:15.421083',
  })
})

test('ids and projects that are no file names everywhere are encoded, and read back', async () => {
  const ledger = await openTestLedger()
  const odd = ['CON', 'a%2Fb', 'what?*', 'trailing.', '-rf', 'session-x', 'ünï']
  for (const id of odd)
    await ledger.call('session_save', { session_id: id, data_type: 'summary', content: id, project: 'aux' })
  const out = join(ledger.folder, 'out')
  rmSync(out, { recursive: true, force: true })
  await ledger.call('session_export', { dir: out })
  const other = await openTestLedger()
  await other.call('session_import', { root: out })
  const { sessions } = await other.call('session_list', { project: 'aux' })
  expect(sessions?.map((session) => session.session_id).sort()).toEqual([...odd].sort())
})

test('what was changed here is not undone by importing an older tree again', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, goodFiles)
  await ledger.call('session_import', {})
  await ledger.call('session_tag', { session_id: ids.A, tags: 'ours', summary: 'our words' })
  await ledger.call('session_accumulate', { session_id: ids.A, prompt: 'third' })
  await ledger.store.write([{ sql: "UPDATE ledger_imports SET sha256 = 'other'", values: [] }])
  await ledger.call('session_import', {})
  const shown = await ledger.call('session_show', { session_id: ids.A })
  expect(shown.session).toMatchObject({ requests: 3, summary: 'our words', tags: ['React', 'ours', 'redis'] })
})

test('an export refuses a folder that is not empty, a file, and a relative path', async () => {
  const ledger = await openTestLedger()
  writeTree(ledger.tree, goodFiles)
  await expect(ledger.call('session_export', { dir: ledger.tree })).rejects.toMatchObject({
    code: 'conflict',
  })
  await expect(
    ledger.call('session_export', { dir: join(ledger.tree, '.chain-index.json') }),
  ).rejects.toMatchObject({ code: 'invalid_argument' })
  await expect(ledger.call('session_export', { dir: 'here' })).rejects.toMatchObject({
    code: 'invalid_argument',
  })
  await expect(ledger.call('session_import', { root: join(ledger.folder, 'nothing') })).rejects.toMatchObject(
    { code: 'not_found' },
  )
})

test('an export that is merged keeps the records and tags of others', async () => {
  const ledger = await openTestLedger()
  const { session_id = '' } = await ledger.call('session_create', { prompt: 'redis' })
  writeTree(ledger.tree, goodFiles)
  await ledger.call('session_export', { dir: ledger.tree, merge: true })
  const index = JSON.parse(
    readFileSync(join(ledger.tree, '.chain-index.json'), 'utf8').replace(/NaN|-Infinity/g, '0'),
  )
  expect(Object.keys(index.sessions)).toEqual([ids.stub, ids.A, ids.B, session_id])
  expect(index.tag_index.redis).toEqual([ids.A, ids.B, session_id])
  writeFileSync(join(ledger.tree, '.chain-index.json'), 'torn')
  await expect(ledger.call('session_export', { dir: ledger.tree, merge: true })).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(readFileSync(join(ledger.tree, '.chain-index.json'), 'utf8')).toBe('torn')
})

test('C103 a fresh claim of another writer is waited for, then told; the file is never replaced without it', async () => {
  const ledger = await openTestLedger()
  const file = join(ledger.folder, 'claimed.json')
  mkdirSync(ledger.folder, { recursive: true })
  writeFileSync(file, 'theirs')
  writeFileSync(`${file}.caslock`, '')
  expect(() => withClaim(file, 50, () => writeFileSync(file, 'ours'))).toThrow(/another program holds/)
  expect([readFileSync(file, 'utf8'), existsSync(`${file}.caslock`)]).toEqual(['theirs', true])
  // One that is older than half a minute is of a writer that died.
  utimesSync(`${file}.caslock`, Date.now() / 1000 - 60, Date.now() / 1000 - 60)
  withClaim(file, 50, () => writeFileSync(file, 'ours'))
  expect([readFileSync(file, 'utf8'), existsSync(`${file}.caslock`)]).toEqual(['ours', false])
})
