import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestStore, seqs, temporaryFolder } from './opened.ts'
import { addRoom, addUpdate, ROOM } from './statements.ts'

describe('writing', () => {
  it('is seen by readers once the promise resolves, and not before', async () => {
    const store = await openTestStore()
    const written = store.write([addRoom(), addUpdate(1)])
    expect(seqs(store)).toEqual([])
    await written
    expect(seqs(store)).toEqual([1])
  })

  it('resolves in the order of the calls', async () => {
    const store = await openTestStore()
    const order: number[] = []
    await store.write([addRoom()])
    await Promise.all(
      Array.from({ length: 500 }, (_, i) => store.write([addUpdate(i + 1)]).then(() => order.push(i))),
    )
    expect(order).toEqual(Array.from({ length: 500 }, (_, i) => i))
  })

  it('keeps every kind of value', async () => {
    const store = await openTestStore()
    const pool = Buffer.from('a slice of a larger buffer')
    await store.write([addRoom(ROOM, 'ünï 😀\0end')])
    await store.write([
      addUpdate(1, pool.subarray(2, 7)),
      addUpdate(2, new Uint8Array(0)),
      addUpdate(3, new Uint8Array(300_000).fill(7)),
      {
        sql: 'UPDATE rooms SET path = ?, created_at = ?, touched_at = ? WHERE notebook_id = ?',
        values: [null, 2 ** 45, 9007199254740993n, ROOM],
      },
    ])
    const bodies = store.all<{ body: Uint8Array }>('SELECT body FROM doc_updates ORDER BY doc_seq')
    expect(bodies.map(({ body }) => Buffer.from(body).toString('latin1').slice(0, 9))).toEqual([
      'slice',
      '',
      '\x07'.repeat(9),
    ])
    expect(bodies[2]?.body.length).toBe(300_000)
    expect(
      store.get('SELECT title, path, created_at, CAST(touched_at AS TEXT) AS touched FROM rooms'),
    ).toEqual({ title: 'ünï 😀\0end', path: null, created_at: 2 ** 45, touched: '9007199254740993' })
  })

  it('a unit is all or nothing, and a bad one in a group fails alone', async () => {
    const store = await openTestStore()
    await store.write([addRoom()])
    const outcomes = await Promise.allSettled([
      store.write([addUpdate(1)]),
      store.write([addUpdate(2), addUpdate(2)]),
      store.write([addUpdate(3)]),
      store.write([{ sql: 'INSERT INTO no_such_table VALUES (1)', values: [] }]),
      store.write([addUpdate(4, undefined, '00000000-0000-4000-8000-00000000dead')]),
      store.write([{ sql: 'UPDATE rooms SET title = ? WHERE notebook_id = ?', values: ['only one'] }]),
      store.write([addUpdate(5)]),
    ])
    expect(outcomes.map((o) => o.status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'rejected',
      'rejected',
      'fulfilled',
    ])
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'storage_failed' })
    expect(seqs(store)).toEqual([1, 3, 5])
  })

  it('what builds on a failed change fails too when the unit says so', async () => {
    const store = await openTestStore()
    await store.write([addRoom()])
    const advance = (from: number): { sql: string; values: (string | number)[] } => ({
      sql: 'UPDATE rooms SET commit_seq = CASE WHEN commit_seq = ? THEN ? END WHERE notebook_id = ?',
      values: [from, from + 1, ROOM],
    })
    const outcomes = await Promise.allSettled([
      store.write([advance(0), addUpdate(1)]),
      store.write([advance(1), addUpdate(1)]),
      store.write([advance(2), addUpdate(3)]),
    ])
    expect(outcomes.map((o) => o.status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(seqs(store)).toEqual([1])
  })

  it('an empty unit is written', async () => {
    const store = await openTestStore()
    await store.write([])
  })

  it('settled waits for all that was handed over, also for what fails', async () => {
    const store = await openTestStore()
    let done = 0
    void store.write([addRoom()]).then(() => done++)
    store.write([addRoom()]).catch(() => done++)
    expect(store.health().pending).toBe(2)
    await store.settled()
    expect(done).toBe(2)
    expect(store.health()).toMatchObject({ state: 'ok', pending: 0 })
    expect(store.health().size).toBeGreaterThan(0)
    await store.settled()
  })

  it('texts made up as they go do not pile up', async () => {
    const store = await openTestStore()
    await store.write([addRoom()])
    const writes: Promise<void>[] = []
    for (let i = 0; i < 1500; i++)
      writes.push(
        store.write([{ sql: `UPDATE rooms SET doc_seq = ${i} WHERE notebook_id = ?`, values: [ROOM] }]),
      )
    await Promise.all(writes)
    expect(store.get('SELECT doc_seq FROM rooms')).toEqual({ doc_seq: 1499 })
  })
})

describe('closing', () => {
  it('writes what is pending, moves the log into the database, and opens with all of it', async () => {
    const file = join(temporaryFolder(), 'deep', 'er', 'roomd.db')
    const store = await openTestStore(file)
    const last = Promise.all([store.write([addRoom()]), store.write([addUpdate(1)])])
    await store.close()
    await last
    expect(existsSync(`${file}-wal`)).toBe(false)
    await expect(store.write([addUpdate(2)])).rejects.toMatchObject({ code: 'storage_failed' })
    const again = await openTestStore(file)
    expect(seqs(again)).toEqual([1])
    expect(again.health().state).toBe('ok')
  })
})
