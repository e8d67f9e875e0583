/** The ledger with 50,000 sessions of four tags, through the socket: the table of what each tool may take. */

import { join } from 'node:path'
import { connect } from '../../client/sdk/index.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { fillLedger, ledgerTags as tags } from '../support/ledger-fill.ts'
import { type Figure, figure, percentile } from './figure.ts'

const SESSIONS = Number(process.env.ROOMD_BENCH_SESSIONS ?? 50_000)
const SAMPLES = 200
export async function* benchLedger(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    await fillLedger(join(home.places.data, 'roomd.db'), SESSIONS)
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
