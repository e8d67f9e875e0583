/**
 * The ledger with real daemons, many clients, and processes that are killed. Rounds of the kill test: ROOMD_LEDGER_ROUNDS. Load of C95:
 * ROOMD_LEDGER_LOAD=full (200 calls of each client on 10,000 sessions; says how long they took).
 */

import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { spawnClient } from '../support/client-process.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { fillLedger } from '../support/ledger-fill.ts'

const rounds = Number(process.env.ROOMD_LEDGER_ROUNDS ?? 4)

const load =
  process.env.ROOMD_LEDGER_LOAD === 'full' ? { sessions: 10_000, calls: 200 } : { sessions: 200, calls: 10 }

/** Rows of the home's store, whatever state the daemon is in. */
function read<Row>(home: TestHome, sql: string): Row[] {
  const db = new Database(join(home.places.data, 'roomd.db'), { readonly: true })
  try {
    return db.prepare(sql).all() as Row[]
  } finally {
    db.close()
  }
}

test('12 processes with 100 writes each on one session: none is lost, none is refused', () =>
  withHome(async (home) => {
    await startDaemon(home)
    const clients = Array.from({ length: 12 }, (_, i) =>
      spawnClient(
        home,
        `const client = await connect()
         await heard()
         let refused = 0
         for (let n = 0; n < 100; n++) {
           const params = { session_id: 'shared', prompt: 'from ${i} number ' + n, complexity: 1 }
           const answer = n % 10 === 9
             ? await client.call('session_tag', { session_id: 'shared', tags: 't${i}-' + n })
             : await client.call('session_accumulate', params)
           if (!answer.success) refused++
         }
         await client.close()
         say({ refused })`,
      ),
    )
    for (const client of clients) client.send('go')
    const said = await Promise.all(clients.map((client) => client.next(120_000)))
    expect(said).toEqual(Array.from({ length: 12 }, () => ({ refused: 0 })))
    const requests = read<{ n: number; prompt: string }>(
      home,
      'SELECT n, prompt FROM ledger_requests ORDER BY n',
    )
    expect(requests.map((row) => row.n)).toEqual(Array.from({ length: 12 * 90 }, (_, i) => i + 1))
    expect(new Set(requests.map((row) => row.prompt)).size).toBe(12 * 90)
    expect(read(home, 'SELECT requests, total_complexity FROM ledger_totals')).toEqual([
      { requests: 1080, total_complexity: 1080 },
    ])
    // 12 of request and 120 of tags are the rev, beside its start.
    expect(read(home, 'SELECT rev FROM ledger_sessions')).toEqual([{ rev: 1 + 12 * 100 }])
    expect(read(home, 'SELECT count(*) AS n FROM ledger_session_tags')).toEqual([{ n: 120 }])
  }))

test('C94 six processes with ten tags each on one session: all are there, and can be searched', () =>
  withHome(async (home) => {
    await startDaemon(home)
    const clients = Array.from({ length: 6 }, (_, i) =>
      spawnClient(
        home,
        `const client = await connect()
         for (let n = 0; n < 10; n++) await client.call('session_tag', { session_id: 'shared', tags: 'tag-${i}-' + n })
         await client.close()
         say('done')`,
      ),
    )
    await Promise.all(clients.map((client) => client.next(60_000)))
    const client = await connect({ env: home.env, label: 'test' })
    const { results } = await client.call('session_search_tags', { tags: 'tag-3-7' })
    expect(results?.[0]?.all_tags).toHaveLength(60)
    await client.close()
    expect(read(home, 'SELECT count(*) AS n FROM ledger_tags WHERE sessions = 1')).toEqual([{ n: 60 }])
  }))

