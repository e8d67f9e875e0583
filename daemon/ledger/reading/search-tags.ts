/** `session_search_tags`: sessions with any of the tags, those with most of them first, then the last changed. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { archivedKeys, keysWithTag, newestOf } from '../rows/number-list.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { sessionByKey, summaryOf } from '../rows/sessions.ts'
import { commaList, fold } from '../tags.ts'

export function searchTags(
  reader: Reader,
  params: LedgerParams<'session_search_tags'>,
): LedgerResult<'session_search_tags'> {
  const searched = commaList(params.tags)
  const folded = [...new Set(searched.map(fold))]
  const counts = new Map<number, number>()
  for (const tag of folded) {
    const row = reader.get<{ tag_key: number }>('SELECT tag_key FROM ledger_tags WHERE folded = ?', tag)
    if (row) for (const key of keysWithTag(reader, row.tag_key)) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  if (!params.include_archived) for (const key of archivedKeys(reader)) counts.delete(key)
  const best = topOf(reader, counts, params.limit)
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
    total_matched: counts.size,
    truncated: counts.size > results.length,
    searched_tags: searched,
  }
}

/** Those with most tags; of as many, the last changed. */
function topOf(reader: Reader, counts: ReadonlyMap<number, number>, limit: number): number[] {
  const groups = new Map<number, Set<number>>()
  for (const [key, count] of counts) {
    const group = groups.get(count)
    if (group) group.add(key)
    else groups.set(count, new Set([key]))
  }
  const best: number[] = []
  for (const [, group] of [...groups].sort(([a], [b]) => b - a)) {
    if (best.length >= limit) break
    best.push(...newestOf(reader, group, limit - best.length))
  }
  return best
}
