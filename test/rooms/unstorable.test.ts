import { afterEach, beforeEach, expect, test } from 'vitest'
import { WRITE_RETRY_MS } from '../../daemon/rooms/room.ts'
import { methods } from '../../protocol/methods.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

let fixture: RoomsFixture

beforeEach(async () => {
  fixture = await makeRooms()
})

afterEach(() => fixture.dispose())

function nested(levels: number): Record<string, unknown> {
  let value: Record<string, unknown> = {}
  for (let level = 1; level < levels; level++) value = { inside: value }
  return value
}

test('metadata nested deeper than a file may hold is refused by name', () => {
  const params = methods.edit?.params
  const operations = (levels: number) => ({
    operations: [{ op: 'set_cell_metadata', cell_id: 'a', metadata: nested(levels) }],
  })
  expect(params?.safeParse(operations(500)).success).toBe(true)
  const refused = params?.safeParse(operations(100_000))
  expect(refused?.error?.issues[0]).toMatchObject({
    path: ['operations', 0, 'metadata'],
    message: expect.stringContaining('500 levels'),
  })
})

test('a change that cannot be written down is taken back at once and fails no later change', async () => {
  const path = fixture.notebook('a.ipynb', ['1'])
  const peer = await fixture.rooms.attach(
    opening({ path }, 'open'),
    fixture.context(),
    new RememberingChannel(),
  )
  const edit = (operation: object) => peer.request('edit', { operations: [operation] }, fixture.context())
  const { cells } = (await peer.request('get_cells', { start: 0, count: 1 }, fixture.context())) as {
    cells: { cell_id: string }[]
  }
  const cell_id = cells[0]?.cell_id
  // Past the border, as an update of Yjs may bring it; how deep is too deep is the stack's to say.
  let failure: unknown = null
  let levels = 1_000
  for (; failure === null && levels < 50_000; levels += 500) {
    await edit({ op: 'set_cell_metadata', cell_id, metadata: nested(levels) }).catch((error) => {
      failure = error
    })
  }
  expect(failure).not.toBeNull()
  fixture.clock.advance(WRITE_RETRY_MS)
  await fixture.store.settled()
  await edit({ op: 'create_cell', source: 'kept', cell_type: 'code' })
  await edit({ op: 'create_cell', source: 'kept too', cell_type: 'code' })
  expect(await peer.request('get_cells', { start: 0, count: 10 }, fixture.context())).toMatchObject({
    total: 3,
  })
})
