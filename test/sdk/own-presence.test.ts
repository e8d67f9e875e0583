/** Presence of a client that has no document: written by itself, read by y-protocols. */

import { afterEach, beforeEach, expect, test } from 'vitest'
import { Awareness, applyAwarenessUpdate } from 'y-protocols/awareness'
import * as Y from 'yjs'
import type { Channel } from '../../client/sdk/link.ts'
import { OwnPresence } from '../../client/sdk/own-presence.ts'
import { Presence } from '../../daemon/rooms/presence.ts'
import { EPHEMERAL_AWARENESS } from '../../protocol/channels.ts'
import { FrameType } from '../../protocol/frames.ts'
import { presenceColor } from '../../protocol/presence.ts'
import { ManualClock } from '../support/manual-clock.ts'

let clock: ManualClock
let reader: Awareness

beforeEach(() => {
  clock = new ManualClock()
  reader = new Awareness(new Y.Doc())
  reader.setLocalState(null)
})
afterEach(() => reader.destroy())

/** What goes into it is read by `reader`; `full` refuses. */
function channel(): Channel & { full: boolean; sent: Uint8Array[] } {
  const made = {
    full: false,
    sent: [] as Uint8Array[],
    send: () => {},
    release: () => {},
    offer: (type: FrameType, payload: Uint8Array) => {
      expect(type).toBe(FrameType.EPHEMERAL)
      if (made.full) return false
      made.sent.push(payload)
      receive(payload)
      return true
    },
  }
  return made
}

function receive(payload: Uint8Array): void {
  expect(payload[0]).toBe(EPHEMERAL_AWARENESS)
  applyAwarenessUpdate(reader, payload.subarray(1), 'test')
}

const shown = (): unknown[] => [...reader.states.values()]

function presence(random = 0.999999): OwnPresence {
  return new OwnPresence({ clock, random: () => random })
}

test('y-protocols reads what it says, changes, and takes back', () => {
  const own = presence()
  own.attach(channel())
  expect(shown()).toEqual([])
  own.set({ label: 'Ünïcode 🐍', cursor: { cell: 'a', offset: 300 } })
  expect(shown()).toEqual([{ label: 'Ünïcode 🐍', cursor: { cell: 'a', offset: 300 } }])
  own.set({ label: 'Ünïcode 🐍' })
  expect(shown()).toEqual([{ label: 'Ünïcode 🐍' }])
  own.set(null)
  expect(shown()).toEqual([])
  own.set({ label: 'again' })
  expect(shown()).toEqual([{ label: 'again' }])
  own.dispose()
  expect(shown()).toEqual([])
})

test('a state is renewed in time as long as it is shown, and what is not shown sends nothing', () => {
  const own = presence(0)
  const to = channel()
  own.attach(to)
  own.set({ label: 'x' })
  for (let n = 0; n < 300; n++) clock.advance(15_000)
  expect(to.sent).toHaveLength(301)
  expect(reader.meta.get(0)?.clock).toBe(301)
  own.set({ label: 'x' })
  expect(to.sent).toHaveLength(301)
  own.set(null)
  clock.advance(120_000)
  expect(to.sent).toHaveLength(302)
})

test('a new channel tells it again, to those who were told of the loss too', () => {
  const relay = new Presence()
  const own = presence()
  const first = channel()
  own.attach(first)
  own.set({ label: 'x' })
  relay.accept('peer-1', first.sent[0] ?? new Uint8Array(), 0)
  own.detach()
  const gone = relay.drop('peer-1')
  receive(gone ?? new Uint8Array())
  expect(shown()).toEqual([])
  // Set while it was away: only the last is told.
  own.set({ label: 'y' })
  own.set({ label: 'z' })
  const second = channel()
  own.attach(second)
  expect(shown()).toEqual([{ label: 'z' }])
  expect(second.sent).toHaveLength(1)
})

test('a channel that is full gets the newest state when it has room', () => {
  const own = presence()
  const to = channel()
  own.attach(to)
  to.full = true
  own.set({ label: 'a' })
  own.set({ label: 'b' })
  to.full = false
  own.writable()
  own.writable()
  expect(shown()).toEqual([{ label: 'b' }])
  expect(to.sent).toHaveLength(1)
})

test('the document takes over: one entry, with what was shown', () => {
  const own = presence()
  own.attach(channel())
  own.set({ label: 'thin' })
  const states: unknown[] = []
  own.handOver({ setLocalState: (state) => states.push(state) })
  expect(shown()).toEqual([])
  own.set({ label: 'thick' })
  own.set(null)
  expect(states).toEqual([{ label: 'thin' }, { label: 'thick' }, null])
  expect(shown()).toEqual([])
})

test('more than a frame holds is refused and changes nothing', () => {
  const own = presence()
  own.attach(channel())
  own.set({ label: 'x' })
  expect(() => own.set({ label: 'y'.repeat(4_100) })).toThrow(/larger than the 4096/)
  expect(shown()).toEqual([{ label: 'x' }])
})

test('a label has one color, which is one', () => {
  expect(presenceColor('Claude Code')).toMatch(/^#[0-9a-f]{6}$/)
  expect(presenceColor('Claude Code')).toBe(presenceColor('Claude Code'))
  expect(new Set(['a', 'b', 'c', 'd', 'e', 'f'].map(presenceColor)).size).toBeGreaterThan(3)
})
