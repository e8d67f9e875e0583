/** The ledger with 50,000 sessions of four tags, through the socket: the table of what each tool may take. */

import { join } from 'node:path'
import pino from 'pino'
import { connect } from '../../client/sdk/index.ts'
import { openStore } from '../../daemon/store/open.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { type Figure, figure, percentile } from './figure.ts'

const SESSIONS = Number(process.env.ROOMD_BENCH_SESSIONS ?? 50_000)
const SAMPLES = 200
const words = [
  'redis',
  'docker',
  'kafka',
  'react',
  'python',
  'java',
  'flask',
  'django',
  'css',
  'seo',
  'kotlin',
  'swift',
]
const tags = Array.from({ length: 60 }, (_, i) => words[i] ?? `topic-${i}`)

export async function* benchLedger(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    await fill(join(home.places.data, 'roomd.db'))
    await startDaemon(home)
    const client = await connect({ env: home.env, label: 'bench' })
    const figures: Figure[] = []
    const measure = async (name: string, max: number, run: (n: number) => Promise<{ success: boolean }>) => {
      const times: number[] = []
      for (let n = 0; n < SAMPLES; n++) {
        const start = performance.now()
        const { success } = await run(n)
        if (!success) throw new Error(`${name} failed`)
        if (n >= 20) times.push(performance.now() - start)
      }
      figures.push(figure(`ledger/${name}/p50`, percentile(times, 0.5), 'ms', null, { max }))
      figures.push(figure(`ledger/${name}/p99`, percentile(times, 0.99), 'ms', null, null))
    }
    const some = (n: number): string => `bench-${(n * 7919) % SESSIONS}`
    await measure('create', 10, (n) =>
      client.call('session_create', { prompt: `Use redis number ${n}`, project: 'p1' }),
    )
    await measure('accumulate', 10, (n) =>
      client.call('session_accumulate', { session_id: some(n), prompt: 'one more' }),
    )
    await measure('tag', 10, (n) =>
      client.call('session_tag', { session_id: some(n), tags: tags[n % 60] ?? 'x' }),
    )
    await measure('get_context', 10, (n) => client.call('session_get_context', { session_id: some(n) }))
    await measure('search_tags', 10, (n) =>
      client.call('session_search_tags', { tags: `${tags[n % 60]},${tags[(n + 7) % 60]}` }),
    )
    await measure('keyword', 10, (n) =>
      client.call('session_query', { filters: JSON.stringify({ keyword: `marker${n * 3}x` }) }),
    )
    await measure('keyword-common', 10, () =>
      client.call('session_query', { filters: '{"keyword":"vaultish"}' }),
    )
    await measure('list', 10, () => client.call('session_list', {}))
    await client.close()
    return figures
  })
}

/** Rows as the tools would have made them, written in portions. */
async function fill(file: string): Promise<void> {
  const store = await openStore({ file, log: pino({ level: 'silent' }) })
  const call = (params: unknown, now: number, tool: 'session_tag' | 'session_accumulate') =>
    store.transact('ledger_call', {
      tool,
      call: {
        params,
        now,
        clientInstance: 'bench-filler',
        settings: { compat: false, tagPrompts: false },
        mirror: null,
      },
      mutation: null,
    })
  const begin = (Date.now() - SESSIONS * 1000) * 1000
  for (let from = 0; from < SESSIONS; from += 500) {
    const portion: Array<Promise<unknown>> = []
    for (let n = from; n < Math.min(SESSIONS, from + 500); n++) {
      const session_id = `bench-${n}`
      const own = [0, 1, 2, 3].map((i) => tags[(n * 31 + i * 17 + (n % 7) * i) % 60])
      const rare = n % 10 === 0 ? 'vaultish' : ''
      const prompt = `Work on marker${n}x ${rare} with a few words of every day`
      portion.push(
        call({ session_id, tags: own.join(','), summary: `told of ${n}` }, begin + n * 1e6, 'session_tag'),
      )
      portion.push(
        call(
          {
            session_id,
            prompt,
            task_type: 'Fix',
            skill: 's',
            complexity: 3,
            model: 'm',
            cwd: '/x',
            plan_mode: false,
            context_pct: 5,
            supplementary_skills: '',
            standards_count: 0,
            rules_count: 0,
          },
          begin + n * 1e6,
          'session_accumulate',
        ),
      )
    }
    await Promise.all(portion)
  }
  await store.close()
}
