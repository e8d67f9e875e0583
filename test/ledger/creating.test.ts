import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import type { Call } from '../../daemon/ledger/call.ts'
import { create } from '../../daemon/ledger/procedures/create.ts'
import { tagsOf } from '../../daemon/ledger/tags.ts'
import { migrate } from '../../daemon/store/migrate.ts'
import { connectionTransaction } from '../../daemon/store/transaction.ts'
import { openTestLedger, T0 } from './harness.ts'

test('C01 a session gets its id from the time and its tags from how it begins', async () => {
  const ledger = await openTestLedger()
  const made = await ledger.call('session_create', {
    project: 'claude-workflow-engine',
    task_type: 'Implementation',
    skill: 'python-backend-engineer',
    prompt: 'Add Redis caching layer to the FastAPI service',
    project_cwd: '/Users/dev/repos/claude-workflow-engine',
  })
  expect(made).toEqual({
    success: true,
    session_id: expect.stringMatching(/^SESSION-20260414-093015-[A-Z0-9]{4}$/),
    project: 'claude-workflow-engine',
    tags: ['claude-workflow-engine', 'fastapi', 'implementation', 'python-backend-engineer', 'redis'],
    created_at: '2026-04-14T09:30:15.421083',
    rev: 1,
  })
})

test('C02 all defaults: project default, no tags, and it is the session under way', async () => {
  const ledger = await openTestLedger()
  const made = await ledger.call('session_create', {})
  expect(made).toMatchObject({ success: true, project: 'default', tags: [] })
  const recorded = await ledger.call('session_record', { cwd: '/x', tool: 'execute_cell' })
  expect(recorded.session_id).toBe(made.session_id)
  const { session, work_items, children } = await ledger.call('session_show', {
    session_id: made.session_id ?? '',
  })
  expect(session).toMatchObject({ parent: null, tags: [], project: 'default' })
  expect([work_items, children]).toEqual([[], []])
})

test('C04 the router skill gives no tag, a space of the task type becomes a hyphen', async () => {
  const ledger = await openTestLedger()
  const made = await ledger.call('session_create', {
    skill: 'adaptive-skill-intelligence',
    task_type: 'Bug Fix',
  })
  expect(made.tags).toEqual(['bug-fix'])
})

test('C05 tags keep their spelling and are found in any other', async () => {
  const ledger = await openTestLedger()
  const made = await ledger.call('session_create', {
    skill: 'Python-Skill',
    project_cwd: '/x/MyProj/',
    task_type: 'Bug  Fix Now',
  })
  expect(made.tags).toEqual(['MyProj', 'Python-Skill', 'bug--fix-now'])
  const found = await ledger.call('session_search_tags', { tags: 'myproj,PYTHON-SKILL' })
  expect(found.results).toEqual([
    expect.objectContaining({ session_id: made.session_id, matched_tags: ['MyProj', 'Python-Skill'] }),
  ])
})

test('C07 a Windows folder gives its last part', () => {
  const tags = tagsOf({ taskType: '', skill: '', cwd: 'C:\\work\\app\\', prompt: '' }, { compat: false })
  expect(tags.map((tag) => tag.name)).toEqual(['app'])
})

const promptTags = (prompt: string, compat = false) =>
  tagsOf({ taskType: '', skill: '', cwd: '', prompt }, { compat }).map((tag) => tag.name)

test('C08 a word inside another word is no tag', () => {
  expect(promptTags('Fix JavaScript')).toEqual([])
  expect(
    promptTags("Fix JavaScript reactivity for the author's blogger page; redistribute swiftly; scss; Seoul"),
  ).toEqual([])
  expect(promptTags('Fix JavaScript', true)).toEqual(['java'])
})

test('C10 phrases and short names of a word give its tag', () => {
  expect(promptTags('Spring Boot on k8s via GitHub Actions')).toEqual([
    'github-actions',
    'kubernetes',
    'spring-boot',
  ])
})

test('a folder that is a root gives no tag', () => {
  expect(tagsOf({ taskType: '', skill: '', cwd: '/', prompt: '' }, { compat: false })).toEqual([])
})

test('C11 a project that is no single name is refused and nothing is stored', async () => {
  const ledger = await openTestLedger()
  for (const project of [
    '../evil',
    'a/b',
    'a\\b',
    'C:',
    '..',
    '.',
    'nul\0l',
    'x'.repeat(300),
    'line\nbreak',
  ]) {
    const refused = await ledger.call('session_create', { project, prompt: 'kafka' })
    expect(refused, project).toMatchObject({ success: false, error_type: 'ValueError' })
    expect(refused.error).toContain('project')
  }
  for (const table of ['ledger_sessions', 'ledger_pointers', 'ledger_tags', 'ledger_docs'])
    expect(ledger.count(table)).toBe(0)
})

test('C13 two sessions of one second whose suffix is the same get different ids', () => {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-ledger-'))
  const db = new Database(join(folder, 'ids.db'))
  try {
    migrate(db)
    const transaction = connectionTransaction(db)
    const suffixes = ['AAAA', 'AAAA', 'BBBB']
    const call: Call<Parameters<typeof create>[1]['params']> = {
      params: {
        project: 'p',
        task_type: '',
        skill: '',
        prompt: '',
        project_cwd: '',
      },
      now: Math.round(T0 * 1000),
      clientInstance: 'test-instance',
      settings: { compat: false, tagPrompts: false },
      mirror: null,
    }
    const next = () => suffixes.shift() ?? 'CCCC'
    const ids = [create(transaction, call, next), create(transaction, call, next)].map(
      ({ value }) => 'session_id' in value && value.session_id,
    )
    expect(ids).toEqual(['SESSION-20260414-093015-AAAA', 'SESSION-20260414-093015-BBBB'])
  } finally {
    db.close()
    rmSync(folder, { recursive: true, force: true })
  }
})

test('an idempotency key makes one session of many calls, also after a restart', async () => {
  const ledger = await openTestLedger()
  const first = await ledger.call('session_create', { prompt: 'one', idempotency_key: 'k' })
  const again = await ledger.call('session_create', { prompt: 'one', idempotency_key: 'k' })
  await ledger.reopen()
  const later = await ledger.call('session_create', { prompt: 'one', idempotency_key: 'k' })
  expect([again, later]).toEqual([first, first])
  expect(ledger.count('ledger_sessions')).toBe(1)
})

test('a mutation id makes one session of many sendings, also after a restart', async () => {
  const ledger = await openTestLedger()
  const first = await ledger.call('session_create', { prompt: 'one' }, { mutationId: 7 })
  const again = await ledger.call('session_create', { prompt: 'one' }, { mutationId: 7 })
  await ledger.reopen()
  const later = await ledger.call('session_create', { prompt: 'one' }, { mutationId: 7 })
  expect([again, later]).toEqual([first, first])
  expect(ledger.count('ledger_sessions')).toBe(1)
})
