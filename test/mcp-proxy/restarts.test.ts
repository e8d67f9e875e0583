/** Restarts: one for all who ask, both budgets on every path, program and target afresh, what a new child is told. */
import { expect, test } from 'vitest'
import { compareNames, differs } from '../../client/mcp-proxy/tool-list.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { alive } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type Bench, TOOLS, withBench } from './support/bench.ts'

const text = (result: { content?: unknown }) =>
  (result.content as Array<{ text: string }> | undefined)?.[0]?.text ?? ''

/** Five ends in a row of children that were ready. */
async function exhaust(bench: Bench, clock: ManualClock): Promise<void> {
  const { supervisor } = bench.proxy
  for (let n = 1; n <= 5; n++) {
    await until(`child ${n}`, () => supervisor.ready !== null && supervisor.generation === n)
    supervisor.ready?.kill()
    await until(`the end of child ${n}`, () => supervisor.ready === null)
    // The wait before the next start.
    clock.advance(500)
  }
}

/** Resolves when the child of this number is gone; the one after the first follows at once. */
async function ended({ proxy: { supervisor } }: Bench, number: number): Promise<void> {
  await until(`the end of child ${number}`, () => {
    return (
      supervisor.generation > number || (supervisor.generation === number && supervisor.pid === undefined)
    )
  })
}

test('reconnect restarts the child, returns when it is ready, and the old one is gone', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    const result = await bench.call('reconnect')
    expect(result.structuredContent).toEqual({
      restarted: true,
      version: { before: 'roomd 1.0.0', after: 'roomd 1.0.0' },
      rejoin: { outcome: 'none' },
      parked_lost: [],
    })
    expect(text(result)).toBe(
      '[roomd] The MCP child was restarted as asked (roomd 1.0.0). No notebook was active.',
    )
    const [first, second] = await bench.started(2)
    expect(alive(first?.pid ?? 0)).toBe(false)
    expect(alive(second?.pid ?? 0)).toBe(true)
    // The answer to reconnect was the news; nobody else tells it.
    expect(text(await bench.call('look'))).toBe('done look')
  }))

test('restarts that are asked for at once are one restart', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    const ids = Array.from({ length: 10 }, () => bench.tool('reconnect'))
    for (const id of ids) expect((await bench.result(id)).isError).toBeUndefined()
    expect(bench.starts).toHaveLength(2)
    const news = ids.filter((id) => text(bench.answers(id)[0]?.result ?? {}).includes('restarted as asked'))
    expect(news).toHaveLength(1)
  }))

test('a child that dies and a reconnect at the same time are one restart', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    bench.proxy.supervisor.ready?.kill()
    await bench.call('reconnect')
    await bench.call('look')
    expect(bench.starts).toHaveLength(2)
  }))

test('calls of others that are under way are sent again by a reconnect and answered', () =>
  withBench(async (bench) => {
    await bench.hello()
    const held = bench.tool('work', { hold: 'go' })
    await bench.heardCalls('work', 1)
    await bench.call('reconnect')
    bench.release('go')
    expect((await bench.result(held)).structuredContent).toMatchObject({ base: 64, done: false })
    expect(bench.effects).toEqual([64])
  }))

test('a stubborn child is ended by signals, and a new one takes its place', () =>
  withBench(
    async (bench) => {
      await bench.hello()
      await bench.call('look')
      bench.plan({})
      await bench.call('reconnect')
      const [first] = bench.starts
      expect(alive(first?.pid ?? 0)).toBe(false)
    },
    { stubborn: true },
  ))

test('the target that was tracked is handed to the next child', () =>
  withBench(async (bench) => {
    await bench.hello()
    const said = { notebook_id: 'id-1', path: '/n/a.ipynb', activation_generation: 1 }
    await bench.call('connect_notebook', { result: { content: [], structuredContent: said } })
    await bench.call('reconnect')
    await bench.call('disconnect_notebook', {
      result: { content: [], structuredContent: { notebook_id: 'id-1', was: 'active' } },
    })
    await bench.call('reconnect')
    const starts = await bench.started(3)
    expect(starts.map((start) => start.rejoin)).toEqual([null, '/n/a.ipynb', null])
    expect(new Set(starts.map((start) => start.instance)).size).toBe(1)
  }))

test('a rejoin target given to the proxy reaches the first child', () =>
  withBench(
    async (bench) => {
      await bench.hello()
      await bench.call('look')
      expect(bench.starts[0]?.rejoin).toBe('/n/given.ipynb')
    },
    {},
    { rejoin: '/n/given.ipynb' },
  ))

test('exit 75 hands over to a new child with the target it named', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    bench.plan({ title: 'roomd 2.0.0' })
    const result = await bench.call('work', { exit: 75, once: 'handed', handoff: '/n/h.ipynb' })
    expect(text(result)).toContain(
      'made room for another version: roomd 1.0.0 → roomd 2.0.0. Rejoin in progress: /n/h.ipynb.',
    )
    expect(bench.starts[1]?.rejoin).toBe('/n/h.ipynb')
  }))

