/** Two homes, one file: the first to open it writes it. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import type { CellId } from '../../protocol/ids.ts'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { until } from '../support/until.ts'
import { makeRooms } from './fixture.ts'

function home(runtime: string): TestHome {
  const made = createHome({ XDG_RUNTIME_DIR: runtime })
  onTestFinished(() => made.dispose())
  return made
}

test('the second daemon is told who has the file, may look at it, and gets it when the first is gone', async () => {
  const fixture = await makeRooms()
  onTestFinished(() => fixture.dispose())
  const path = fixture.notebook('a.ipynb', ['one'])
  const [first, second] = [home(fixture.folder), home(fixture.folder)]
  const one = await startDaemon(first)
  await startDaemon(second)
  const owner = await connect({ env: first.env, label: 'first' })
  const other = await connect({ env: second.env, label: 'second' })
  const room = await owner.openRoom({ path })
  expect(
    readdirSync(join(fixture.folder, 'roomd-claims')).filter((name) => name.endsWith('.json')),
  ).toHaveLength(1)

  await expect(other.openRoom({ path })).rejects.toMatchObject({
    code: 'file_active_elsewhere',
    message: expect.stringContaining(`pid ${one.pid}`),
    detail: { path, pid: one.pid, home: first.path },
  })
  // An agent is told the call that does, and the call does.
  const refused = await roomd(second, ['tool', 'connect_notebook', JSON.stringify({ path })])
  const { error } = JSON.parse(refused.stdout) as { error: { code: string; next: { arguments: object } } }
  expect(error).toMatchObject({ code: 'file_active_elsewhere', next: { tool: 'connect_notebook' } })
  const shown = await roomd(second, ['tool', 'connect_notebook', JSON.stringify(error.next.arguments)])
  expect(JSON.parse(shown.stdout)).toMatchObject({
    path,
    source_state: 'read_only',
    capabilities: { read: true, mutate: false, execute: false },
  })

  const looking = await other.openRoom({ path }, { scope: 'viewer' })
  expect(looking.state.source).toMatchObject({ state: 'read_only' })
  expect(looking.state.cells.map((cell) => cell.source)).toEqual(['one'])

  // What the first one saves is seen by the second.
  await room.setSource(room.state.cells[0]?.cell_id as CellId, 'two')
  await room.save()
  await until('the change to arrive', () => looking.state.cells[0]?.source === 'two')
  await expect(other.openRoom({ path })).rejects.toMatchObject({ code: 'file_active_elsewhere' })

  // Killed, not stopped: its claim is worth nothing any more.
  await one.kill9()
  const writing = await other.openRoom({ path })
  expect(writing.id).toBe(looking.id)
  await writing.setSource(writing.state.cells[0]?.cell_id as CellId, 'three')
  await writing.save()
  expect(readFileSync(path, 'utf8')).toContain('"three"')
  await owner.close()
  await other.close()
})

test('a file that cannot be opened is claimed by nobody', async () => {
  const fixture = await makeRooms()
  onTestFinished(() => fixture.dispose())
  const path = fixture.notebook('broken.ipynb', ['one'])
  const good = readFileSync(path, 'utf8')
  const [first, second] = [home(fixture.folder), home(fixture.folder)]
  for (const each of [first, second]) await startDaemon(each)
  const one = await connect({ env: first.env })
  const other = await connect({ env: second.env })
  onTestFinished(() => one.close())
  onTestFinished(() => other.close())
  for (const broken of [good.slice(1), `${' '.repeat(200_000)}${good.slice(1)}`]) {
    writeFileSync(path, broken)
    await expect(one.openRoom({ path })).rejects.toMatchObject({ code: 'invalid_argument' })
  }
  writeFileSync(path, good)
  expect((await other.openRoom({ path })).state.source).toMatchObject({ state: 'ready' })
})
