/** A ledger with many sessions, before a daemon opens it. */
import pino from 'pino'
import { openStore } from '../../daemon/store/open.ts'

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
/** A session has four of these. */
export const ledgerTags = Array.from({ length: 60 }, (_, i) => words[i] ?? `topic-${i}`)

/** `bench-0`, `bench-1`, … with four tags, a summary and a request each, as the tools would have made them; written in portions. */
export async function fillLedger(file: string, sessions: number): Promise<void> {
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
  const begin = (Date.now() - sessions * 1000) * 1000
  for (let from = 0; from < sessions; from += 500) {
    const portion: Array<Promise<unknown>> = []
    for (let n = from; n < Math.min(sessions, from + 500); n++) {
      const session_id = `bench-${n}`
      const own = [0, 1, 2, 3].map((i) => ledgerTags[(n * 31 + i * 17 + (n % 7) * i) % 60])
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