test(
  'C95 twelve clients with mixed changes on a ledger of many sessions: every one is made, none is refused',
  () =>
    withHome(async (home) => {
      await fillLedger(join(home.places.data, 'roomd.db'), load.sessions)
      await startDaemon(home)
      const clients = Array.from({ length: 12 }, (_, i) =>
        spawnClient(
          home,
          `const client = await connect()
           await heard()
           const times = []
           let refused = 0
           const one = async (tool, params) => {
             const begun = performance.now()
             const answer = await client.call(tool, params)
             times.push(performance.now() - begun)
             if (!answer.success) refused++
             return answer
           }
           let work = null
           for (let n = 0; n < ${load.calls}; n++) {
             const session_id = 'bench-' + ((n * 7919 + ${i} * 31) % ${load.sessions})
             switch (n % 5) {
               case 0: await one('session_create', { prompt: 'Use redis', project: 'load' }); break
               case 1: await one('session_accumulate', { session_id, prompt: 'from ${i} number ' + n }); break
               case 2: await one('session_tag', { session_id, tags: 'load-${i}-' + n }); break
               case 3: work = await one('session_add_work_item', { session_id, description: 'load' }); break
               case 4: await one('session_complete_work_item', { session_id: work.session_id, work_id: work.work_id }); break
             }
           }
           await client.close()
           say({ refused, times })`,
        ),
      )
      for (const client of clients) client.send('go')
      const said = (await Promise.all(clients.map((client) => client.next(240_000)))) as Array<{
        refused: number
        times: number[]
      }>
      expect(said.map(({ refused }) => refused)).toEqual(clients.map(() => 0))
      const each = (12 * load.calls) / 5
      const count = (from: string) => read(home, `SELECT count(*) AS n FROM ${from}`)
      expect(count("ledger_sessions WHERE project = 'load'")).toEqual([{ n: each }])
      expect(count("ledger_requests WHERE prompt LIKE 'from %'")).toEqual([{ n: each }])
      expect(count("ledger_tags WHERE name LIKE 'load-%' AND sessions = 1")).toEqual([{ n: each }])
      expect(count("ledger_work_items WHERE status = 'COMPLETED'")).toEqual([{ n: each }])
      if (load.calls < 200) return
      const times = said.flatMap((one) => one.times).sort((a, b) => a - b)
      const at = (share: number) => `${times[Math.floor(share * times.length)]?.toFixed(1)} ms`
      console.log(`C95: ${times.length} calls, p50 ${at(0.5)}, p99 ${at(0.99)}`)
    }),
  300_000,
)

test(
  'the daemon killed during finalizing leaves all of it or nothing',
  () =>
    withHome(async (home) => {
      for (let round = 0; round < rounds; round++) {
        const daemon = await startDaemon(home)
        const client = await connect({ env: home.env, label: 'test', waitMs: 0 })
        const session_id = `round-${round}`
        for (let n = 0; n < 5; n++)
          await client.call('session_accumulate', {
            session_id,
            prompt: 'zebra',
            skill: `s${n}`,
            complexity: n,
          })
        const finalizing = client.call('session_finalize', { session_id }).then(
          (answer) => answer.success,
          () => false,
        )
        // Somewhere between the request on its way and the answer behind.
        const until = performance.now() + (round % 8)
        while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
        await daemon.kill9()
        const acknowledged = await finalizing
        await client.close()
        const [row] = read<Record<string, unknown>>(
          home,
          `SELECT s.status, s.auto_summary <> '' AS told, s.finalized_us IS NOT NULL AS finalized, t.derived IS NOT NULL AS derived,
           (SELECT count(*) FROM ledger_docs d WHERE d.doc_key = s.session_key * 1048576 + 1) AS searched
         FROM ledger_sessions s JOIN ledger_totals t USING (session_key) WHERE session_id = '${session_id}'`,
        )
        const nothing = { status: 'IN_PROGRESS', told: 0, finalized: 0, derived: 0, searched: 0 }
        const all = { status: 'COMPLETED', told: 1, finalized: 1, derived: 1, searched: 1 }
        expect([nothing, all]).toContainEqual(row)
        if (acknowledged) expect(row).toEqual(all)
      }
    }),
  60_000 + rounds * 15_000,
)

test('C97 a daemon killed in the middle of writing: the same call again makes exactly one request', () =>
  withHome(async (home) => {
    for (let round = 0; round < Math.max(2, rounds / 4); round++) {
      const session_id = `retried-${round}`
      const first = await startDaemon(home)
      const client = await connect({ env: home.env, label: 'test', waitMs: 60_000 })
      await client.call('session_accumulate', { session_id, prompt: 'before' })
      // The client sends it again by itself to the next daemon, under the same mutation id.
      const answer = client.call('session_accumulate', { session_id, prompt: 'during' })
      const keyed = client.call('session_accumulate', { session_id, prompt: 'keyed', idempotency_key: 'k' })
      await new Promise((resolve) => setImmediate(resolve))
      await first.kill9()
      const second = await startDaemon(home)
      expect(await answer).toMatchObject({ success: true })
      const { request_number } = await keyed
      // And by hand, from another process, under its key.
      const other = await connect({ env: home.env, label: 'other' })
      expect(
        await other.call('session_accumulate', { session_id, prompt: 'keyed', idempotency_key: 'k' }),
      ).toMatchObject({ request_number })
      await Promise.all([client.close(), other.close()])
      await second.stop()
      const prompts = read<{ prompt: string }>(
        home,
        `SELECT prompt FROM ledger_requests JOIN ledger_sessions USING (session_key) WHERE session_id = '${session_id}'`,
      )
      expect(prompts.map((row) => row.prompt).sort()).toEqual(['before', 'during', 'keyed'])
    }
  }))
