import { expect, onTestFinished, test } from 'vitest'
import { type BaseText, baseRows, isBase, readBase, readBaseInTurns } from '../../daemon/rooms/base-text.ts'
import { CellId, NotebookId } from '../../protocol/ids.ts'
import { makeRooms } from './fixture.ts'

const id = NotebookId.parse('0b5f8a52-6d1c-4e0a-9a55-3f0a4d5e6f70')

test('a text of any size is read as it was written, over one of another size too; a lost piece is no text', async () => {
  const fixture = await makeRooms()
  onTestFinished(() => fixture.dispose())
  const { store } = fixture
  await store.write([
    {
      sql: `INSERT INTO rooms (notebook_id, kind, title, working_dir, created_at, touched_at) VALUES (?, 'in-place', 'x', '/', 1, 1)`,
      values: [id],
    },
  ])
  expect(readBase(store, id)).toBeNull()
  const base = (bytes: number, ids: string[] | null = null): BaseText => ({
    hash: `${bytes}`,
    text: Uint8Array.from({ length: bytes }, (_, i) => i % 251),
    cell_ids: ids?.map((one) => CellId.parse(one)) ?? null,
  })
  const pieces = () => store.all('SELECT 1 FROM source_pieces').length
  for (const wanted of [base(0), base(900_000, ['a', 'b']), base(524_288), base(5, ['c']), base(300_000)]) {
    await store.write(baseRows(id, wanted))
    const found = readBase(store, id)
    expect(found).toMatchObject({ hash: wanted.hash, cell_ids: wanted.cell_ids })
    expect(Buffer.compare(found?.text ?? new Uint8Array(1), wanted.text)).toBe(0)
    expect(await readBaseInTurns(store, id)).toEqual(found)
    expect(isBase(store, id, wanted.hash)).toBe(true)
    expect(pieces()).toBe(wanted.text.length > 262_144 ? Math.ceil(wanted.text.length / 262_144) : 0)
  }
  await store.write([{ sql: 'DELETE FROM source_pieces WHERE piece = 1', values: [] }])
  expect(readBase(store, id)).toBeNull()
  expect(await readBaseInTurns(store, id)).toBeNull()
  await store.write([{ sql: 'DELETE FROM rooms WHERE notebook_id = ?', values: [id] }])
  expect(pieces()).toBe(0)
})

test('a text that is replaced while it is read in turns is read anew', async () => {
  const fixture = await makeRooms()
  onTestFinished(() => fixture.dispose())
  const { store } = fixture
  const before = { id, hash: 'before', text: new Uint8Array(900_000).fill(1), cell_ids: null }
  const after = { ...before, id: NotebookId.parse('1b5f8a52-6d1c-4e0a-9a55-3f0a4d5e6f70'), hash: 'after' }
  after.text = new Uint8Array(900_000).fill(2)
  for (const state of [before, after])
    await store.write([
      {
        sql: `INSERT INTO rooms (notebook_id, kind, title, working_dir, created_at, touched_at) VALUES (?, 'in-place', 'x', '/', 1, 1)`,
        values: [state.id],
      },
      ...baseRows(state.id, state),
    ])
  // From the second piece on the store is in its other state.
  let state = before
  const found = await readBaseInTurns(
    {
      all: (sql) => store.all(sql, state.id),
      get: <Row>(sql: string, _: unknown, ...piece: number[]) => {
        if (piece[0] === 1) state = after
        return store.get<Row>(sql, state.id, ...piece)
      },
    },
    id,
  )
  expect(state).toBe(after)
  expect(found?.hash).toBe('after')
  expect(found?.text).toEqual(after.text)
})
