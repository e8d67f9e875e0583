import { beforeEach, describe, expect, it } from 'vitest'
import { RoomdError } from '../../protocol/errors.ts'
import {
  CONTROL_REQUEST_MAX,
  FLAG_MORE,
  FrameType,
  frameRules,
  INITIAL_CREDIT,
  MAX_FRAME_PAYLOAD,
  MAX_QUEUED_CHANNEL,
  MAX_QUEUED_CONNECTION,
} from '../../protocol/frames.ts'
import { Egress, MAX_EPHEMERAL } from '../../protocol/wire/egress.ts'
import { pattern, type RawFrame, readFrames } from './frames.ts'
import { turns } from './memory-transport.ts'

const KiB = 1024
const { CANCEL, CLOSE, REQUEST, RESPONSE, EVENT, DOC, BLOB, EPHEMERAL } = FrameType

describe('egress', () => {
  let pieces: Uint8Array[]
  let writes: number
  let room: boolean
  let writable: number[]
  let onWritable: (channel: number) => void
  let egress: Egress

  beforeEach(() => {
    pieces = []
    writes = 0
    room = true
    writable = []
    onWritable = () => {}
    egress = new Egress({
      framing: 'stream',
      write: (given) => {
        writes++
        pieces.push(...given)
        return room
      },
      writable: (channel) => {
        writable.push(channel)
        onWritable(channel)
      },
      emptied: () => {},
    })
    for (const channel of [1, 3, 5]) egress.open(channel)
  })

  const sent = (): RawFrame[] => readFrames(Buffer.concat(pieces.splice(0)))
  const line = (frames: RawFrame[]): string[] =>
    frames.map(
      ({ type, channel, flags }) =>
        `${frameRules[type as FrameType].name}${flags & FLAG_MORE ? '+' : ''}@${channel}`,
    )

  it('sends control before reliable before bulk before ephemeral, whatever the order of sending', async () => {
    egress.push(EPHEMERAL, 1, pattern(1))
    egress.push(BLOB, 1, pattern(1))
    egress.push(EVENT, 1, pattern(1))
    egress.push(REQUEST, 1, pattern(CONTROL_REQUEST_MAX + 1))
    egress.push(REQUEST, 1, pattern(CONTROL_REQUEST_MAX))
    egress.push(CANCEL, 1, pattern(1))
    await turns()
    const frames = sent()
    expect(line(frames)).toEqual(['REQUEST@1', 'CANCEL@1', 'EVENT@1', 'REQUEST@1', 'BLOB@1', 'EPHEMERAL@1'])
    expect(frames.map(({ payload }) => payload.length)).toEqual([
      CONTROL_REQUEST_MAX,
      1,
      1,
      CONTROL_REQUEST_MAX + 1,
      1,
      1,
    ])
  })

  it('gives channels of a lane their turns frame by frame, and never mixes values inside one', async () => {
    egress.push(DOC, 1, pattern(2 * MAX_FRAME_PAYLOAD + 1))
    egress.push(EVENT, 1, pattern(1))
    egress.push(EVENT, 3, pattern(1))
    egress.push(EVENT, 3, pattern(1))
    egress.push(BLOB, 5, pattern(MAX_FRAME_PAYLOAD + 1))
    egress.push(EVENT, 5, pattern(1))
    await turns()
    expect(line(sent())).toEqual([
      'DOC+@1',
      'EVENT@3',
      'EVENT@5',
      'DOC+@1',
      'EVENT@3',
      'DOC@1',
      'EVENT@1',
      'BLOB+@5',
      'BLOB@5',
    ])
  })

  it('passes no channel over when one before it has nothing more to send', async () => {
    for (const channel of [1, 3, 5, 1, 5, 5]) egress.push(EVENT, channel, pattern(1))
    await turns()
    expect(sent().map(({ channel }) => channel)).toEqual([1, 3, 5, 1, 5, 5])
  })

  it('lets a control frame pass what waits for the transport', async () => {
    room = false
    egress.push(BLOB, 1, pattern(900 * KiB))
    await turns()
    expect(line(sent())).toEqual(['BLOB+@1'])
    egress.push(CANCEL, 3, pattern(1))
    await turns()
    expect(sent()).toEqual([])
    egress.drained()
    expect(line(sent())).toEqual(['CANCEL@3', 'BLOB+@1'])
  })

  it('writes all small frames of one turn at once, and shares large payloads without copying or changing them', async () => {
    const large = pattern(100 * KiB)
    const before = Buffer.from(large)
    for (let n = 0; n < 500; n++) egress.push(EVENT, 1, pattern(20))
    egress.push(EVENT, 1, large)
    egress.push(EVENT, 3, large)
    expect(writes).toBe(0)
    await turns()
    expect(writes).toBe(1)
    expect(pieces.filter((piece) => piece.buffer === large.buffer)).toHaveLength(2)
    expect(Buffer.compare(large, before)).toBe(0)
    expect(sent()).toHaveLength(502)
  })

  it('stops a channel whose credit is used up, finishes the value it began, and goes on with others', async () => {
    egress.push(EVENT, 1, pattern(INITIAL_CREDIT - 1))
    egress.push(DOC, 1, pattern(600 * KiB))
    egress.push(EVENT, 1, pattern(7))
    egress.push(BLOB, 1, pattern(7))
    egress.push(EVENT, 3, pattern(7))
    egress.push(CANCEL, 1, pattern(7))
    egress.push(EPHEMERAL, 1, pattern(7))
    await turns()
    const first = sent()
    expect(first.filter(({ type, channel }) => type === DOC && channel === 1).at(-1)?.flags).toBe(0)
    expect(line(first.filter(({ payload }) => payload.length === 7))).toEqual([
      'CANCEL@1',
      'EVENT@3',
      'EPHEMERAL@1',
    ])
    expect(egress.queued(1)).toBe(2 * 17)
    egress.grant(1, 600 * KiB - 1)
    await turns()
    expect(sent()).toEqual([])
    egress.grant(1, 1)
    await turns()
    expect(line(sent())).toEqual(['EVENT@1'])
    egress.grant(1, 7)
    await turns()
    expect(line(sent())).toEqual(['BLOB@1'])
    expect(egress.queued()).toBe(0)
  })

  it('refuses offers beyond 4 MiB of a channel, stays refused, and tells once when it is empty and has credit', async () => {
    let taken = 0
    while (egress.offer(EVENT, 1, pattern(64 * KiB))) taken++
    expect(egress.queued(1)).toBeLessThanOrEqual(MAX_QUEUED_CHANNEL)
    expect(egress.queued(1)).toBeGreaterThan(MAX_QUEUED_CHANNEL - 65 * KiB)
    expect(egress.offer(EVENT, 3, pattern(1))).toBe(true)
    expect(egress.offer(EVENT, 1, pattern(1))).toBe(false)
    await turns()
    expect(writable).toEqual([])
    for (let n = 0; n < taken; n++) {
      egress.grant(1, 64 * KiB)
      await turns()
    }
    expect(writable).toEqual([1])
    expect(sent().filter(({ channel }) => channel === 1)).toHaveLength(taken)
    expect(egress.offer(EVENT, 1, pattern(1))).toBe(true)
  })

  it('bounds a connection at 16 MiB over all channels, and lets each go on when there is room', async () => {
    room = false
    for (let channel = 101; channel < 121; channel++) egress.open(channel)
    const refused: number[] = []
    for (let channel = 101; channel < 121; channel++) {
      if (!egress.offer(EVENT, channel, pattern(1000 * KiB))) refused.push(channel)
    }
    expect(egress.queued()).toBeLessThanOrEqual(MAX_QUEUED_CONNECTION)
    expect(refused.length).toBeGreaterThan(3)
    await turns()
    expect(writable).toEqual([])
    room = true
    egress.drained()
    expect(writable.sort()).toEqual(refused)
  })

  it('takes a value larger than the bound when nothing waits before it', () => {
    expect(egress.offer(DOC, 1, new Uint8Array(10 * KiB * KiB))).toBe(true)
    expect(egress.offer(EVENT, 1, pattern(1))).toBe(false)
    expect(egress.offer(EVENT, 3, pattern(1))).toBe(true)
  })

  it('does not tell a channel writable again before it refused again, though the handler refills it at once', async () => {
    onWritable = (channel) => {
      if (writable.length < 3) while (egress.offer(EVENT, channel, pattern(1000)));
    }
    while (egress.offer(EVENT, 1, pattern(1000)));
    for (let n = 0; n < 3; n++) {
      egress.grant(1, MAX_QUEUED_CHANNEL)
      await turns()
    }
    expect(writable).toEqual([1, 1, 1])
  })

  it('drops the oldest ephemeral values of a channel and never refuses one', async () => {
    room = false
    egress.push(EVENT, 1, pattern(1))
    await turns()
    sent()
    for (let n = 0; n < MAX_EPHEMERAL + 10; n++)
      expect(egress.offer(EPHEMERAL, 1, Uint8Array.of(n))).toBe(true)
    expect(egress.offer(EPHEMERAL, 3, Uint8Array.of(200))).toBe(true)
    expect(egress.queued(1)).toBe(MAX_EPHEMERAL * 11)
    egress.drained()
    const values = sent().filter(({ channel }) => channel === 1)
    expect(values.map(({ payload }) => payload[0])).toEqual(
      Array.from({ length: MAX_EPHEMERAL }, (_, n) => n + 10),
    )
  })

  it('refuses a value over its cap before anything is written', async () => {
    for (const type of [CLOSE, EPHEMERAL, REQUEST] as const) {
      expect(() => egress.push(type, 1, new Uint8Array(frameRules[type].cap + 1))).toThrow(RoomdError)
      expect(() => egress.offer(type, 1, new Uint8Array(frameRules[type].cap + 1))).toThrow(/over its limit/)
    }
    await turns()
    expect(writes).toBe(0)
    expect(egress.queued()).toBe(0)
  })

  it('drops what waits for a closed channel, a half-sent value too, but still sends its control frames', async () => {
    room = false
    egress.push(RESPONSE, 1, pattern(700 * KiB))
    await turns()
    egress.push(EVENT, 1, pattern(10))
    egress.push(CLOSE, 1, pattern(10))
    egress.push(EVENT, 3, pattern(10))
    egress.close(1)
    room = true
    egress.drained()
    expect(line(sent())).toEqual(['RESPONSE+@1', 'CLOSE@1', 'EVENT@3'])
    expect(egress.queued()).toBe(0)
    egress.push(EVENT, 1, pattern(10))
    expect(egress.offer(EVENT, 1, pattern(10))).toBe(false)
    egress.push(CLOSE, 1, pattern(10))
    await turns()
    expect(line(sent())).toEqual(['CLOSE@1'])
  })

  it('frees the rest of the connection when a channel that filled it closes', async () => {
    room = false
    for (let channel = 101; channel < 121; channel++) egress.open(channel)
    for (let channel = 101; channel < 121; channel++) egress.offer(EVENT, channel, pattern(1000 * KiB))
    expect(egress.offer(EVENT, 3, pattern(1))).toBe(true)
    expect(egress.offer(EVENT, 5, pattern(1000 * KiB))).toBe(false)
    await turns()
    for (let channel = 101; channel < 121; channel++) egress.close(channel)
    room = true
    egress.drained()
    expect(writable).toEqual([5])
  })
})
