/** A child that is killed at each point of a call, with others in parallel: each is answered once, with effects that happen once. */
import { expect, test } from 'vitest'
import { withBench } from './support/bench.ts'

for (const point of ['received', 'effect', 'answered'] as const) {
  for (const share of [0, 25, 50, 100]) {
    const what = `a child that is killed (${point}) in ${share} % of 20 parallel calls`
    test(`${what}: each is answered once, each effect happens once`, () =>
      withBench(async (bench) => {
        await bench.hello()
        const marked = Math.round((20 * share) / 100)
        // All of one share die in the same child: a second death needs a second start, and there is a budget.
        const ids = Array.from({ length: 20 }, (_, n) =>
          bench.tool('work', n < marked ? { die: point, once: `dead-${n % 3}` } : {}),
        )
        for (const id of ids) {
          const result = await bench.result(id)
          expect(result.isError, JSON.stringify(result)).toBeUndefined()
        }
        const bases = Array.from({ length: 20 }, (_, n) => 64 * (n + 1))
        expect(bench.effects.sort((a, b) => a - b)).toEqual(bases)
        for (const id of ids) expect(bench.answers(id)).toHaveLength(1)
        if (marked > 0) await bench.started(2)
      }))
  }
}
