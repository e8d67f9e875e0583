/** `session_search_tags`: sessions with any of the tags, those with most of them first, then the last changed. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { archivedKeys, keysWithTag, newestOf } from '../rows/number-list.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { sessionByKey, summaryOf } from '../rows/sessions.ts'
import { commaList, fold } from '../tags.ts'
import { shownOf } from './listed.ts'

export function searchTags(
  reader: Reader,
  params: LedgerParams<'session_search_tags'>,
): LedgerResult<'session_search_tags'> {
  const searched = commaList(params.tags)
  const folded = [...new Set(searched.map(fold))]
  const groups = byMatches(reader, folded, params.include_archived)
  const total = groups.reduce((sum, group) => sum + group.length, 0)
  const best: number[] = []
  // Those with most tags; of as many, the last changed.
  for (const group of groups) best.push(...newestOf(reader, group, params.limit - best.length))
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
    ...shownOf(results.length, total),
    searched_tags: searched,
  }
}

/** Sessions by how many of the tags they have, most first; each group ascending. */
function byMatches(reader: Reader, folded: readonly string[], includeArchived: boolean): number[][] {
  const lists = folded.flatMap((tag) => {
    const row = reader.get<{ tag_key: number }>('SELECT tag_key FROM ledger_tags WHERE folded = ?', tag)
    const keys = row ? keysWithTag(reader, row.tag_key) : []
    return keys.length > 0 ? [keys] : []
  })
  const groups: number[][] = lists.map(() => [])
  // The key of a tag's last session is its greatest: the index gives them in order.
  const counts = new Uint16Array(1 + Math.max(-1, ...lists.map((keys) => keys.at(-1) ?? -1)))
  for (const keys of lists) for (const key of keys) counts[key] = (counts[key] ?? 0) + 1
  if (!includeArchived) for (const key of archivedKeys(reader)) counts[key] = 0
  for (let key = 0; key < counts.length; key++) {
    const count = counts[key] ?? 0
    if (count > 0) groups[lists.length - count]?.push(key)
  }
  return groups
}
