/** Where a client of the MCP server is, as an editor with Yjs sees it; all processes are real. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import type { Room } from '../../client/sdk/room.ts'
import { type PresenceState, presenceColor } from '../../protocol/presence.ts'
import type { TestHome } from '../support/home.ts'
import { until, within } from '../support/until.ts'
import { startChild, startTestDaemon, withDaemon } from './harness.ts'
import { startRaw } from './raw-child.ts'

interface Watcher {
  readonly room: Room
  /** Every state of the label that was seen, oldest first; null: it is gone. */
  readonly seen: Array<PresenceState | null>
  now(): PresenceState | undefined
}

async function watching(
  home: TestHome,
  file: string,
  label: string,
  use: (watcher: Watcher) => Promise<void>,
): Promise<void> {
  const client = await connect({ env: home.env, label: 'Editor' })
  try {
    const room = await client.openRoom({ path: join(home.work, file) })
    await room.doc()
    const states = () => [...room.presence.getStates().values()] as PresenceState[]
    const now = () => states().find((state) => state.label === label)
    const seen: Array<PresenceState | null> = []
    room.presence.on('change', () => {
      const state = now() ?? null
      if (JSON.stringify(state) !== JSON.stringify(seen.at(-1) ?? null)) seen.push(state)
    })
    await use({ room, seen, now })
  } finally {
    await client.close()
  }
}

test('editing and running are shown with label, color, kind and cell, and end with the call', () =>
  withDaemon(async (home) => {
    const child = await startChild(home, { title: 'Claude Code' })
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('create_cell', { source: 'const a = 1' })
    const { cell } = (await child.must('create_cell', { source: 'wait = 0' })).structured as {
      cell: { cell_id: string }
    }
    await watching(home, 'a.ipynb', 'Claude Code', async ({ seen, now, room }) => {
      expect(now()).toBeUndefined()
      await child.must('replace_match', { cell_id: cell.cell_id, match: '0', content: '1' })
      await until('the edit to be over', () => seen.at(-1) === null)
      const who = { label: 'Claude Code', color: presenceColor('Claude Code'), kind: 'mcp' }
      expect(seen).toEqual([
        { ...who, activity: 'editing cell 2', cursor: { cell: cell.cell_id, offset: 7 } },
        null,
      ])
      seen.length = 0

      const running = child.must('set_cell', {
        cell_id: cell.cell_id,
        source: 'await new Promise((done) => { globalThis.done = done })',
        and_run: true,
      })
      const shown = await until('it to run', () => now()?.activity === 'running cell 2' && now())
      expect(shown).toEqual({ ...who, activity: 'running cell 2', cursor: { cell: cell.cell_id } })
      // An edit meanwhile is shown, and then again what goes on.
      await child.must('create_cell', { source: 'done()' })
      await until('it to run still', () => now()?.activity === 'running cell 2')
      expect(seen.map((state) => state?.activity)).toContain('adding a cell')
      // A second call waits behind it; each ends for itself.
      const behind = child.must('execute_cell', { cell_id: room.state.cells[0]?.cell_id })
      await until('it to wait', () => now()?.activity === 'waiting to run cell 1')
      await child.must('interrupt_kernel')
      await Promise.all([running, behind])
      await until('nothing to be shown', () => now() === undefined)
    })
  }))

test('a call for another notebook is shown there, and nowhere else', () =>
  withDaemon(async (home) => {
    const child = await startChild(home, { title: 'Agent' })
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
    await watching(home, 'a.ipynb', 'Agent', (a) =>
      watching(home, 'b.ipynb', 'Agent', async (b) => {
        await child.must('create_cell', { source: '1', notebook: 'a.ipynb', and_run: true })
        await until('it to be over', () => a.seen.length > 0 && a.seen.at(-1) === null)
        expect(a.seen[0]).toMatchObject({ label: 'Agent', activity: 'adding a cell' })
        expect(b.seen).toEqual([])
        await child.must('get_all_cells')
        await child.must('get_all_cells', { notebook: 'a.ipynb' })
        await child.must('create_cell', { source: '2' })
        await until('it to be over', () => b.seen.length > 0 && b.seen.at(-1) === null)
        expect(a.seen.at(-1)).toBeNull()
      }),
    )
  }))

test('what goes on is shown again after the daemon was killed', () =>
  withDaemon(async (home, daemon) => {
    const child = await startChild(home, { title: 'Agent' })
    await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await watching(home, 'a.ipynb', 'Agent', async ({ now, room }) => {
      const running = child.must('create_cell', {
        source: 'await new Promise((done) => { globalThis.done = done })',
        and_run: true,
      })
      await until('it to run', () => now()?.activity === 'running cell 1')
      const back = new Promise((resolve) => room.on('resumed', resolve))
      await daemon.kill9()
      await startTestDaemon(home)
      await within('the editor to be back', back)
      // A peer that comes now learns it too.
      await watching(home, 'a.ipynb', 'Agent', async (late) => {
        await until('it to be shown', () => late.now()?.activity === 'running cell 1')
      })
      await child.must('interrupt_kernel')
      await running
      await until('nothing to be shown', () => now() === undefined)
    })
  }))

test('the child loads no Yjs for it, and no picture library where there is no picture', () =>
  withDaemon(async (home) => {
    const coverage = join(home.path, 'coverage')
    const child = await startRaw(home, { env: { NODE_V8_COVERAGE: coverage } })
    const call = (id: number, name: string, args: Record<string, unknown>) =>
      child.request(id, 'tools/call', { name, arguments: args })
    await call(2, 'create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    await call(3, 'create_cell', { source: '1', and_run: true })
    child.closeStdin()
    await within('its end', child.exited)
    const loaded = readdirSync(coverage).flatMap((file) => {
      const { result } = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as {
        result: Array<{ url: string }>
      }
      return result.map(({ url }) => url)
    })
    expect(loaded.some((url) => url.includes('/dist/'))).toBe(true)
    expect(loaded.filter((url) => /node_modules\/(yjs|y-protocols|sharp|@img)\//.test(url))).toEqual([])
  }))
