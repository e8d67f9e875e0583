import { expect, test } from 'vitest'
import { BulkWriter } from '../../daemon/store/bulk-writer.ts'
import type { WriteUnit } from '../../daemon/store/store.ts'

const unit = (n: number): WriteUnit => [{ sql: `${n}`, values: [] }]

/** Takes what is handed over and settles it when told to. */
class Hands {
  readonly taken: {
    readonly sql: string
    readonly resolve: () => void
    readonly reject: (e: Error) => void
  }[] = []
  lasting = 0

  writeShared(given: WriteUnit, _packed?: Uint8Array, lasting = true): Promise<void> {
    if (lasting) this.lasting++
    return new Promise((resolve, reject) => this.taken.push({ sql: given[0]?.sql ?? '', resolve, reject }))
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('hands over few at a time and in order, none to last by itself; is done when all are stored', async () => {
  const hands = new Hands()
  const writer = new BulkWriter(hands)
  for (let n = 0; n < 20; n++) writer.add(unit(n))
  let done = false
  writer.done().then(() => {
    done = true
  })
  for (let settled = 0; settled < 20; settled++) {
    await turn()
    expect(hands.taken.length).toBe(Math.min(20, settled + 4))
    expect(done).toBe(false)
    hands.taken[settled]?.resolve()
  }
  await turn()
  expect(done).toBe(true)
  expect(hands.taken.map(({ sql }) => sql)).toEqual(Array.from({ length: 20 }, (_, n) => `${n}`))
  expect(hands.lasting).toBe(0)
})

test('stops at the first failure, and tells it when nothing is under way any more', async () => {
  const hands = new Hands()
  const writer = new BulkWriter(hands)
  for (let n = 0; n < 20; n++) writer.add(unit(n))
  const done = writer.done()
  let told = false
  done.catch(() => {
    told = true
  })
  hands.taken[1]?.reject(new Error('the disk is full'))
  await turn()
  writer.add(unit(20))
  expect(hands.taken).toHaveLength(4)
  expect(told).toBe(false)
  for (const one of hands.taken) one.resolve()
  await expect(done).rejects.toThrow('the disk is full')
  expect(hands.taken).toHaveLength(4)
})
