/** Budgets of the restart control, driven by a clock of the test's. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type End, RestartControl } from '../../client/mcp-proxy/restart-control.ts'
import { ManualClock } from '../support/manual-clock.ts'

const crash: End = { kind: 'crash', detail: 'killed by SIGKILL' }
const handoff: End = { kind: 'handoff', detail: 'ended with code 75' }
const asked: End = { kind: 'asked', detail: 'reconnect' }

function setUp() {
  const clock = new ManualClock()
  return { clock, control: new RestartControl(clock) }
}

test('the first crash is followed by a start at once', () => {
  const { control } = setUp()
  expect(control.ended(crash)).toEqual({ kind: 'start', afterMs: 0 })
  expect(control.pause).toBeNull()
})

test('four crashes in the window are allowed, the fifth trips', () => {
  const { clock, control } = setUp()
  for (let n = 0; n < 4; n++) expect(control.ended(crash).kind).toBe('start')
  expect(control.ended(crash)).toEqual({
    kind: 'pause',
    pause: { until: clock.now() + 60_000, reason: '5 ends within 30 s; the last: killed by SIGKILL' },
  })
})

test('starts that follow crashes come a little later each time', () => {
  const { control } = setUp()
  const delays = Array.from({ length: 4 }, () => control.ended(crash)).map(
    (d) => d.kind === 'start' && d.afterMs,
  )
  expect(delays).toEqual([0, 100, 250, 500])
})

test('at the edge of the window a crash no longer counts', () => {
  const { clock, control } = setUp()
  for (let n = 0; n < 4; n++) control.ended(crash)
  clock.advance(29_999)
  expect(new RestartControl(clock).ended(crash).kind).toBe('start')
  clock.advance(1)
  expect(control.ended(crash)).toEqual({ kind: 'start', afterMs: 0 })
})

test('it stays tripped on repeated calls and before the pause is over', () => {
  const { clock, control } = setUp()
  for (let n = 0; n < 5; n++) control.ended(crash)
  const { pause } = control
  clock.advance(59_999)
  expect(control.pause).toEqual(pause)
  expect(control.ended(crash)).toEqual({ kind: 'pause', pause })
  expect(control.ended(asked)).toEqual({ kind: 'pause', pause })
})

test('it resets by itself after the pause, with a full window again', () => {
  const { clock, control } = setUp()
  for (let cycle = 0; cycle < 3; cycle++) {
    for (let n = 0; n < 4; n++) expect(control.ended(crash).kind).toBe('start')
    expect(control.ended(crash).kind).toBe('pause')
    clock.advance(60_000)
    expect(control.pause).toBeNull()
  }
})

test('a manual reset clears everything', () => {
  const { control } = setUp()
  for (let n = 0; n < 5; n++) control.ended(crash)
  control.reset()
  expect(control.pause).toBeNull()
  expect(control.ended(crash)).toEqual({ kind: 'start', afterMs: 0 })
})

test('nine handoffs do not touch the crash budget, the tenth pauses', () => {
  const { control } = setUp()
  for (let n = 0; n < 9; n++) expect(control.ended(handoff)).toEqual({ kind: 'start', afterMs: 0 })
  for (let n = 0; n < 4; n++) expect(control.ended(crash).kind).toBe('start')
  const tripped = control.ended(handoff)
  expect(tripped).toMatchObject({
    kind: 'pause',
    pause: { reason: expect.stringContaining('10 version handoffs') },
  })
})

test('restarts that were asked for count nowhere', () => {
  const { control } = setUp()
  for (let n = 0; n < 100; n++) expect(control.ended(asked)).toEqual({ kind: 'start', afterMs: 0 })
})

test('for every sequence: never five crashes started within 30 s, never a pause longer than 60 s', () => {
  const step = fc.record({
    end: fc.constantFrom(crash, handoff, asked),
    wait: fc.integer({ min: 0, max: 20_000 }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { clock, control } = setUp()
      let started: number[] = []
      for (const { end, wait } of steps) {
        clock.advance(wait)
        const decision = control.ended(end)
        if (decision.kind === 'pause') {
          expect(decision.pause.until - clock.now()).toBeLessThanOrEqual(60_000)
          clock.advance(60_000)
          expect(control.pause).toBeNull()
          started = []
        } else if (end.kind === 'crash') {
          started = [...started.filter((at) => clock.now() - at < 30_000), clock.now()]
          expect(started.length).toBeLessThan(5)
        }
      }
    }),
  )
})