test('exit 75 nine times does not touch the crash budget', () =>
  withBench(async (bench) => {
    await bench.hello()
    for (let n = 0; n < 9; n++) await bench.call('work', { exit: 75, once: `handed-${n}` })
    await bench.call('work', { die: 'effect', once: 'dead' })
    expect(bench.proxy.supervisor.pause).toBeNull()
    expect(bench.starts).toHaveLength(11)
  }))

const broken = {
  'a child that is killed': {},
  'a child that ends at its start': { exit: 1 },
  'a child that ends well at its start': { exit: 0 },
  'a child that refuses initialize': { refuse: 'not today' },
} as const
for (const [what, plan] of Object.entries(broken)) {
  test(`${what} five times is a pause, with the reason and the time left`, async () => {
    const clock = new ManualClock()
    await withBench(
      async (bench) => {
        await bench.hello()
        if (what === 'a child that is killed') {
          bench.tool('look', {})
          await exhaust(bench, clock)
        } else {
          bench.tool('look', {})
          for (let n = 1; n <= 5; n++) {
            await ended(bench, n)
            clock.advance(n === 5 ? 0 : 500)
          }
        }
        expect(bench.starts).toHaveLength(5)
        clock.advance(20_000)
        const called = await bench.call('work')
        expect(called.isError).toBe(true)
        expect(called.structuredContent).toMatchObject({
          error: { code: 'internal', retryable: true, next: { tool: 'work' } },
        })
        expect(text(called)).toMatch(
          /paused after 5 ends within 30 s; the last: .*started again in (40|39) s/,
        )
        const reconnected = await bench.call('reconnect')
        expect(reconnected).toMatchObject({
          isError: true,
          structuredContent: { error: { retryable: true } },
        })
        const read = await bench.answer(bench.request('resources/read', { uri: 'roomd://x' }))
        expect(read.error).toMatchObject({ code: -32000 })
        // Nothing was started by asking.
        expect(bench.starts).toHaveLength(5)
        bench.plan({})
        clock.advance(40_000)
        await bench.started(6)
        expect((await bench.call('look')).isError).toBeUndefined()
      },
      plan,
      { clock },
    )
  })
}

test('a program that cannot be started counts too', async () => {
  const clock = new ManualClock()
  let launches = 0
  await withBench(
    async (bench) => {
      await bench.hello()
      const id = bench.tool('look')
      await until('the pause', () => {
        clock.advance(100)
        return bench.proxy.supervisor.pause
      })
      expect(launches).toBe(5)
      expect(text(await bench.result(id))).toContain('could not be started')
    },
    {},
    {
      clock,
      launch: () => {
        launches++
        if (launches % 2 === 0) throw new Error('roomd.js is missing')
        return { command: '/nowhere/node', args: [], env: {} }
      },
    },
  )
})

test('a child that does not answer initialize is ended, and counts', async () => {
  const clock = new ManualClock()
  await withBench(
    async (bench) => {
      await bench.hello()
      const id = bench.tool('look')
      for (let n = 1; n <= 5; n++) {
        await until(`child ${n} to listen`, () => {
          return bench.heard.filter((message) => message.method === 'initialize').length === n
        })
        clock.advance(6000)
        // Its end, and the wait before the next start.
        await ended(bench, n)
        clock.advance(n === 5 ? 0 : 500)
      }
      expect(text(await bench.result(id))).toContain(
        '5 ends within 30 s; the last: did not answer initialize within 6 s, and did nothing',
      )
    },
    { silent: true },
    { clock, signs: () => ({ cpu: 0, busy: false }) },
  )
})

test('a child that is slow but at work is waited for, and is no crash', async () => {
  const clock = new ManualClock()
  let cpu = 0
  await withBench(
    async (bench) => {
      await bench.hello()
      const id = bench.tool('look')
      clock.advance(25)
      await until('it to listen', () => bench.heard.some((message) => message.method === 'initialize'))
      // Far beyond the bound for a deaf one.
      for (let seconds = 0; seconds < 40; seconds += 2) {
        cpu++
        clock.advance(2_000)
      }
      expect(bench.answers(id)).toEqual([])
      bench.release('awake')
      expect(text(await bench.result(id))).toBe('done look')
      expect(bench.starts).toHaveLength(1)
    },
    { asleep: 'awake' },
    { clock, signs: () => ({ cpu, busy: false }) },
  )
})

