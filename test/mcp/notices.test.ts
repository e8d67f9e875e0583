/** What the daemon says of a room while a call works in it is part of the call's result. */
import { expect, test } from 'vitest'
import { Activities } from '../../client/mcp/activities.ts'
import type { Lease } from '../../client/mcp/sessions/guests.ts'
import { withRoom } from '../../client/mcp/tools/room.ts'
import type { ToolContext } from '../../client/mcp/tools/tool.ts'

test('a notice that comes while a cell runs is told with its result, and one that comes later is not', async () => {
  const listeners = new Set<(notice: { text: string }) => void>()
  const say = (text: string) => {
    for (const listener of listeners) listener({ text })
  }
  const room = {
    on(type: string, listener: (notice: { text: string }) => void) {
      expect(type).toBe('notice')
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  const lease = { room, client: {}, release: () => {} } as unknown as Lease
  const context = {
    sessions: { use: async () => lease },
    activities: new Activities(),
    record: null,
    signal: new AbortController().signal,
  } as unknown as ToolContext
  const call = (during: string | null) =>
    withRoom(context, undefined, 'read', async () => {
      if (during !== null) say(during)
      return { structured: { status: 'done' }, content: [{ type: 'text' as const, text: 'done [1]' }] }
    })
  const told = await call('a fresh kernel: its variables are gone')
  expect(told.content.map((block) => block.text)).toEqual([
    'done [1]',
    'Notice: a fresh kernel: its variables are gone.',
  ])
  expect(listeners.size).toBe(0)
  say('nobody works here')
  expect((await call(null)).content).toHaveLength(1)
})
