import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Backoff } from '../../client/sdk/backoff.ts'

const delays = (backoff: Backoff, count: number) => Array.from({ length: count }, () => backoff.next())

test('the first retry is at once, then 250 ms doubling to 5 s', () => {
  expect(delays(new Backoff(() => 0.5), 8)).toEqual([0, 250, 500, 1000, 2000, 4000, 5000, 5000])
})

test('each delay is within 25 % of its step', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 0.999, noNaN: true }), (random) => {
      const steady = delays(new Backoff(() => 0.5), 10)
      const jittered = delays(new Backoff(() => random), 10)
      jittered.forEach((delay, i) => {
        const step = steady[i] ?? 0
        expect(delay).toBeGreaterThanOrEqual(Math.floor(step * 0.75))
        expect(delay).toBeLessThanOrEqual(Math.ceil(step * 1.25))
      })
    }),
  )
})

test('it starts over after 10 s of stability, not before', () => {
  const backoff = new Backoff(() => 0.5)
  delays(backoff, 4)
  backoff.up(0)
  backoff.down(9_999)
  expect(backoff.next()).toBe(2000)
  backoff.up(20_000)
  backoff.down(30_000)
  expect(backoff.next()).toBe(0)
})

test('news starts it over', () => {
  const backoff = new Backoff(() => 0.5)
  delays(backoff, 5)
  backoff.reset()
  expect(backoff.next()).toBe(0)
})
