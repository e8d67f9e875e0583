/** The mirrored tree: written again where something changed, and rid of what is gone. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { TreeThread } from '../../daemon/ledger/tree/tree-thread.ts'
import { openTestLedger, type TestLedger } from './harness.ts'

const day = 86_400

function mirrorOf(ledger: TestLedger) {
  const thread = new TreeThread(join(ledger.folder, 'roomd.db'))
  onTestFinished(() => thread.dispose())
  const dir = join(ledger.folder, `mirror-${Math.random()}`)
  const file = (...parts: string[]): string => join(dir, ...parts)
  return {
    dir,
    file,
    write: (names: string[], all = false) =>
      thread.mirror(dir, { compat: false, claimMs: 1_000, merge: true }, { names, all }),
    index: () => JSON.parse(readFileSync(file('.chain-index.json'), 'utf8')),
    /** Another one with each writing. */
    indexFile: () => statSync(file('.chain-index.json')).ino,
    setIndex: (index: unknown) => writeFileSync(file('.chain-index.json'), JSON.stringify(index)),
  }
}

/** What another program says that the session did. */
function track(ledger: TestLedger, sessionId: string, lines: string): void {
  const path = join(ledger.tree, 'logs', 'sessions', sessionId, 'tool-tracker.jsonl')
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, lines)
}

test('the index of a mirror is written again only when it says something else', async () => {
  const ledger = await openTestLedger()
  const mirror = mirrorOf(ledger)
  const { session_id = '' } = await ledger.call('session_create', { prompt: 'redis', project: 'p' })
  await ledger.call('session_create', { prompt: 'kafka' })
  await mirror.write([], true)
  const first = mirror.indexFile()
  await ledger.call('session_accumulate', { session_id, prompt: 'one more' })
  await mirror.write([session_id])
  expect(mirror.indexFile()).toBe(first)
  expect(readFileSync(mirror.file('logs', 'sessions', session_id, 'session-summary.json'), 'utf8')).toContain(
    'one more',
  )
  await ledger.call('session_tag', { session_id, tags: 'extra' })
  await mirror.write([session_id])
  expect(mirror.index().sessions[session_id].tags).toContain('extra')
  expect(mirror.index().tag_index.extra).toEqual([session_id])
  // A child is a change of its parent's record.
  await ledger.call('session_link', { child_id: 'child', parent_id: session_id })
  await mirror.write(['child'])
  expect(mirror.index().sessions[session_id].children).toEqual(['child'])
})

test('what retention deletes leaves the mirror: its files in every project, and the index; what others wrote stays', async () => {
  const ledger = await openTestLedger({
    settings: { archive_after_days: 10, delete_archived_after_days: 20 },
  })
  const mirror = mirrorOf(ledger)
  await ledger.call('session_tag', { session_id: 's', tags: 'red,blue' })
  await ledger.call('session_save', { session_id: 's', data_type: 'summary', content: '# s', project: 'a' })
  await ledger.call('session_save', { session_id: 's', data_type: 'context', content: '{}', project: 'b' })
  await ledger.call('session_accumulate', { session_id: 's', prompt: 'x' })
  await mirror.write([], true)
  const index = mirror.index()
  index.sessions.foreign = { parent: null }
  index.tag_index.red.unshift('foreign')
  mirror.setIndex(index)
  const files = [
    mirror.file('sessions', 'b', 'context-s.json'),
    mirror.file('logs', 'sessions', 's', 'session-summary.json'),
  ]
  const saved = mirror.file('sessions', 'a', 'session-s.md')
  const archived = mirror.file('sessions', '_archived', 'a', 'session-s.md')
  expect([...files, saved].map((path) => existsSync(path))).toEqual([true, true, true])
  ledger.pass(11 * day)
  await ledger.ledger.forgetOld()
  await mirror.write(['s'])
  expect([existsSync(saved), existsSync(archived)]).toEqual([false, true])
  ledger.pass(21 * day)
  await ledger.ledger.forgetOld()
  await mirror.write(['s'])
  expect([...files, saved, archived].map((path) => existsSync(path))).toEqual([false, false, false, false])
  expect(mirror.index()).toMatchObject({
    sessions: { foreign: { parent: null } },
    tag_index: { red: ['foreign'] },
  })
  expect(Object.keys(mirror.index().sessions)).toEqual(['foreign'])
})

test('tool calls that a mirrored tracker repeats are counted once; calls of others in it are counted too', async () => {
  const ledger = await openTestLedger()
  const mirror = mirrorOf(ledger)
  const { session_id = '' } = await ledger.call('session_create', { prompt: 'redis' })
  for (const tool of ['execute_cell', 'execute_cell', 'set_cell'])
    await ledger.call('session_record', { cwd: '', tool, notebooks: [], executions: [] })
  await mirror.write([], true)
  const tracker = readFileSync(mirror.file('logs', 'sessions', session_id, 'tool-tracker.jsonl'), 'utf8')
  expect(tracker.trim().split('\n')).toHaveLength(3)
  track(ledger, session_id, `${tracker}{"tool": "Write", "file": "a.py", "status": "success"}\n`)
  expect(await ledger.call('session_finalize', { session_id })).toMatchObject({ tools: 4, files_modified: 1 })
  expect(await ledger.call('session_finalize', { session_id })).toMatchObject({ tools: 4, files_modified: 1 })
})

test('tool events that are too old are forgotten, and what they came to still counts', async () => {
  const ledger = await openTestLedger({ settings: { keep_events_days: 30 } })
  const mirror = mirrorOf(ledger)
  const { session_id = '' } = await ledger.call('session_create', { prompt: 'redis' })
  for (const failed of [false, true])
    await ledger.call('session_record', {
      cwd: '',
      tool: 'execute_cell',
      failed,
      notebooks: [],
      executions: [],
    })
  track(ledger, session_id, '{"tool": "Write", "file": "a.py", "status": "success"}\n')
  const before = await ledger.call('session_finalize', { session_id })
  expect(before).toMatchObject({ tools: 3, files_modified: 1 })
  await mirror.write([], true)
  ledger.pass(29 * day)
  await ledger.ledger.forgetOld()
  expect(ledger.count('ledger_tool_events')).toBe(3)
  ledger.pass(2 * day)
  await ledger.ledger.forgetOld()
  expect(ledger.count('ledger_tool_events')).toBe(0)
  await mirror.write([session_id])
  expect(existsSync(mirror.file('logs', 'sessions', session_id, 'tool-tracker.jsonl'))).toBe(false)
  // The tracker file is there still, and is read again: its calls are counted once.
  for (let again = 0; again < 2; again++)
    expect(await ledger.call('session_finalize', { session_id })).toMatchObject({
      tools: 3,
      files_modified: 1,
      source_warnings: before.source_warnings,
    })
})
