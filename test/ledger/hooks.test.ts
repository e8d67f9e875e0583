import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { roomd, spawnRoomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { signal } from '../support/processes.ts'
import { until } from '../support/until.ts'

/** What Claude Code gives its hooks, with a field that newer hosts add. */
const common = (session_id: string, hook_event_name: string) => ({
  session_id,
  transcript_path: `/home/u/.claude/projects/x/${session_id}.jsonl`,
  cwd: '/home/ann/shop',
  permission_mode: 'default',
  hook_event_name,
  prompt_id: 'p-1',
})

const events = {
  start: (id: string, source: string) =>
    ['SessionStart', { ...common(id, 'SessionStart'), source, model: 'opus' }] as const,
  prompt: (id: string, prompt: string) =>
    ['UserPromptSubmit', { ...common(id, 'UserPromptSubmit'), prompt }] as const,
  tool: (id: string, tool_name: string, tool_input: object, tool_response: unknown, tool_use_id: string) =>
    [
      'PostToolUse',
      { ...common(id, 'PostToolUse'), tool_name, tool_input, tool_response, tool_use_id },
    ] as const,
  stop: (id: string) => ['Stop', { ...common(id, 'Stop'), stop_hook_active: false }] as const,
  end: (id: string, reason: string) => ['SessionEnd', { ...common(id, 'SessionEnd'), reason }] as const,
}

const day = [
  events.start('one', 'startup'),
  events.prompt('one', 'Add redis to the shop'),
  events.tool(
    'one',
    'Write',
    { file_path: '/home/ann/shop/a.ts', content: 'x'.repeat(200_000) },
    { success: true },
    'u1',
  ),
  events.tool(
    'one',
    'Edit',
    { file_path: '/home/ann/shop/a.ts', old_string: 'x', new_string: 'y' },
    { error: 'no match' },
    'u2',
  ),
  events.tool('one', 'Read', { file_path: '/home/ann/shop/b.ts' }, 'text', 'u3'),
  events.tool('one', 'NotebookEdit', { notebook_path: '/home/ann/shop/n.ipynb' }, {}, 'u4'),
  events.tool('one', 'mcp__roomd__execute_cell', { cell_id: 'c' }, {}, 'u5'),
  ['PreCompact', { ...common('one', 'PreCompact'), trigger: 'auto', custom_instructions: '' }] as const,
  ['SubagentStop', { ...common('one', 'SubagentStop'), agent_id: 'a', stop_hook_active: false }] as const,
  events.stop('one'),
  events.prompt('one', 'And test it'),
  events.stop('one'),
  events.end('one', 'clear'),
  events.start('two', 'clear'),
  events.prompt('two', 'Go on'),
]

async function send(home: TestHome, [event, input]: readonly [string, object]) {
  // Stop is named by the input alone.
  const named = event === 'Stop' ? [] : [event]
  const result = await roomd(home, ['session', 'hook', ...named], { input: JSON.stringify(input) })
  expect([event, result.code]).toEqual([event, 0])
  return result
}

function rows<Row>(home: TestHome, sql: string): Row[] {
  const db = new Database(join(home.places.data, 'roomd.db'), { readonly: true })
  try {
    return db.prepare(sql).all() as Row[]
  } finally {
    db.close()
  }
}

const spooled = (home: TestHome): string[] =>
  existsSync(home.places.hookSpool)
    ? readdirSync(home.places.hookSpool).filter((name) => name.endsWith('.json'))
    : []

/** What a day leaves, however it came in. */
function expectDay(home: TestHome): void {
  expect(rows(home, 'SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM ledger_hook_events')).toEqual(
    [{ n: day.length, ids: day.length }],
  )
  const sessions = rows(
    home,
    'SELECT session_id, project, parent, status, last_prompt, origin FROM ledger_sessions ORDER BY session_key',
  )
  expect(sessions).toEqual([
    {
      session_id: 'one',
      project: 'shop',
      parent: null,
      status: 'COMPLETED',
      last_prompt: 'Add redis to the shop',
      origin: 'hook',
    },
    {
      session_id: 'two',
      project: 'shop',
      parent: 'one',
      status: 'IN_PROGRESS',
      last_prompt: 'Go on',
      origin: 'hook',
    },
  ])
  expect(
    rows(
      home,
      'SELECT prompt, model, ledger_requests.cwd FROM ledger_requests JOIN ledger_sessions USING (session_key) ORDER BY session_key, n',
    ),
  ).toEqual([
    { prompt: 'Add redis to the shop', model: 'opus', cwd: '/home/ann/shop' },
    { prompt: 'And test it', model: 'opus', cwd: '/home/ann/shop' },
    { prompt: 'Go on', model: 'opus', cwd: '/home/ann/shop' },
  ])
  // The MCP child of roomd counts its own calls.
  expect(rows(home, 'SELECT tool, failed, file FROM ledger_tool_events ORDER BY n')).toEqual([
    { tool: 'Write', failed: 0, file: '/home/ann/shop/a.ts' },
    { tool: 'Edit', failed: 1, file: '/home/ann/shop/a.ts' },
    { tool: 'Read', failed: 0, file: '/home/ann/shop/b.ts' },
    { tool: 'NotebookEdit', failed: 0, file: '/home/ann/shop/n.ipynb' },
  ])
  const [totals] = rows<{ derived: string }>(
    home,
    'SELECT derived FROM ledger_totals ORDER BY session_key LIMIT 1',
  )
  expect(JSON.parse(totals?.derived ?? '')).toMatchObject({
    toolCalls: 4,
    errors: 1,
    successRate: 75,
    filesModified: ['/home/ann/shop/a.ts', '/home/ann/shop/n.ipynb'],
  })
  expect(
    rows(
      home,
      "SELECT name FROM ledger_session_tags JOIN ledger_sessions USING (session_key) WHERE session_id = 'one' ORDER BY name",
    ),
  ).toEqual([{ name: 'redis' }, { name: 'shop' }])
}

test('hooks keep the ledger while the daemon runs; stdout has nothing but the context after /clear', () =>
  withHome(async (home) => {
    await startDaemon(home)
    for (const event of day) {
      const { stdout } = await send(home, event)
      if (event[0] === 'SessionStart' && event[1].session_id === 'two') {
        expect(stdout).toContain('one: 2 requests')
        expect(stdout).toContain('Add redis to the shop')
        expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(2049)
      } else expect([event[0], stdout]).toEqual([event[0], ''])
    }
    expectDay(home)
    expect(spooled(home)).toEqual([])
  }))

test('hooks while the daemon is away are kept in order and taken up by the next one, each once', () =>
  withHome(async (home) => {
    for (const event of day) {
      const { stdout, stderr } = await send(home, event)
      expect(stdout).toBe('')
      expect(stderr).toContain('kept')
    }
    expect(spooled(home)).toHaveLength(day.length)
    expect(readFileSync(join(home.places.logs, 'hook.log'), 'utf8').trim().split('\n')).toHaveLength(
      day.length,
    )
    await startDaemon(home)
    await until('the spool to be taken up', () => spooled(home).length === 0)
    expectDay(home)
  }))

test('an event that the daemon got but did not answer is taken once, although it is also in the spool', () =>
  withHome(async (home) => {
    const daemon = await startDaemon(home)
    await send(home, events.prompt('one', 'first'))
    signal(daemon.pid, 'SIGSTOP')
    const { stderr } = await send(home, events.prompt('one', 'while it hangs'))
    expect(stderr).toContain('kept')
    expect(spooled(home)).toHaveLength(1)
    signal(daemon.pid, 'SIGCONT')
    await until('the spool to be taken up', () => spooled(home).length === 0)
    await send(home, events.prompt('one', 'last'))
    expect(rows(home, 'SELECT prompt FROM ledger_requests ORDER BY n')).toEqual(
      ['first', 'while it hangs', 'last'].map((prompt) => ({ prompt })),
    )
  }))

test('what is no event costs nothing: no JSON, no object, no session, a spool that cannot be written', () =>
  withHome(async (home) => {
    for (const input of [
      '',
      'not json',
      '[1]',
      '{"session_id": 5}',
      '{"session_id": "../../x", "prompt": "p"}',
    ]) {
      const result = await roomd(home, ['session', 'hook', 'UserPromptSubmit'], { input })
      expect([input, result.code, result.stdout]).toEqual([input, 0, ''])
    }
    const nameless = await roomd(home, ['session', 'hook'], { input: '{"session_id": "s"}' })
    expect([nameless.code, nameless.stdout]).toEqual([0, ''])
    mkdirSync(home.places.hookSpool, { recursive: true })
    writeFileSync(join(home.places.hookSpool, '0-torn.json'), '{"event": ')
    await startDaemon(home)
    await until('the spool to be taken up', () => spooled(home).length === 0)
    // The torn file is set aside; nothing was made of the others.
    expect(readdirSync(home.places.hookSpool)).toEqual(['0-torn.json.unreadable'])
    expect(rows(home, 'SELECT count(*) AS n FROM ledger_sessions')).toEqual([{ n: 0 }])
  }))

test('a hook without a place to keep its event still ends with 0', () =>
  withHome(async (home) => {
    if (process.getuid?.() === 0) return
    mkdirSync(home.places.state, { recursive: true })
    chmodSync(home.places.state, 0o500)
    try {
      const { stderr } = await send(home, events.prompt('one', 'lost'))
      expect(stderr).toContain('is lost')
    } finally {
      chmodSync(home.places.state, 0o700)
    }
  }))

test('the entry of a hook loads neither schemas nor Yjs nor the MCP SDK', () =>
  withHome(async (home) => {
    const traced = spawnRoomd(home, ['session', 'hook', 'Stop'], {
      input: '{}',
      env: { NODE_DEBUG: 'module,esm' },
    })
    const { code, stderr } = await traced.result
    expect(code).toBe(0)
    const { dirname } = await import('node:path')
    const { programFile } = await import('../../protocol/programs.ts')
    const dist = dirname(programFile('roomd'))
    // The bundles that Node loaded, by what the bundler says is in them.
    const loaded = [...new Set(stderr.match(/[\w-]+\.js(?=['"\s])/g) ?? [])].filter((name) =>
      existsSync(join(dist, name)),
    )
    const source = loaded.map((name) => readFileSync(join(dist, name), 'utf8')).join('\n')
    for (const heavy of [
      'node_modules/zod/',
      'node_modules/yjs/',
      'node_modules/@modelcontextprotocol/',
      'node_modules/commander/',
    ])
      expect([heavy, source.includes(heavy)]).toEqual([heavy, false])
  }))
