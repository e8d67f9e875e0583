/** What the first result after a restart says, and that only one says it. */
import { expect, test } from 'vitest'
import { banner, type Restarted } from '../../client/mcp-proxy/banner.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'
import { type Bench, withBench } from './support/bench.ts'

const restarted: Restarted = {
  ends: [{ kind: 'crash', detail: 'killed by SIGKILL' }],
  before: 'roomd 1.0.0',
  after: 'roomd 1.0.0',
  parked: [],
  toolsGone: [],
}

test('wording: what happened, versions, rejoin, readiness told apart, parked sessions', () => {
  expect(banner(restarted, { outcome: 'none' })).toBe(
    '[roomd] The MCP child ended unexpectedly (killed by SIGKILL) and was restarted (roomd 1.0.0). No notebook was active.',
  )
  const readiness = { projection: 'ready', document: 'syncing', runtime: 'none' }
  expect(
    banner({ ...restarted, after: 'roomd 1.1.0' }, { outcome: 'succeeded', target: '/n/a.ipynb', readiness }),
  ).toBe(
    '[roomd] The MCP child ended unexpectedly (killed by SIGKILL) and was restarted: roomd 1.0.0 → roomd 1.1.0. Rejoined /n/a.ipynb; readiness: projection ready, document syncing, runtime none.',
  )
  const parked = [{ id: 'b', path: '/n/b.ipynb', url: null }]
  expect(banner({ ...restarted, parked }, { outcome: 'pending', target: '/n/a.ipynb' })).toContain(
    'Rejoin in progress: /n/a.ipynb. Parked sessions were lost with it: /n/b.ipynb; connect_notebook brings each back.',
  )
  const failed = banner(restarted, { outcome: 'failed', target: '/n/a.ipynb', reason: 'the file\n is gone.' })
  expect(failed).toContain('Rejoining /n/a.ipynb failed: the file is gone. connect_notebook brings it back.')
  expect(failed).not.toContain('\n')
})

test('a handoff and several ends are told as such', () => {
  const handoff = { kind: 'handoff', detail: 'ended with code 75' } as const
  expect(banner({ ...restarted, ends: [handoff], after: 'roomd 2.0.0' }, { outcome: 'none' })).toContain(
    'made room for another version: roomd 1.0.0 → roomd 2.0.0',
  )
  expect(
    banner({ ...restarted, ends: [...restarted.ends, ...restarted.ends] }, { outcome: 'none' }),
  ).toContain('(2 times since the last result)')
})

const blocks = (result: unknown) =>
  (result as { content: Array<{ text: string }> }).content.map((block) => block.text)
const banners = (bench: Bench) =>
  bench.sent.filter((sent) => sent.result?.content && blocks(sent.result)[0]?.startsWith('[roomd]'))

async function connected(bench: Bench, id: string, generation: number): Promise<void> {
  const said = { notebook_id: id, path: `/n/${id}.ipynb`, activation_generation: generation }
  await bench.call('connect_notebook', { result: { content: [], structuredContent: said } })
}

test('of parallel calls exactly one result carries the banner', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    const ids = Array.from({ length: 20 }, () => bench.tool('work', { hold: 'go' }))
    await bench.heardCalls('work', 20)
    bench.proxy.supervisor.ready?.kill()
    bench.release('go')
    for (const id of ids) await bench.result(id)
    expect(banners(bench)).toHaveLength(1)
    expect(blocks(banners(bench)[0]?.result)).toHaveLength(2)
    expect(blocks(banners(bench)[0]?.result)[1]).toBe('done work')
  }))

test('the banner tells a rejoin that succeeded, and the parked sessions that are lost', () =>
  withBench(
    async (bench) => {
      await bench.hello()
      await connected(bench, 'b', 1)
      await connected(bench, 'a', 2)
      const [line] = blocks(await bench.call('work', { die: 'effect', once: 'dead' }))
      expect(line).toContain('Rejoined /n/a.ipynb; readiness: projection ready.')
      expect(line).toContain('Parked sessions were lost with it: /n/b.ipynb;')
      // The next child has none to lose.
      const [again] = blocks(await bench.call('work', { die: 'effect', once: 'dead-2' }))
      expect(again).not.toContain('Parked')
    },
    { rejoin: { outcome: 'succeeded', readiness: { projection: 'ready' } } },
  ))

test('a rejoin that failed is said, with the reason', () =>
  withBench(
    async (bench) => {
      await bench.hello()
      await connected(bench, 'a', 1)
      const [line] = blocks(await bench.call('work', { die: 'effect', once: 'dead' }))
      expect(line).toContain('Rejoining /n/a.ipynb failed: notebook_unavailable.')
    },
    { rejoin: { outcome: 'failed', reason: 'notebook_unavailable' } },
  ))

test('a rejoin that is not known after a second is in progress; other results do not wait for it', async () => {
  const clock = new ManualClock()
  await withBench(
    async (bench) => {
      await bench.hello()
      await connected(bench, 'a', 1)
      const first = bench.tool('work', { die: 'effect', once: 'dead' })
      await until('the second child', () => bench.proxy.supervisor.generation === 2 && bench.heard.length > 8)
      await bench.heardCalls('work', 2)
      // Its answer is there and waits for the rejoin.
      await bench.call('look')
      expect(bench.answers(first)).toEqual([])
      clock.advance(999)
      expect(bench.answers(first)).toEqual([])
      clock.advance(1)
      const [line] = blocks(await bench.result(first))
      expect(line).toContain('Rejoin in progress: /n/a.ipynb.')
      expect(banners(bench)).toHaveLength(1)
    },
    {},
    { clock },
  )
})

test('a banner whose carrier was cancelled is told by the next result', async () => {
  const clock = new ManualClock()
  await withBench(
    async (bench) => {
      await bench.hello()
      await connected(bench, 'a', 1)
      const first = bench.tool('work', { die: 'effect', once: 'dead' })
      await bench.heardCalls('work', 2)
      await bench.call('look')
      bench.notify('notifications/cancelled', { requestId: first })
      clock.advance(1000)
      await until('the carrier to be let go', () => bench.proxy.openCount === 0)
      expect(blocks(await bench.call('look'))[0]).toContain('[roomd]')
      expect(bench.answers(first)).toEqual([])
    },
    {},
    { clock },
  )
})

test('an error result carries the banner too, and a first start has none', () =>
  withBench(async (bench) => {
    await bench.hello()
    expect(blocks(await bench.call('look'))).toEqual(['done look'])
    bench.proxy.supervisor.ready?.kill()
    const isError = { content: [{ type: 'text', text: 'no' }], isError: true }
    const result = await bench.call('look', { result: isError })
    expect(result.isError).toBe(true)
    expect(blocks(result)).toEqual([expect.stringContaining('[roomd]'), 'no'])
  }))
