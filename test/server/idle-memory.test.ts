import { expect, test } from 'vitest'
import { IdleMemory, thisProcess } from '../../daemon/idle-memory.ts'
import { ManualClock } from '../support/manual-clock.ts'

const MIB = 1024 * 1024

/** A process with `garbage` beside 10 MiB that are in use. */
function fake() {
  const state = { garbage: 50 * MIB, utilization: 0, collections: 0 }
  return {
    state,
    utilization: () => state.utilization,
    heap: () => 10 * MIB + state.garbage,
    collect() {
      state.garbage = 0
      state.collections++
    },
  }
}

test('memory is given back in a quiet moment, by two collections, and not again until there is more', () => {
  const clock = new ManualClock()
  const process = fake()
  const memory = new IdleMemory(clock, process)
  clock.advance(2_000)
  expect(process.state.collections).toBe(1)
  clock.advance(4_000)
  process.state.utilization = 0.5
  clock.advance(2_000)
  process.state.utilization = 0
  clock.advance(4_000)
  expect(process.state.collections, 'a short while of work puts the second off').toBe(1)
  clock.advance(2_000)
  expect(process.state.collections).toBe(2)
  clock.advance(600_000)
  expect(process.state.collections).toBe(2)
  process.state.garbage = 20 * MIB
  clock.advance(8_000)
  expect(process.state.collections).toBe(4)
  memory.dispose()
})

test('nothing is collected while the loop works, nor after the end', () => {
  const clock = new ManualClock()
  const process = fake()
  const memory = new IdleMemory(clock, process)
  process.state.utilization = 0.5
  clock.advance(60_000)
  expect(process.state.collections).toBe(0)
  memory.dispose()
  process.state.utilization = 0
  clock.advance(60_000)
  expect(process.state.collections).toBe(0)
})

test('this process can be made to collect', async () => {
  const seen = new WeakRef({ held: 'by nobody' })
  // What a reference has just been made to stays until the turn is over.
  await new Promise((resolve) => setImmediate(resolve))
  thisProcess().collect()
  expect(seen.deref()).toBeUndefined()
})
