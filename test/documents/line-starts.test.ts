import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineStarts } from '../../daemon/documents/ipynb/line-starts.ts'

test('the line of every offset begins where looking back for a line break finds it', () => {
  const text = fc.string({ unit: fc.constantFrom('a', '\n', '\r\n', '😀'), maxLength: 40 })
  fc.assert(
    fc.property(text, (whole) => {
      const lines = new LineStarts(whole)
      for (let offset = 0; offset <= whole.length; offset++) {
        const before = offset === 0 ? 0 : whole.lastIndexOf('\n', offset - 1) + 1
        expect(lines.before(offset)).toBe(before)
      }
    }),
  )
})
