import { expect, test } from 'vitest'
import { CallTable } from '../../client/sdk/calls.ts'
import { MutationIds } from '../../client/sdk/mutation-ids.ts'
import { systemClock } from '../../protocol/clock.ts'

test('a call that cannot be encoded is refused as an argument, and holds nothing', async () => {
  let needed = 0
  const mutations = new MutationIds()
  const calls = new CallTable({
    clock: systemClock,
    mutations,
    needDaemon: () => {
      needed++
      return () => {
        needed--
      }
    },
    refusedForMs: 0,
  })
  const sent: unknown[] = []
  calls.attach(
    (type) => sent.push(type),
    () => true,
  )
  let metadata: Record<string, unknown> = {}
  for (let level = 0; level < 100_000; level++) metadata = { inside: metadata }
  const operations = [{ op: 'set_cell_metadata', cell_id: 'a', metadata }]
  await expect(calls.call('edit', { operations })).rejects.toMatchObject({ code: 'invalid_argument' })
  expect(sent).toEqual([])
  expect(needed).toBe(0)
})
