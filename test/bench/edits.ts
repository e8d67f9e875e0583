/** Durable acknowledged edits: one writer against one synced commit of the same disk, and the rate of 64 writers. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { connect } from '../../client/sdk/index.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { type Figure, figure, percentile } from './figure.ts'

const SAMPLES = 1_500
const WRITERS = 64
const PER_WRITER = 300

export async function* benchEdits(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    await startDaemon(home)
    const client = await connect({ env: home.env, label: 'bench' })
    const room = await client.openRoom({ create: {} })
    const cell = await room.createCell({ source: '' })

    const database = new Database(join(home.path, 'reference.db'))
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = FULL')
    database.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)')
    const insert = database.prepare('INSERT INTO t (body) VALUES (?)')
    const body = Buffer.alloc(300, 1)

    const ours: number[] = []
    const theirs: number[] = []
    for (let n = 0; n < SAMPLES; n++) {
      const start = performance.now()
      await room.setSource(cell, `value ${n}`)
      const between = performance.now()
      insert.run(body)
      const end = performance.now()
      if (n < 200) continue
      ours.push(between - start)
      theirs.push(end - between)
    }
    database.close()
    const commit = { name: 'synced commit', value: percentile(theirs, 0.5) }
    const one = figure('edits/1-writer/p50', percentile(ours, 0.5), 'ms', commit, { max: 2 })

    const cells = await Promise.all(Array.from({ length: WRITERS }, () => room.createCell({ source: '' })))
    const start = performance.now()
    await Promise.all(
      cells.map(async (id) => {
        for (let n = 0; n < PER_WRITER; n++) await room.setSource(id, `value ${n}`)
      }),
    )
    const seconds = (performance.now() - start) / 1000
    const many = figure('edits/64-writers', (WRITERS * PER_WRITER) / seconds, '/s', null, { min: 20_000 })
    await client.close()
    return [one, many]
  })
}
