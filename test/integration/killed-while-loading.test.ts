/** The daemon is killed while it loads a large notebook of which the first page was shown: nothing half stays, and who opened it has it. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { largeNotebook } from '../bench/large-notebook.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome } from '../support/home.ts'
import { until } from '../support/until.ts'

const CELLS = 4000

test('a daemon killed while it loads leaves nothing half; the next one opens the file for the client that waits', async () => {
  const home = createHome()
  onTestFinished(() => home.dispose())
  const daemon = await startDaemon(home)
  const client = await connect({ env: home.env })
  onTestFinished(() => client.close())
  const path = join(home.work, 'large.ipynb')
  writeFileSync(path, largeNotebook(CELLS))
  const before = readFileSync(path, 'utf8')
  const stored = (): { path: string | null; slices: number }[] => {
    const db = new Database(join(home.places.data, 'roomd.db'), { readonly: true })
    try {
      return db
        .prepare<[], { path: string | null; slices: number }>(
          'SELECT path, (SELECT count(*) FROM doc_slices WHERE notebook_id = rooms.notebook_id) AS slices FROM rooms',
        )
        .all()
    } finally {
      db.close()
    }
  }

  const opening = client.openRoom({ path })
  await until('a part of it to be stored', () => (stored()[0]?.slices ?? 0) > 0, { every: 1 })
  await daemon.kill9()
  expect(stored()).toMatchObject([{ path: null }])

  const next = await startDaemon(home)
  onTestFinished(() => next.stop())
  const room = await opening
  expect(room.state.cells).toHaveLength(CELLS)
  expect(room.state.readiness).toMatchObject({ document: 'interactive', source: { state: 'ready' } })
  expect(stored().map((one) => one.path)).toEqual([path])
  await room.createCell({ source: 'x' })
  expect(readFileSync(path, 'utf8')).toBe(before)
})