test('five children in a row that work and never answer are a pause too, however long that took', async () => {
  const clock = new ManualClock()
  await withBench(
    async (bench) => {
      await bench.hello()
      const id = bench.tool('look')
      for (let n = 1; n <= 5; n++) {
        await until(`child ${n} to listen`, () => {
          return bench.heard.filter((message) => message.method === 'initialize').length === n
        })
        clock.advance(60_000)
        await ended(bench, n)
        clock.advance(n === 5 ? 0 : 500)
      }
      expect(text(await bench.result(id))).toContain(
        '5 starts in a row that failed; the last: did not answer initialize within 60 s',
      )
    },
    { silent: true },
    { clock, signs: () => ({ cpu: 0, busy: true }) },
  )
})

test('calls in flight when the budget is spent: unknown for what mutates, retryable for reads', async () => {
  const clock = new ManualClock()
  await withBench(
    async (bench) => {
      await bench.hello()
      const args = { hold: 'never', cell_id: 'c1', notebook: '/n/a.ipynb' }
      const mutation = bench.tool('work', args)
      const read = bench.tool('look', { hold: 'never' })
      await exhaust(bench, clock)
      const unknown = await bench.result(mutation)
      expect(unknown).toMatchObject({
        isError: true,
        structuredContent: {
          error: {
            code: 'outcome_unknown',
            retryable: false,
            next: { tool: 'get_cell', arguments: { cell_id: 'c1', notebook: '/n/a.ipynb' } },
          },
        },
      })
      expect(await bench.result(read)).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'internal', retryable: true } },
      })
    },
    {},
    { clock },
  )
})

test('a call that is sent again still means the room it was made for', () =>
  withBench(async (bench) => {
    await bench.hello()
    const connect = (id: string, generation: number) => {
      const said = { notebook_id: id, path: `/n/${id}.ipynb`, activation_generation: generation }
      return bench.call('connect_notebook', { result: { content: [], structuredContent: said } })
    }
    await connect('a', 1)
    const inA = bench.tool('work', { hold: 'go' })
    await bench.heardCalls('work', 1)
    await connect('b', 2)
    const inB = bench.tool('work', { hold: 'go' })
    await bench.heardCalls('work', 2)
    bench.proxy.supervisor.ready?.kill()
    await bench.heardCalls('work', 4)
    bench.release('go')
    expect((await bench.result(inA)).structuredContent).toMatchObject({ arguments: { notebook: 'a' } })
    expect((await bench.result(inB)).structuredContent).not.toHaveProperty('arguments.notebook')
  }))

test('a changed list of the child is taken over and announced, an empty one is not', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    const names = () => {
      const id = bench.request('tools/list')
      const tools = (bench.answers(id)[0]?.result?.tools ?? []) as Array<{ name: string }>
      return tools.map((tool) => tool.name)
    }
    const announced = () =>
      bench.sent.filter((sent) => sent.method === 'notifications/tools/list_changed').length
    expect(announced()).toBe(0)
    bench.plan({ tools: [] })
    await bench.call('reconnect')
    await until('the empty list', () => bench.logged.some((line) => line.includes('offers no tools')))
    expect(names()).toEqual([...TOOLS.map((tool) => tool.name), 'reconnect'])
    const extra = { name: 'extra', inputSchema: { type: 'object' } }
    bench.plan({ tools: [...TOOLS, extra, { name: 'reconnect', inputSchema: { type: 'object' } }] })
    await bench.call('reconnect')
    await until('the announcement', () => announced() === 1)
    expect(names()).toEqual([...TOOLS.map((tool) => tool.name), 'extra', 'reconnect'])
    bench.plan({ tools: [extra] })
    await bench.call('reconnect')
    await until('the second announcement', () => announced() === 2)
    expect(names()).toEqual(['extra', 'reconnect'])
  }))

test('rapid kills leave no process behind', () =>
  withBench(async (bench) => {
    await bench.hello()
    for (let n = 0; n < 4; n++) {
      await bench.call('look')
      bench.proxy.supervisor.ready?.kill()
    }
    await bench.call('look')
    await bench.proxy.dispose()
    for (const { pid } of bench.starts) expect(alive(pid)).toBe(false)
  }))

test('lists compared by name: same, reordered, both empty; additions; removal, rename, replacement, all removed', () => {
  const list = (...names: string[]) => names.map((name) => ({ name, inputSchema: { type: 'object' } }))
  expect(compareNames(list('a', 'b'), list('b', 'a'))).toBe('same')
  expect(compareNames([], [])).toBe('same')
  expect(compareNames(list('a'), list('a', 'b'))).toBe('superset')
  for (const after of [list('a'), list('a', 'c'), list('c', 'd'), []]) {
    expect(compareNames(list('a', 'b'), after)).toBe('incompatible')
  }
  expect(differs(list('a', 'b'), list('b', 'a'))).toBe(false)
  expect(differs(list('a'), [{ name: 'a', inputSchema: { type: 'object', properties: {} } }])).toBe(true)
})
