import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { readJournal } from '../../daemon/documents/journal.ts'
import { openStore } from '../../daemon/store/open.ts'
import { finishRecovery } from '../../daemon/store/recover.ts'
import { migrations } from '../../daemon/store/schema.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { openTestStore, seqs, silent, temporaryFolder } from './opened.ts'
import { addRoom, addUpdate } from './statements.ts'

const rooms = Array.from(
  { length: 40 },
  (_, i) => `00000000-0000-4000-8000-0000000000${String(i).padStart(2, '0')}`,
)

/** A closed store with 40 rooms of 50 updates. */
async function filledStore(): Promise<string> {
  const file = join(temporaryFolder(), 'roomd.db')
  const store = await openTestStore(file)
  for (const room of rooms) {
    void store.write([addRoom(room)])
    for (let seq = 1; seq <= 50; seq++)
      void store.write([addUpdate(seq, new Uint8Array(400).fill(seq), room)])
  }
  await store.close()
  return file
}

function overwrite(file: string, from: number, length: number, value = 0xa5): void {
  const fd = openSync(file, 'r+')
  writeSync(fd, Buffer.alloc(Math.min(length, fstatSync(fd).size - from), value), 0, undefined, from)
  closeSync(fd)
}

function asides(file: string): string[] {
  return readdirSync(dirname(file))
    .filter((name) => name.startsWith(`${basename(file)}.damaged-`))
    .sort()
}

