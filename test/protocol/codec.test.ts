import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decode, encode, encodeAny } from '../../protocol/codec.ts'
import { encodePlain } from '../../protocol/encode-plain.ts'

const hex = (value: unknown): string => Buffer.from(encode(value)).toString('hex')
const bytes = (text: string): Uint8Array => Buffer.from(text.replaceAll(' ', ''), 'hex')

describe('the codec', () => {
  it('writes plain maps, and leaves undefined members out at any depth', () => {
    expect(hex({ a: undefined, b: { c: undefined, d: 1 } })).toBe('81a16281a16401')
    expect(hex([undefined, { a: undefined }])).toBe('92c080')
    expect(hex(undefined)).toBe('c0')
  })

  it('makes no extension of anything it is given', () => {
    const values: [unknown, unknown][] = [
      [new Date(5), '1970-01-01T00:00:00.005Z'],
      [{ at: new Date(5) }, { at: '1970-01-01T00:00:00.005Z' }],
      [new Map([['a', new Set([1])]]), { a: [1] }],
      [/x/g, ['x', 'g']],
      [new TypeError('no'), ['TypeError', 'no', null]],
      [new Float32Array([1]), Uint8Array.of(0, 0, 0x80, 0x3f)],
      [new Uint8Array([1, 2]).buffer, Uint8Array.of(1, 2)],
      [5n, 5],
    ]
    for (const [value, plain] of values) expect(decode(encode(value))).toEqual(plain)
  })

  it('refuses what cannot travel', () => {
    for (const value of [() => 1, { f() {} }, Symbol('s'), 2n ** 70n]) expect(() => encode(value)).toThrow()
    expect(decode(encode({ after: 'a failure' }))).toEqual({ after: 'a failure' })
  })

  it('reads one value and nothing else: no extension, no record, no rest, no half', () => {
    const wrong = [
      '',
      'c0c0',
      '81',
      'a5616263',
      'c403 0102',
      'dd7fffffff',
      'df7fffffff',
      'c6ffffffff',
      'd40000',
      'd6ff00000000',
      'd7ff0000000000000000',
      'd47240 91a161 01',
      'd5726000 91a161 01',
      'd47300 9101',
      'd47800 92a161a0',
      'd47400 9101',
      'd66900000001 9101',
      'd67000000001',
      'd662 00000005 a0a0',
      'c7014200',
      '81a161d40000',
    ]
    for (const text of wrong) expect(() => decode(bytes(text)), text).toThrow(/not one MessagePack value/)
    expect(decode(encode([70, 0x7f]))).toEqual([70, 0x7f])
  })

  it('hands out bytes of its own: later values and large ones leave earlier ones alone', () => {
    const first = encode({ text: 'first' })
    const copy = Buffer.from(first)
    encode({ text: 'x'.repeat(3_000_000) })
    for (let n = 0; n < 1000; n++) encode({ text: `later ${n}` })
    expect(Buffer.compare(first, copy)).toBe(0)
    expect(first.buffer.byteLength).toBe(first.length)
  })

  it('brings any JSON value back', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        fc.pre(!JSON.stringify(value).includes('__proto__'))
        // -0 is 0 in MessagePack's integers as in JSON's text.
        expect(decode(encode(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  it('writes plain data itself, and means by it what msgpackr means', () => {
    const long = fc.nat(70_000).map((length) => 'aü😀'.repeat(length).slice(0, length))
    const halves = fc.string({
      unit: fc.constantFrom('a', 'é', '€', '😀', '\ud800', '\udc00'),
      maxLength: 80,
    })
    const leaf = fc.oneof(
      fc.constantFrom(
        undefined,
        null,
        true,
        false,
        Number.NaN,
        Infinity,
        -0,
        2 ** 53,
        -(2 ** 31) - 1,
        2 ** 32,
      ),
      fc.integer(),
      fc.integer({ min: -300, max: 70_000 }),
      fc.double(),
      halves,
      fc.uint8Array({ maxLength: 400 }),
      fc.uint8Array({ maxLength: 9 }).map((given) => Buffer.from(given)),
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie('value'), { maxLength: 20 }),
        fc.dictionary(
          fc.string().filter((name) => name !== '__proto__'),
          tie('value'),
          { noNullPrototype: true, maxKeys: 20 },
        ),
      ),
    }))
    const same = (given: unknown): void => {
      const written = encodePlain(given)
      expect(written && decode(written)).toEqual(decode(encodeAny(given)))
    }
    fc.assert(fc.property(value, same), { numRuns: 400 })
    fc.assert(fc.property(long, same), { numRuns: 10 })
    same(Array.from({ length: 70_000 }, (_, i) => i))
    same(Object.fromEntries(Array.from({ length: 70_000 }, (_, i) => [`k${i}`, i % 3 ? i : undefined])))
  })

  it('leaves to msgpackr what is not plain, wherever it is', () => {
    class Own {
      a = 1
    }
    const values = [
      new Date(5),
      new Map(),
      new Set(),
      5n,
      () => 1,
      Symbol('s'),
      new Own(),
      new Float32Array(1),
    ]
    for (const value of values) {
      expect(encodePlain(value)).toBeNull()
      expect(encodePlain({ a: [1, { b: value }] })).toBeNull()
    }
  })

  it('never does anything but decode or throw on garbage', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (garbage) => {
        try {
          decode(garbage)
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_argument' })
        }
        expect(decode(encode({ still: 'works' }))).toEqual({ still: 'works' })
      }),
      { numRuns: 2000 },
    )
  })

  it('loads no native module', () => {
    const report = process.report.getReport() as unknown as { sharedObjects: string[] }
    expect(report.sharedObjects.filter((file) => file.includes('msgpackr'))).toEqual([])
  })
})
