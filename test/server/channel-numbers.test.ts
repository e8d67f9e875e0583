import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ChannelNumbers } from '../../daemon/server/channel-numbers.ts'

test('odd numbers are taken once each, in any order; others never', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.nat(40), fc.nat(2 ** 32 - 1))), (asked) => {
      const numbers = new ChannelNumbers()
      const used = new Set<number>()
      for (const channel of asked) {
        expect(numbers.take(channel)).toBe(channel % 2 === 1 && !used.has(channel))
        used.add(channel)
      }
    }),
  )
})
