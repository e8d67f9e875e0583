import { beforeEach, describe, expect, it } from 'vitest'
import { PING_IDLE_MS } from '../../protocol/frames.ts'
import { Liveness } from '../../protocol/wire/liveness.ts'
import { ManualClock } from '../support/manual-clock.ts'

describe('liveness', () => {
  let clock: ManualClock
  let pings: number
  let dead: number
  let liveness: Liveness

  beforeEach(() => {
    clock = new ManualClock()
    pings = 0
    dead = 0
    liveness = new Liveness(clock, { ping: () => pings++, dead: () => dead++ })
  })

  it('sends nothing while something is read', () => {
    for (let n = 0; n < 20; n++) {
      clock.advance(PING_IDLE_MS - 1)
      liveness.read()
    }
    expect([pings, dead]).toEqual([0, 0])
  })

  it('pings after 15 s of silence and is content with any answer', () => {
    clock.advance(PING_IDLE_MS)
    expect(pings).toBe(1)
    clock.advance(10)
    liveness.read()
    expect(liveness.idle()).toBe(0)
    clock.advance(PING_IDLE_MS - 1)
    expect(pings).toBe(1)
    clock.advance(1)
    expect([pings, dead]).toEqual([2, 0])
  })

  it('calls the other side dead after two PINGs without anything read', () => {
    clock.advance(PING_IDLE_MS * 3 - 1)
    expect([pings, dead]).toEqual([2, 0])
    clock.advance(60_000)
    expect([pings, dead]).toEqual([2, 1])
    expect(clock.pending).toEqual([])
  })

  it('looks once more before that, so that an answer already in the socket counts', () => {
    clock.advance(PING_IDLE_MS * 3)
    expect(dead).toBe(0)
    liveness.read()
    clock.advance(PING_IDLE_MS - 1)
    expect([pings, dead]).toEqual([2, 0])
  })

  it('starts the count again after a suspend at any moment', () => {
    for (const into of [0, 1, PING_IDLE_MS - 1, PING_IDLE_MS, PING_IDLE_MS * 2, PING_IDLE_MS * 3]) {
      const own = new ManualClock()
      let lost = 0
      let asked = 0
      new Liveness(own, { ping: () => asked++, dead: () => lost++ })
      own.advance(into)
      own.suspend(8 * 3_600_000)
      expect(lost).toBe(0)
      asked = 0
      own.advance(PING_IDLE_MS - 1)
      expect(lost).toBe(0)
      own.advance(PING_IDLE_MS + 2_000)
      expect([lost, asked]).toEqual([1, 1])
    }
  })

  it('is not misled by a stall of our own that ends just before a timer is due', () => {
    clock.advance(PING_IDLE_MS * 2)
    clock.suspend(PING_IDLE_MS + 500)
    expect(dead).toBe(0)
    liveness.read()
    clock.advance(2_000)
    expect(dead).toBe(0)
  })

  it('keeps pinging when the wall clock is set back', () => {
    clock.setBack(3_600_000)
    clock.advance(PING_IDLE_MS * 2)
    expect(pings).toBeGreaterThan(0)
  })

  it('leaves no timer behind', () => {
    liveness.dispose()
    expect(clock.pending).toEqual([])
  })
})
