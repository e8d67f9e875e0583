import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { until } from '../support/until.ts'
import { brokenFiles, goodFiles, ids, writeTree } from './tree-fixture.ts'

test('sessions are imported, listed, searched, shown and exported from a shell', () =>
  withHome(async (home) => {
    await startDaemon(home)
    const tree = join(home.path, 'tree')
    writeTree(tree, { ...goodFiles, ...brokenFiles })
    const json = async (...args: string[]) =>
      JSON.parse((await roomd(home, ['session', ...args, '--json'])).stdout)
    const report = await json('import', '--root', tree)
    expect(Object.keys(report)).toEqual(['imported', 'updated', 'unchanged', 'quarantined', 'warnings'])
    expect(report.quarantined.length).toBeGreaterThan(0)
    expect(await json('import', '--root', tree)).toMatchObject({
      imported: 0,
      updated: 0,
      unchanged: report.imported,
    })
    const list = await json('list', '--archived')
    expect(Object.keys(list)).toEqual(['sessions', 'count', 'total_matched', 'truncated'])
    expect(await json('search', 'kumquat')).toMatchObject({
      count: 1,
      sessions: [{ session_id: ids.hookEra }],
    })
    const table = await roomd(home, ['session', 'list', '--limit', '2'])
    expect(table.stdout.split('\n')[0]).toMatch(
      /^SESSION +PROJECT +STATUS +CHANGED +REQUESTS +TAGS +SUMMARY$/,
    )
    expect(table.stderr).toContain('--limit')
    const shown = await roomd(home, ['session', 'show', ids.A.slice(0, -2)])
    expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining('its own text')])
    expect((await roomd(home, ['session', 'show', 'nobody'])).code).toBe(1)
    const out = join(home.path, 'out')
    expect((await roomd(home, ['session', 'export', out])).code).toBe(0)
    expect(existsSync(join(out, '.chain-index.json'))).toBe(true)
    expect((await roomd(home, ['session', 'export', out])).code).toBe(1)
    // Nothing there to be read.
    expect((await roomd(home, ['session', 'import', '--root', home.work])).code).toBe(1)
  }))

test('ledger.mirror keeps a tree of what is in the ledger', () =>
  withHome(async (home) => {
    const mirror = join(home.path, 'mirror')
    expect((await roomd(home, ['config', 'set', 'ledger.mirror', mirror])).code).toBe(0)
    await startDaemon(home)
    const tool = async (name: string, args: object) =>
      JSON.parse((await roomd(home, ['tool', name, JSON.stringify(args)])).stdout)
    const { session_id } = await tool('session_create', { prompt: 'Use redis', project: 'p' })
    await tool('session_accumulate', { session_id, prompt: 'Use redis' })
    const { summary_file } = await tool('session_finalize', { session_id })
    expect(summary_file).toBe(join(mirror, 'logs', 'sessions', session_id, 'session-summary.md'))
    const text = await until(
      'the summary in the mirror',
      () => existsSync(summary_file) && readFileSync(summary_file, 'utf8'),
    )
    expect(text).toContain(`# Session Summary: ${session_id}`)
    await until('the index in the mirror', () =>
      readFileSync(join(mirror, '.chain-index.json'), 'utf8').includes('1 requests'),
    )
  }))

test('mcp install --hooks writes the hooks once, beside those of others', () =>
  withHome(async (home) => {
    const settings = join(home.path, 'claude', 'settings.json')
    const env = { CLAUDE_CONFIG_DIR: join(home.path, 'claude') }
    writeTree(join(home.path, 'claude'), { 'settings.json': { content: '' } })
    const theirs = { hooks: [{ type: 'command', command: 'say done' }] }
    writeFileSync(settings, JSON.stringify({ model: 'x', hooks: { Stop: [theirs] } }, null, 2))
    const install = () =>
      roomd(home, ['mcp', 'install', '--client', 'claude-code', '--hooks', '--json'], { env })
    expect(JSON.parse((await install()).stdout).hooks).toMatchObject({ path: settings, changed: true })
    const written = JSON.parse(readFileSync(settings, 'utf8'))
    expect(Object.keys(written.hooks).sort()).toEqual([
      'PostToolUse',
      'SessionEnd',
      'SessionStart',
      'Stop',
      'UserPromptSubmit',
    ])
    expect(written.model).toBe('x')
    expect(written.hooks.Stop).toEqual([
      theirs,
      { hooks: [{ type: 'command', command: expect.stringMatching(/ session hook Stop$/), timeout: 5 }] },
    ])
    expect(written.hooks.SessionStart[0].matcher).toBe('startup|resume|clear|compact')
    expect(JSON.parse((await install()).stdout).hooks.changed).toBe(false)
    expect((await roomd(home, ['mcp', 'install', '--client', 'zed', '--hooks'], { env })).code).toBe(2)
  }))
