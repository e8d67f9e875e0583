/** Results of mutations that came together share a row, and are known, forgotten and counted one by one. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { KEPT_RESULTS_MS, type Mutation, Mutations } from '../../daemon/rooms/mutations.ts'
import type { ClientInstance } from '../../protocol/ids.ts'
import { makeRooms, mutation, type RoomsFixture } from './fixture.ts'

const CLIENT = 'test-instance' as ClientInstance
const OTHER = 'other-instance' as ClientInstance

let fixture: RoomsFixture

beforeEach(async () => {
  fixture = await makeRooms()
})

afterEach(() => fixture.dispose())

const made = (id: number, clientInstance = CLIENT): Mutation => ({
  clientInstance,
  id: mutation(id),
  method: 'edit',
  notebookId: null,
  begunAt: null,
})

const fresh = (): Mutations => new Mutations(fixture.store, fixture.clock)

const store = (of: Mutations, results: readonly Mutation[]) =>
  fixture.store.write(of.resultRowsOf(results.map((one) => ({ mutation: one, value: answerTo(one) }))))

const answerTo = ({ clientInstance, id }: Mutation) => ({ of: `${clientInstance} ${id}` })

/** The answer to it when it is sent again; `ran`: it was taken for new. */
const again = (of: Mutations, one: Mutation, watermark?: number) =>
  of.run({ clientInstance: one.clientInstance, id: one.id, watermark }, 'edit', null, async () => 'ran')

const ids = (): unknown[] =>
  fixture.store.all('SELECT mutation_id, last_id FROM mutations WHERE client_instance = ?', CLIENT)

test('ids that follow on are one row, each answered as it was, in whatever order they came', async () => {
  const all = [4, 2, 3, 7, 9, 8, 12].map((id) => made(id))
  const others = [3, 4].map((id) => made(id, OTHER))
  await store(fresh(), [...all, ...others])
  expect(ids()).toEqual([
    { mutation_id: 2, last_id: 4 },
    { mutation_id: 7, last_id: 9 },
    { mutation_id: 12, last_id: null },
  ])
  const after = fresh()
  for (const one of [...all, ...others]) expect(await again(after, one)).toEqual(answerTo(one))
  for (const id of [1, 5, 6, 10, 11]) expect(await again(after, made(id))).toBe('ran')
})

test('a new process counts on from the last of a row', async () => {
  await store(
    fresh(),
    [5, 6, 7].map((id) => made(id)),
  )
  expect(fresh().instance(CLIENT).mutation_id).toBe(7)
})

test('a row goes when the last of it is settled; before that, what is not settled is still known', async () => {
  const run = Array.from({ length: 100 }, (_, i) => made(i + 1))
  await store(fresh(), run)
  const mutations = fresh()
  expect(await again(mutations, made(100), 80)).toEqual(answerTo(made(100)))
  await store(mutations, [made(101)])
  expect(ids()).toHaveLength(2)
  const after = fresh()
  await expect(again(after, made(79))).rejects.toMatchObject({ code: 'outcome_unknown' })
  expect(await again(after, made(80))).toEqual(answerTo(made(80)))
  expect(await again(after, made(200), 200)).toBe('ran')
  await store(after, [made(200)])
  expect(ids()).toEqual([{ mutation_id: 200, last_id: null }])
})

test('after a day all of a row is forgotten, and none of it is run again', async () => {
  const mutations = fresh()
  await store(
    mutations,
    [5, 6, 7].map((id) => made(id)),
  )
  fixture.clock.advance(KEPT_RESULTS_MS + 1)
  await mutations.forgetOld()
  expect(ids()).toEqual([])
  await expect(again(fresh(), made(7))).rejects.toMatchObject({ code: 'outcome_unknown' })
  expect(await again(fresh(), made(8))).toBe('ran')
})
