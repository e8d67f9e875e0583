/** Target tracking: the scenarios of the study that apply here (its section 3.7, session), and what a sequence must never do. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../client/mcp-proxy/jsonrpc.ts'
import {
  forgetParked,
  NOTHING_TRACKED,
  named,
  PARKED_MAX,
  parseTarget,
  rejoinTarget,
  type Tracked,
  track,
} from '../../client/mcp-proxy/target.ts'

const A = '6f2c1d1e-0000-4000-8000-00000000000a'
const B = '6f2c1d1e-0000-4000-8000-00000000000b'
let generation = 0

function call(
  before: Tracked,
  tool: string,
  args: JsonObject,
  said: JsonObject | null,
  isError?: boolean,
): Tracked {
  const result = {
    content: [],
    ...(said === null ? {} : { structuredContent: said }),
    ...(isError === undefined ? {} : { isError }),
  }
  return track(before, { tool, arguments: args, result }, '/cwd')
}

const connected = (notebook_id: string, path?: string): JsonObject => ({
  notebook_id,
  ...(path === undefined ? {} : { path }),
  activation_generation: ++generation,
})
const target = (state: Tracked) => rejoinTarget(state.active)

describe('connect_notebook', () => {
  test('tracks connect_notebook with path', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { path: '/n/a.ipynb' }, null))).toBe('/n/a.ipynb')
  })
  test('tracks connect_notebook with notebook_id', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { notebook_id: A }, null))).toBe(A)
  })
  test('tracks connect_notebook target first', () => {
    expect(
      target(call(NOTHING_TRACKED, 'connect_notebook', { target: 'wss://host/r', path: '/x' }, connected(A))),
    ).toBe('wss://host/r')
  })
  test('hosted target still wins over result path', () => {
    const said = connected(A, '/n/a.ipynb')
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { target: 'wss://host/r' }, said))).toBe(
      'wss://host/r',
    )
  })
  test('connect by id prefers file path from result', () => {
    const said = connected(A, '/n/a.ipynb')
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { notebook_id: A }, said))).toBe('/n/a.ipynb')
  })
  test('connect by id without path in result tracks uuid', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { notebook_id: A }, connected(A)))).toBe(A)
  })
  test('local uuid target prefers file path from result', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { target: A }, connected(A, '/n/a.ipynb')))).toBe(
      '/n/a.ipynb',
    )
  })
  test('local uuid target without result path falls back to target', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { target: A }, null))).toBe(A)
  })
  test('by path connect prefers absolute path from result', () => {
    const said = connected(A, '/real/a.ipynb')
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { path: 'a.ipynb' }, said))).toBe('/real/a.ipynb')
  })
  test('a relative path without a result path is made absolute', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', { path: 'sub/a.ipynb' }, null))).toBe(
      '/cwd/sub/a.ipynb',
    )
  })
  test('ignores connect_notebook error', () => {
    expect(call(NOTHING_TRACKED, 'connect_notebook', { path: '/n/a.ipynb' }, connected(A), true)).toBe(
      NOTHING_TRACKED,
    )
  })
  test('treats isError absent and false as success', () => {
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', {}, connected(A), false))).toBe(A)
    expect(target(call(NOTHING_TRACKED, 'connect_notebook', {}, connected(A)))).toBe(A)
  })
  test('nothing is tracked when arguments are empty and the result has no id', () => {
    expect(call(NOTHING_TRACKED, 'connect_notebook', {}, {})).toBe(NOTHING_TRACKED)
  })
  test('nothing is tracked when the path is not a string', () => {
    expect(call(NOTHING_TRACKED, 'connect_notebook', { path: 7 }, null)).toBe(NOTHING_TRACKED)
  })
  test('a path is never replaced by a later id-only observation', () => {
    const first = call(
      NOTHING_TRACKED,
      'connect_notebook',
      { path: '/n/a.ipynb' },
      connected(A, '/n/a.ipynb'),
    )
    expect(target(call(first, 'connect_notebook', { notebook_id: A }, connected(A)))).toBe('/n/a.ipynb')
    expect(target(named(first, A))).toBe('/n/a.ipynb')
  })
  test('a late loser changes nothing', () => {
    const early = connected(A, '/n/a.ipynb')
    const winner = call(NOTHING_TRACKED, 'connect_notebook', {}, connected(B, '/n/b.ipynb'))
    expect(call(winner, 'connect_notebook', {}, early)).toBe(winner)
  })
})

describe('create_notebook and claim_room', () => {
  test('tracks create_notebook with path arg', () => {
    expect(target(call(NOTHING_TRACKED, 'create_notebook', { path: '/n/new.ipynb' }, null))).toBe(
      '/n/new.ipynb',
    )
  })
  test('tracks create_notebook from response', () => {
    expect(target(call(NOTHING_TRACKED, 'create_notebook', { kernel: 'python3' }, connected(A)))).toBe(A)
    expect(target(call(NOTHING_TRACKED, 'create_notebook', {}, connected(A, '/n/u.ipynb')))).toBe(
      '/n/u.ipynb',
    )
  })
  test('a claimed room is tracked unless it was claimed without activating', () => {
    expect(target(call(NOTHING_TRACKED, 'claim_room', { project: 'p' }, connected(A)))).toBe(A)
    expect(call(NOTHING_TRACKED, 'claim_room', { project: 'p', activate: false }, connected(A))).toBe(
      NOTHING_TRACKED,
    )
  })
})

describe('save_notebook', () => {
  const active = call(NOTHING_TRACKED, 'create_notebook', {}, connected(A))
  test('promotes id to the canonical path from the response', () => {
    const saved = call(active, 'save_notebook', { path: 'a.ipynb' }, { notebook_id: A, path: '/n/a.ipynb' })
    expect(target(saved)).toBe('/n/a.ipynb')
  })
  test('ignores save_notebook without canonical path', () => {
    expect(call(active, 'save_notebook', { path: 'a.ipynb' }, { notebook_id: A })).toBe(active)
  })
  test('a hosted target is kept across a save', () => {
    const hosted = call(NOTHING_TRACKED, 'connect_notebook', { target: 'wss://host/r' }, connected(A))
    expect(target(call(hosted, 'save_notebook', {}, { notebook_id: A, path: '/n/a.ipynb' }))).toBe(
      'wss://host/r',
    )
  })
  test("another room's save does not move the target", () => {
    expect(call(active, 'save_notebook', { notebook: B }, { notebook_id: B, path: '/n/b.ipynb' })).toBe(
      active,
    )
  })
})

describe('disconnect_notebook', () => {
  const one = call(NOTHING_TRACKED, 'connect_notebook', {}, connected(A, '/n/a.ipynb'))
  const two = call(one, 'connect_notebook', {}, connected(B, '/n/b.ipynb'))
  test('switching parks the session that was active', () => {
    expect(target(two)).toBe('/n/b.ipynb')
    expect(two.parked.map(rejoinTarget)).toEqual(['/n/a.ipynb'])
  })
  test('clears the target after the active session disconnects', () => {
    for (const args of [{}, { notebook: B }, { notebook: '/n/b.ipynb' }]) {
      expect(target(call(two, 'disconnect_notebook', args, { notebook_id: B, was: 'active' }))).toBeNull()
    }
    expect(target(call(two, 'disconnect_notebook', {}, null))).toBeNull()
  })
  test('keeps the target when a parked session disconnects', () => {
    const after = call(two, 'disconnect_notebook', { notebook: A }, { notebook_id: A, was: 'parked' })
    expect(target(after)).toBe('/n/b.ipynb')
    expect(after.parked).toEqual([])
  })
  test('a disconnect whose answer comes after a switch does not clear the new session', () => {
    expect(target(call(two, 'disconnect_notebook', {}, { notebook_id: A, was: 'active' }))).toBe('/n/b.ipynb')
  })
  test('a session that waits to be rejoined is cleared too', () => {
    const waiting = { ...NOTHING_TRACKED, active: parseTarget('/n/a.ipynb') }
    expect(
      target(
        call(waiting, 'disconnect_notebook', { notebook: A }, { notebook_id: A, was: 'pending_rejoin' }),
      ),
    ).toBeNull()
  })
  test('an error changes nothing', () => {
    expect(call(two, 'disconnect_notebook', {}, { error: {} }, true)).toBe(two)
  })
})

test('ignores execute_cell and list_active_notebooks', () => {
  const before = call(NOTHING_TRACKED, 'connect_notebook', {}, connected(A))
  for (const tool of ['execute_cell', 'list_active_notebooks', 'show_notebook', 'get_all_cells']) {
    expect(call(before, tool, { notebook: B }, connected(B, '/n/b.ipynb'))).toBe(before)
  }
})

test('A, B, A: the room that is active again is not parked beside itself', () => {
  let state = NOTHING_TRACKED
  for (const id of [A, B, A]) state = call(state, 'connect_notebook', {}, connected(id))
  expect(target(state)).toBe(A)
  expect(state.parked.map(rejoinTarget)).toEqual([B])
})

test("a handoff's target is taken over", () => {
  expect(target(named(NOTHING_TRACKED, '/n/a.ipynb'))).toBe('/n/a.ipynb')
  const tracked = call(NOTHING_TRACKED, 'connect_notebook', {}, connected(A))
  expect(target(named(tracked, '/n/a.ipynb'))).toBe('/n/a.ipynb')
})

test('for every sequence: parked rooms are different, at most eight, never the active one', () => {
  const ids = Array.from(
    { length: 14 },
    (_, n) => `6f2c1d1e-0000-4000-8000-0000000000${(10 + n).toString(16)}`,
  )
  const step = fc.record({
    tool: fc.constantFrom(
      'connect_notebook',
      'create_notebook',
      'disconnect_notebook',
      'save_notebook',
      'look',
    ),
    id: fc.constantFrom(...ids),
    withPath: fc.boolean(),
    error: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      let state = NOTHING_TRACKED
      for (const { tool, id, withPath, error } of steps) {
        const before = state
        state = call(
          state,
          tool,
          { notebook: id },
          connected(id, withPath ? `/n/${id}.ipynb` : undefined),
          error,
        )
        if (error) expect(state).toBe(before)
        const parked = state.parked.map((session) => session.id)
        expect(new Set(parked).size).toBe(parked.length)
        expect(parked.length).toBeLessThanOrEqual(PARKED_MAX)
        expect(parked).not.toContain(state.active?.id)
      }
      expect(forgetParked(state).parked).toEqual([])
    }),
  )
})
