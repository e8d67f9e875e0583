import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RoomdError } from '../../protocol/errors.ts'
import { FLAG_MORE, FrameType, frameRules, MAX_FRAME_PAYLOAD } from '../../protocol/frames.ts'
import { Parser } from '../../protocol/wire/parser.ts'
import { more, pattern, raw } from './frames.ts'

interface Seen {
  type: FrameType
  channel: number
  payload: Uint8Array
}

function collecting(wanted: (type: FrameType, channel: number) => boolean = () => true) {
  const values: Seen[] = []
  const headers: number[] = []
  const parser = new Parser('stream', {
    frame: (type, channel, length) => {
      headers.push(length)
      return wanted(type, channel)
    },
    value: (type, channel, payload) => values.push({ type, channel, payload }),
  })
  return { parser, values, headers }
}

function summary(values: Seen[]): unknown[] {
  return values.map(({ type, channel, payload }) => [type, channel, Buffer.from(payload).toString('base64')])
}

function refusal(run: () => void): RoomdError {
  try {
    run()
  } catch (error) {
    if (error instanceof RoomdError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const join = (...parts: Uint8Array[]) => new Uint8Array(Buffer.concat(parts))

describe('the parser', () => {
  it('reads the same values for every pair of cuts of a stream with fragments, unknown types and empty frames', () => {
    const stream = join(
      raw('stream', FrameType.PING, 0, pattern(8)),
      more('stream', FrameType.DOC, 3, pattern(7, 2)),
      raw('stream', FrameType.EVENT, 5, pattern(4, 3)),
      raw('stream', 0x77, 9, pattern(5, 4)),
      more('stream', FrameType.DOC, 3, new Uint8Array(0)),
      raw('stream', FrameType.DOC, 3, pattern(3, 5)),
      raw('stream', FrameType.READINESS, 1),
      raw('stream', FrameType.REQUEST, 0xffffffff, pattern(6, 6)),
    )
    const whole = collecting()
    whole.parser.push(stream)
    expect(whole.values.map(({ type, channel, payload }) => [type, channel, payload.length])).toEqual([
      [FrameType.PING, 0, 8],
      [FrameType.EVENT, 5, 4],
      [FrameType.DOC, 3, 10],
      [FrameType.READINESS, 1, 0],
      [FrameType.REQUEST, 0xffffffff, 6],
    ])
    const expected = summary(whole.values)
    for (let first = 0; first <= stream.length; first++) {
      for (let second = first; second <= stream.length; second++) {
        const { parser, values } = collecting()
        parser.push(stream.subarray(0, first))
        parser.push(stream.subarray(first, second))
        parser.push(stream.subarray(second))
        expect(summary(values)).toEqual(expected)
      }
    }
    const trickle = collecting()
    for (const byte of stream) trickle.parser.push(Uint8Array.of(byte))
    expect(summary(trickle.values)).toEqual(expected)
    expect(trickle.parser.midValue).toBe(false)
  })

  it('reads any sequence of values cut anywhere', () => {
    const value = fc.record({
      type: fc.constantFrom(
        FrameType.EVENT,
        FrameType.DOC,
        FrameType.BLOB,
        FrameType.REQUEST,
        FrameType.CLOSE,
      ),
      channel: fc.constantFrom(0, 1, 3, 0xfffffffe),
      parts: fc.array(fc.nat({ max: 9000 }), { minLength: 1, maxLength: 4 }),
      unknown: fc.boolean(),
    })
    fc.assert(
      fc.property(
        fc.array(value, { maxLength: 8 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        (sequence, cuts) => {
          const bytes: Uint8Array[] = []
          const wanted: unknown[] = []
          sequence.forEach(({ type, channel, parts, unknown }, seed) => {
            const payloads = parts.map((length, n) => pattern(length, seed * 7 + n + 1))
            payloads.forEach((payload, n) => {
              bytes.push(raw('stream', type, channel, payload, n < payloads.length - 1 ? FLAG_MORE : 0))
              if (unknown) bytes.push(raw('stream', 0xee, channel, pattern(17), 0xff))
            })
            wanted.push([type, channel, Buffer.concat(payloads).toString('base64')])
          })
          const stream = join(...bytes)
          const at = [0, ...cuts.map((cut) => cut % (stream.length + 1)).sort((a, b) => a - b), stream.length]
          const { parser, values } = collecting()
          for (let n = 1; n < at.length; n++) parser.push(stream.subarray(at[n - 1], at[n]))
          expect(summary(values)).toEqual(wanted)
        },
      ),
      { numRuns: 150 },
    )
  })

  it('hands out a value that lies in one chunk as a view of it, and copies nothing', () => {
    const { parser, values } = collecting()
    const chunk = join(
      raw('stream', FrameType.EVENT, 1, pattern(100)),
      raw('stream', FrameType.DOC, 1, pattern(5000)),
    )
    parser.push(chunk)
    expect(values.map(({ payload }) => payload.buffer === chunk.buffer)).toEqual([true, true])
  })

  it('refuses a frame over the physical limit after its ten header bytes, of known and unknown type alike', () => {
    for (const type of [FrameType.BLOB, 0x99]) {
      const header = Buffer.alloc(10)
      header.writeUInt32BE(MAX_FRAME_PAYLOAD + 1, 0)
      header.writeUInt8(type, 4)
      const { parser, headers } = collecting()
      parser.push(header.subarray(0, 9))
      const error = refusal(() => parser.push(header.subarray(9)))
      expect(error.code).toBe('too_large')
      expect(headers).toEqual([])
    }
  })

  it('takes values up to their cap over all fragments and refuses the header that passes it', () => {
    for (const [name, rule] of Object.entries(frameRules)) {
      if (rule.cap > 16 * 1024 * 1024) continue
      const type = Number(name) as FrameType
      const { parser, values } = collecting()
      let left = rule.cap
      while (left > MAX_FRAME_PAYLOAD) {
        parser.push(more('stream', type, 1, new Uint8Array(MAX_FRAME_PAYLOAD)))
        left -= MAX_FRAME_PAYLOAD
      }
      parser.push(more('stream', type, 1, new Uint8Array(left)))
      const over = Buffer.from(raw('stream', type, 1, new Uint8Array(1)).subarray(0, 10))
      expect(refusal(() => parser.push(over)).code).toBe('too_large')
      expect(values).toEqual([])
      const exact = collecting()
      for (let sent = 0; sent < rule.cap; sent += MAX_FRAME_PAYLOAD) {
        const length = Math.min(MAX_FRAME_PAYLOAD, rule.cap - sent)
        exact.parser.push(
          raw('stream', type, 1, new Uint8Array(length), sent + length < rule.cap ? FLAG_MORE : 0),
        )
      }
      expect(exact.values.map(({ payload }) => payload.length)).toEqual([rule.cap])
    }
  })

  it('steps over frames that nobody wants, also when they end in another chunk', () => {
    const { parser, values } = collecting((_type, channel) => channel !== 7)
    const stream = join(
      raw('stream', FrameType.DOC, 7, pattern(1000)),
      more('stream', FrameType.EVENT, 7, pattern(10)),
      raw('stream', FrameType.EVENT, 9, pattern(3)),
      raw('stream', FrameType.EVENT, 7, pattern(10)),
    )
    parser.push(stream.subarray(0, 500))
    parser.push(stream.subarray(500))
    expect(values.map(({ channel }) => channel)).toEqual([9])
  })

  it('forgets the unfinished values of a channel that was closed, and goes on with the others', () => {
    const { parser, values } = collecting()
    parser.push(more('stream', FrameType.DOC, 3, pattern(10)))
    parser.push(more('stream', FrameType.DOC, 5, pattern(10)))
    const half = raw('stream', FrameType.BLOB, 3, pattern(100))
    parser.push(half.subarray(0, 50))
    parser.drop(3)
    parser.push(half.subarray(50))
    parser.push(raw('stream', FrameType.DOC, 5, pattern(10)))
    expect(values.map(({ type, channel, payload }) => [type, channel, payload.length])).toEqual([
      [FrameType.DOC, 5, 20],
    ])
  })

  it('refuses a value inside another of the same lane and channel; other lanes and channels may interleave', () => {
    const { parser, values } = collecting()
    parser.push(more('stream', FrameType.DOC, 3, pattern(10)))
    parser.push(raw('stream', FrameType.BLOB, 3, pattern(10)))
    parser.push(raw('stream', FrameType.CLOSE, 3, pattern(10)))
    parser.push(raw('stream', FrameType.EVENT, 5, pattern(10)))
    expect(values).toHaveLength(3)
    expect(refusal(() => parser.push(raw('stream', FrameType.EVENT, 3, pattern(10)))).code).toBe(
      'invalid_argument',
    )
  })

  it('refuses flags it does not know and more unfinished values than any peer needs', () => {
    const flags = collecting()
    expect(
      refusal(() => flags.parser.push(raw('stream', FrameType.EVENT, 1, pattern(1), 2))).message,
    ).toContain('unknown flags')
    const many = collecting()
    const error = refusal(() => {
      for (let channel = 1; channel < 5000; channel++)
        many.parser.push(more('stream', FrameType.DOC, channel, pattern(1)))
    })
    expect(error.code).toBe('overloaded')
  })

  it('parses nothing more after a refusal or a stop from inside', () => {
    const refused = collecting()
    refusal(() => refused.parser.push(raw('stream', FrameType.EVENT, 1, pattern(1), 4)))
    refused.parser.push(raw('stream', FrameType.EVENT, 1, pattern(1)))
    expect(refused.values).toEqual([])
    const seen: number[] = []
    const parser: Parser = new Parser('stream', {
      frame: () => true,
      value: (_type, channel) => {
        seen.push(channel)
        if (channel === 2) parser.stop()
      },
    })
    parser.push(join(...[1, 2, 3].map((channel) => raw('stream', FrameType.EVENT, channel))))
    expect(seen).toEqual([1, 2])
  })

  it('survives garbage: it refuses or steps over, holds no more than it was sent, and is the same for every cut', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(), (garbage, cut) => {
        const run = (pieces: Uint8Array[]): unknown => {
          const { parser, values } = collecting()
          let error: string | undefined
          for (const piece of pieces) {
            try {
              parser.push(piece)
            } catch (thrown) {
              expect(thrown).toBeInstanceOf(RoomdError)
              error = (thrown as RoomdError).code
            }
          }
          return [summary(values), error]
        }
        const at = cut % (garbage.length + 1)
        expect(run([garbage.subarray(0, at), garbage.subarray(at)])).toEqual(run([garbage]))
      }),
      { numRuns: 500 },
    )
  })

  it('joins a value that trickles in byte by byte, at every alignment to its blocks', () => {
    for (const length of [1, 4095, 4096, 4097, 16383, 16384, 16385, 40000]) {
      const payload = pattern(length)
      const { parser, values } = collecting()
      for (const byte of raw('stream', FrameType.DOC, 1, payload)) parser.push(Uint8Array.of(byte))
      expect(values.map((value) => Buffer.compare(value.payload, payload))).toEqual([0])
    }
  })
})