describe('a damaged store', () => {
  it('is set aside under a name that says when and why, and what can be read is recovered', async () => {
    const file = await filledStore()
    const damaged = readFileSync(file)
    // Pages in the middle, where the updates are.
    overwrite(file, 4096 * Math.floor(damaged.length / 4096 / 2), 4096 * 3)
    const store = await openTestStore(file, { now: () => Date.UTC(2026, 0, 2, 3, 4, 5) })
    expect(store.health().state).toBe('recovered')
    expect(asides(file)).toEqual(['roomd.db.damaged-2026-01-02T03-04-05.000Z-check'])
    expect(store.health().reason).toContain('roomd.db.damaged-2026-01-02T03-04-05.000Z-check')
    expect(store.all('SELECT notebook_id FROM rooms')).toHaveLength(40)
    const rows = rooms.reduce((sum, room) => sum + seqs(store, room).length, 0)
    // Three pages hold about 30 rows; a page lost higher in the tree costs no more than what hangs below it.
    expect(rows).toBeGreaterThan(1800)
    expect(rows).toBeLessThan(2000)
    await store.write([addUpdate(51, undefined, rooms[3])])
    await store.close()
    const again = await openTestStore(file)
    expect(again.health().state).toBe('ok')
    expect(seqs(again, rooms[3])).toContain(51)
  })

  it('with a broken header is recovered whole', async () => {
    const file = await filledStore()
    overwrite(file, 0, 100)
    const store = await openTestStore(file)
    expect(store.health().state).toBe('recovered')
    expect(asides(file)[0]).toMatch(/-header$/)
    for (const room of rooms) expect(seqs(store, room)).toHaveLength(50)
  })

  it('with a destroyed first page is recovered whole', async () => {
    const file = await filledStore()
    overwrite(file, 0, 4096, 0)
    const store = await openTestStore(file)
    expect(store.health().state).toBe('recovered')
    for (const room of rooms) expect(seqs(store, room)).toHaveLength(50)
  })

  it('that is no database at all is set aside and a new one starts', async () => {
    const file = join(temporaryFolder(), 'roomd.db')
    writeFileSync(file, 'this was never a database, but somebody may want it back'.repeat(1000))
    const store = await openTestStore(file)
    expect(store.health()).toMatchObject({ state: 'recovered', incomplete: true })
    expect(asides(file)).toHaveLength(1)
    await store.write([addRoom()])
  })

  it('keeps documents whose room row is lost', async () => {
    const file = await filledStore()
    const db = new Database(file)
    db.pragma('foreign_keys = OFF')
    db.prepare('DELETE FROM rooms WHERE notebook_id = ?').run(rooms[7])
    db.close()
    overwrite(file, 0, 100)
    const store = await openTestStore(file)
    expect(seqs(store, rooms[7])).toHaveLength(50)
    expect(store.get('SELECT title, doc_seq FROM rooms WHERE notebook_id = ?', rooms[7] ?? '')).toEqual({
      title: 'Recovered notebook',
      doc_seq: 50,
    })
    expect(store.all('PRAGMA foreign_key_check')).toEqual([])
  })

  it('keeps the slices of a large document whose snapshot row is lost', async () => {
    const file = await filledStore()
    const db = new Database(file)
    const slice = db.prepare('INSERT INTO doc_slices (notebook_id, slice, body) VALUES (?, ?, ?)')
    for (const [room, left] of [
      [rooms[3], 40],
      [rooms[4], 50],
    ] as const) {
      for (let n = 0; n < 3; n++) slice.run(room, n, Buffer.from(`slice ${n}`))
      db.prepare('DELETE FROM doc_updates WHERE notebook_id = ? AND doc_seq <= ?').run(room, left)
      db.prepare('UPDATE rooms SET doc_seq = 50 WHERE notebook_id = ?').run(room)
    }
    db.close()
    overwrite(file, 0, 100)
    const store = await openTestStore(file)
    const journals = [rooms[3], rooms[4]].map((room) => readJournal(store, NotebookId.parse(room)))
    const slices = ['slice 0', 'slice 1', 'slice 2']
    expect(journals.map((journal) => journal?.slices?.map((body) => Buffer.from(body).toString()))).toEqual([
      slices,
      slices,
    ])
    expect(journals.map((journal) => [journal?.updates.length, journal?.doc_seq])).toEqual([
      [10, 50],
      [0, 50],
    ])
  })

  it('too large to read at the start is found in the background, and recovered at the next start', async () => {
    const file = await filledStore()
    overwrite(file, 4096 * 150, 4096 * 2)
    const store = await openTestStore(file, { checkInlineUpTo: 0 })
    await expect.poll(() => store.health().state, { timeout: 20_000 }).toBe('read_only')
    expect(store.health().reason).toContain('restart')
    await expect(store.write([addRoom()])).rejects.toMatchObject({ code: 'storage_failed' })
    await store.close()
    const again = await openTestStore(file, { checkInlineUpTo: 0 })
    expect(again.health().state).toBe('recovered')
    expect(existsSync(`${file}.check-failed`)).toBe(false)
  })

  it('is recovered although the daemon died in the middle of recovering', async () => {
    const file = await filledStore()
    const whole = readFileSync(file)
    // Died after the new store was complete and before it took the old one's place.
    writeFileSync(`${file}.recovered`, whole)
    overwrite(file, 0, 4096)
    writeFileSync(`${file}-wal`, 'the log of the damaged one')
    finishRecovery(file)
    expect(existsSync(`${file}-wal`)).toBe(false)
    // Died while it was still being filled: begun again.
    writeFileSync(`${file}.recovering`, 'half of it')
    const store = await openTestStore(file)
    expect(store.health().state).toBe('ok')
    expect(existsSync(`${file}.recovering`)).toBe(false)
    for (const room of rooms) expect(seqs(store, room)).toHaveLength(50)
  })
})

describe('a store of a newer version', () => {
  it('is refused with what to do, and nothing of it is touched', async () => {
    const file = await filledStore()
    const db = new Database(file)
    db.pragma(`user_version = ${migrations.length + 1}`)
    db.close()
    const before = readFileSync(file)
    await expect(openStore({ file, log: silent })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('update roomd'),
    })
    expect(readFileSync(file).equals(before)).toBe(true)
    expect(asides(file)).toEqual([])
  })
})

describe('a store that cannot be opened', () => {
  it('says which file and why', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'taken'), '')
    await expect(openStore({ file: join(folder, 'taken', 'roomd.db'), log: silent })).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining('taken'),
    })
    rmSync(join(folder, 'taken'))
  })
})
