/** Tags of sessions. Two spellings that differ in case are one tag; each session shows its own spelling. */
import type { Reader, Transaction } from '../../store/transaction.ts'
import { byCodePoint } from '../numbers.ts'
import { type FoundTag, fold } from '../tags.ts'
import { must } from './sessions.ts'

/** Sorted by code point. */
export function tagsOfSession(reader: Reader, key: number): string[] {
  return reader
    .all<{ name: string }>('SELECT name FROM ledger_session_tags WHERE session_key = ?', key)
    .map((row) => row.name)
    .sort(byCodePoint)
}

/** Those it has already stay as they are. `position`: of the first in the order of tagging. */
export function addTags(
  transaction: Transaction,
  key: number,
  tags: readonly FoundTag[],
  position: number,
): void {
  tags.forEach((tag, index) => {
    const folded = fold(tag.name)
    transaction.run(
      'INSERT INTO ledger_tags (name, folded) VALUES (?, ?) ON CONFLICT DO NOTHING',
      tag.name,
      folded,
    )
    const { tag_key } = must(
      transaction.get<{ tag_key: number }>('SELECT tag_key FROM ledger_tags WHERE folded = ?', folded),
    )
    const { changes } = transaction.run(
      `INSERT INTO ledger_session_tags (session_key, tag_key, name, source, span, position) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
      key,
      tag_key,
      tag.name,
      tag.source,
      tag.span,
      position + index,
    )
    if (changes > 0)
      transaction.run('UPDATE ledger_tags SET sessions = sessions + 1 WHERE tag_key = ?', tag_key)
  })
}

/** Returns the spellings that were taken away. */
export function removeTags(transaction: Transaction, key: number, tags: readonly string[]): string[] {
  const removed: string[] = []
  for (const tag of new Set(tags.map(fold))) {
    const row = transaction.get<{ tag_key: number; name: string }>(
      `SELECT t.tag_key, st.name FROM ledger_tags t JOIN ledger_session_tags st USING (tag_key)
       WHERE t.folded = ? AND st.session_key = ?`,
      tag,
      key,
    )
    if (!row) continue
    transaction.run('DELETE FROM ledger_session_tags WHERE session_key = ? AND tag_key = ?', key, row.tag_key)
    transaction.run('UPDATE ledger_tags SET sessions = sessions - 1 WHERE tag_key = ?', row.tag_key)
    removed.push(row.name)
  }
  return removed
}
