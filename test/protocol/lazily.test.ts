import { expect, test } from 'vitest'
import { z } from 'zod'
import { lazily } from '../../protocol/lazily.ts'

const id = lazily(() => z.string().min(1).brand<'Id'>())
const kinds = lazily(() => z.enum(['a', 'b']))
const plain = () =>
  z.object({
    id: z.string().min(1).brand<'Id'>(),
    kind: z.enum(['a', 'b']).default('a'),
    more: z.array(z.discriminatedUnion('op', [z.object({ op: z.literal('x'), n: z.number().int() })])),
  })
const operation = lazily(() => z.object({ op: z.literal('x'), n: z.number().int() }))
const whole = lazily(() =>
  z.object({ id, kind: kinds.default('a'), more: z.array(z.discriminatedUnion('op', [operation])) }),
)

test('a schema is built once, at its first use', () => {
  let built = 0
  const schema = lazily(() => {
    built++
    return z.number()
  })
  expect(built).toBe(0)
  expect(schema.parse(1)).toBe(1)
  expect(schema.safeParse('x').success).toBe(false)
  expect(built).toBe(1)
})

test('it parses, refuses and describes itself as the schema that it stands for, nested or alone', () => {
  const good = { id: 'x', more: [{ op: 'x', n: 1 }] }
  expect(whole.parse(good)).toEqual(plain().parse(good))
  for (const bad of [{}, { id: '', more: [] }, { id: 'x', kind: 'c', more: [{ op: 'y' }] }, null]) {
    expect(whole.safeParse(bad).error?.issues).toEqual(plain().safeParse(bad).error?.issues)
  }
  expect(z.toJSONSchema(whole, { io: 'input' })).toEqual(z.toJSONSchema(plain(), { io: 'input' }))
  expect(z.toJSONSchema(z.object({ id }))).toEqual(z.toJSONSchema(z.object({ id: z.string().min(1) })))
})

test('it is derived from as any other, and known by its kind', () => {
  const extended = lazily(() => operation.extend({ extra: z.boolean() }))
  expect(extended.parse({ op: 'x', n: 1, extra: true })).toEqual({ op: 'x', n: 1, extra: true })
  expect(kinds.options).toEqual(['a', 'b'])
  expect(
    lazily(() => z.object({ n: z.number() }))
      .strict()
      .safeParse({ n: 1, m: 2 }).success,
  ).toBe(false)
  expect(lazily(() => z.string()) instanceof z.ZodString).toBe(true)
  expect(lazily(() => z.string().describe('said')).description).toBe(z.string().describe('said').description)
})
