/** `session_show`: everything of one session, for people. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { type Failure, notFound } from '../outcome.ts'
import { roomTable, summaryMarkdown } from '../render/summary-markdown.ts'
import { artifactsOf, bodyText } from '../rows/artifacts.ts'
import { roomsOf } from '../rows/rooms-used.ts'
import { findSession, type SessionRow, summaryOf } from '../rows/sessions.ts'
import { requestsOf } from '../rows/totals.ts'
import { workItemResult, workItemsOf } from '../rows/work-items.ts'
import { roomsOfChain } from './context.ts'
import { listedSession } from './listed.ts'

/** Requests that are told, the newest. */
const REQUESTS = 500

export function show(
  reader: Reader,
  { session_id }: LedgerParams<'session_show'>,
  options: { compat: boolean; mirror: string | null },
): LedgerResult<'session_show'> | Failure {
  const fault = nameFault(session_id, 'session_id')
  if (fault) return fault
  const row = findSession(reader, session_id)
  if (!row) return notFound(session_id)
  return {
    success: true,
    session: listedSession(reader, row, options.mirror),
    requests: requestsOf(reader, row.session_key)
      .slice(-REQUESTS)
      .map(({ n, at_text, prompt, task_type, skill, complexity, model }) => ({
        n,
        timestamp: at_text,
        prompt,
        task_type,
        skill,
        complexity,
        model,
      })),
    work_items: workItemsOf(reader, row.session_key).map(workItemResult),
    rooms: roomsOfChain(reader, [row]),
    children: reader
      .all<{ session_id: string }>(
        'SELECT session_id FROM ledger_sessions WHERE parent = ? ORDER BY session_key',
        session_id,
      )
      .map((child) => child.session_id),
    markdown: markdownOf(reader, row, options),
  }
}

/** What was saved or finalized; of a session that is under way, what is known so far. */
function markdownOf(reader: Reader, row: SessionRow, options: { compat: boolean }): string {
  const [saved] = artifactsOf(reader, row.session_key, 'summary')
  const [imported] = artifactsOf(reader, row.session_key, 'finalized')
  const made = imported ? bodyText(imported) : summaryMarkdown(reader, row, options)
  const parts = [saved ? bodyText(saved) : null, made].filter((part) => part !== null)
  if (parts.length > 0) return parts.join('\n\n')
  const rooms = roomsOf(reader, row.session_key)
  return [
    `# Session: ${row.session_id}`,
    '',
    summaryOf(row) || row.last_prompt || 'Nothing is known of it yet.',
    ...(rooms.length > 0 ? ['', ...roomTable(rooms)] : []),
  ].join('\n')
}
