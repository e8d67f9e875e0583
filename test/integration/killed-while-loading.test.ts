/** The daemon is killed while it loads a large notebook of which the first page was shown: nothing half stays, and who opened it has it. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { largeNotebook } from '../bench/large-notebook.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome } from '../support/home.ts'
import { within } from '../support/until.ts'

const CELLS = 1000

test('a daemon killed while it loads leaves nothing half; the next one opens the file for the client that waits', async () => {
  const home = createHome()
  onTestFinished(() => home.dispose())
  // It kills itself when all parts of the notebook are stored and the room is not yet made of them.
  const daemon = await startDaemon(home, { ROOMD_TEST_FAULT: 'load:parts' })
  const client = await connect({ env: home.env, waitMs: 60_000 })
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
  await within('the daemon to be killed', daemon.exited)
  const [half] = stored()
  expect(half?.path).toBeNull()
  expect(half?.slices).toBeGreaterThan(1)

  const next = await startDaemon(home)
  onTestFinished(() => next.stop())
  const room = await opening
  expect(room.state.cells).toHaveLength(CELLS)
  expect(room.state.readiness).toMatchObject({ document: 'interactive', source: { state: 'ready' } })
  expect(stored().map((one) => one.path)).toEqual([path])
  await room.createCell({ source: 'x' })
  expect(readFileSync(path, 'utf8')).toBe(before)

  // What changed on disk while no daemon was there is in the first state that a client has, what no page tells included. Written on
  // one line, as some programs do, it is saved in no more time than before: the last daemon stops in order.
  await client.close()
  await next.stop()
  const changed = JSON.parse(readFileSync(path, 'utf8')) as { metadata: object }
  changed.metadata = { ...changed.metadata, authors: ['somebody'] }
  writeFileSync(path, JSON.stringify(changed))
  const last = await startDaemon(home)
  onTestFinished(() => last.stop())
  const later = await connect({ env: home.env })
  onTestFinished(() => later.close())
  const back = await later.openRoom({ path })
  expect(back.state.cells).toHaveLength(CELLS + 1)
  expect(back.state.metadata).toMatchObject({ authors: ['somebody'] })
  expect(back.state.peers.map((peer) => peer.peer_id)).toEqual([back.state.peer_id])
  await back.setSource(back.state.cells[0]?.cell_id ?? '', 'y')
})
