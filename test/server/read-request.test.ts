import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readRequest } from '../../daemon/server/read-request.ts'
import { Request } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'

const whole = fc.oneof(
  fc.integer(),
  fc.constantFrom(0, 1, -1, 1.5, Number.NaN, Number.MAX_SAFE_INTEGER, 2 ** 53, '1', null, true),
)
const maybe = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined })
const envelope = fc.record({
  id: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1 }) }, { weight: 1, arbitrary: whole }),
  method: fc.oneof(fc.string({ maxLength: 120 }), fc.constantFrom('ping', 7, null)),
  params: fc.anything(),
  deadline_ms: maybe(fc.oneof(fc.double(), fc.constantFrom(0, 1, 7 * 86_400_000, 7 * 86_400_001, '5'))),
  mutation_id: maybe(whole),
  watermark: maybe(whole),
  expect: maybe(
    fc.oneof(
      fc.record({
        doc_seq: maybe(whole),
        event_seq: maybe(whole),
        activation_generation: maybe(whole),
      }),
      fc.constantFrom(null, 3, 'x', [1]),
    ),
  ),
})

test('the guard accepts exactly what the schema of REQUEST accepts', () => {
  fc.assert(
    fc.property(envelope, (value) => {
      // Not everything can be written: those never arrive.
      let payload: Uint8Array
      try {
        payload = encode({ ...value, params: {} })
      } catch {
        return
      }
      expect(readRequest(payload).ok).toBe(Request.safeParse({ ...value, params: {} }).success)
    }),
    { numRuns: 3000 },
  )
})

test('bytes that are no map have no id to answer to', () => {
  for (const payload of [
    new Uint8Array(),
    new Uint8Array([0xc1]),
    encode([1]),
    encode('x'),
    encode(null),
    encode({}),
  ]) {
    expect(readRequest(payload)).toMatchObject({ ok: false, id: null })
  }
})

test('a request with a readable id and a fault can be answered', () => {
  expect(readRequest(encode({ id: 3, method: 5 }))).toMatchObject({ ok: false, id: 3 })
})
