/** What is read by hand is what the schema reads. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readTextEvent } from '../../client/sdk/text-events.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { EventEnvelope } from '../../protocol/events.ts'

const odd = fc.constantFrom<unknown>(
  null,
  undefined,
  -1,
  0,
  1.5,
  2 ** 60,
  Number.NaN,
  '',
  'x',
  [],
  {},
  true,
  new Uint8Array(2),
)
/** Right, and now and then something else. */
const mostly = (right: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 40, arbitrary: right }, odd)

/** Mostly absent. */
const rarely = (value: unknown): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(undefined) }, fc.constant(value))

const length = mostly(fc.integer({ min: 1, max: 1000 }))
const step = fc.oneof(
  fc.record({ retain: length, insert: rarely('both') }),
  fc.record({ delete: length, more: rarely(1) }),
  fc.record({ insert: mostly(fc.string({ maxLength: 5 })) }),
)
const change = fc.record({
  cell_id: mostly(fc.constantFrom('a', 'x'.repeat(128), 'x'.repeat(129))),
  source: mostly(fc.array(mostly(step), { maxLength: 4 })),
  cell_type: rarely('code'),
})
const event = fc.record({
  type: fc.constantFrom('cells', 'cells', 'cells', 'peers'),
  doc_seq: mostly(fc.nat()),
  by: mostly(fc.string({ maxLength: 5 })),
  delta: mostly(fc.constantFrom([], [], [], [{ retain: 1 }])),
  changes: mostly(fc.array(mostly(change), { maxLength: 4 })),
  parts: fc.option(mostly(fc.array(mostly(fc.integer({ min: 1, max: 3 })), { maxLength: 4 })), {
    nil: undefined,
  }),
  metadata: rarely({}),
})
const envelope = fc.record({
  at: mostly(fc.nat()),
  event: mostly(event),
  event_seq: rarely(1),
  more: rarely(1),
})

test('whatever it takes, the schema takes, and makes the same of it', () => {
  let taken = 0
  fc.assert(
    fc.property(envelope, (value) => {
      const sent = decode(encode(value))
      const read = readTextEvent(sent)
      if (!read) return
      taken++
      expect(EventEnvelope.parse(sent)).toEqual(read)
    }),
    { numRuns: 3000 },
  )
  expect(taken).toBeGreaterThan(100)
})

test('edits that set texts are read by hand, alone and together', () => {
  const changes = [
    { cell_id: 'a', source: [{ retain: 3 }, { insert: 'x' }, { delete: 1 }] },
    { cell_id: 'b', source: [] },
  ]
  const alone = { at: 5, event: { type: 'cells', doc_seq: 7, by: 'me', delta: [], changes } }
  const together = { at: 5, event: { ...alone.event, parts: [1, 1] } }
  for (const value of [alone, together]) expect(readTextEvent(decode(encode(value)))).toEqual(value)
})
