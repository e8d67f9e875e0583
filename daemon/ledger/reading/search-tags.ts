/** `session_search_tags`: sessions with any of the tags, those with most of them first, then the last changed. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { sessionByKey, summaryOf } from '../rows/sessions.ts'
import { commaList, fold } from '../tags.ts'

export function searchTags(
  reader: Reader,
  params: LedgerParams<'session_search_tags'>,
): LedgerResult<'session_search_tags'> {
  const searched = commaList(params.tags)
  const folded = [...new Set(searched.map(fold))]
  const matches = reader.all<{ session_key: number; n: number }>(
    `SELECT st.session_key, count(*) AS n FROM ledger_tags t JOIN ledger_session_tags st USING (tag_key)
     WHERE t.folded IN (SELECT value FROM json_each(?)) GROUP BY st.session_key`,
    JSON.stringify(folded),
  )
  const hidden = params.include_archived
    ? new Set<number>()
    : new Set(
        reader
          .all<{ k: number }>('SELECT session_key AS k FROM ledger_sessions WHERE archived_us IS NOT NULL')
          .map((row) => row.k),
      )
  const shown = matches.filter((match) => !hidden.has(match.session_key))
  const best = topOf(reader, shown, params.limit)
  const wanted = new Set(folded)
  const results = best.flatMap((key) => {
    const row = sessionByKey(reader, key)
    if (!row) return []
    const tags = tagsOfSession(reader, key)
    return [
      {
        session_id: row.session_id,
        matched_tags: tags.filter((tag) => wanted.has(fold(tag))),
        all_tags: tags,
        summary: summaryOf(row),
        project: row.project,
      },
    ]
  })
  return {
    success: true,
    results,
    count: results.length,
    total_matched: shown.length,
    truncated: shown.length > results.length,
    searched_tags: searched,
  }
}

/** Times are read only where they decide: in the last group that fits. */
function topOf(reader: Reader, matches: Array<{ session_key: number; n: number }>, limit: number): number[] {
  const groups = new Map<number, number[]>()
  for (const { session_key, n } of matches) {
    const group = groups.get(n)
    if (group) group.push(session_key)
    else groups.set(n, [session_key])
  }
  const best: number[] = []
  for (const n of [...groups.keys()].sort((a, b) => b - a)) {
    if (best.length >= limit) break
    const newest = reader.all<{ session_key: number }>(
      `SELECT s.session_key FROM json_each(?) k CROSS JOIN ledger_sessions s ON s.session_key = k.value
       ORDER BY s.updated_us DESC, s.session_key DESC LIMIT ?`,
      JSON.stringify(groups.get(n)),
      limit - best.length,
    )
    best.push(...newest.map((row) => row.session_key))
  }
  return best
}
