/**
 * Where a keyword occurs: as a substring of any text of a session (as the reference looks), or with all its words in one text. Ranked
 * by words first (bm25), then the last changed.
 *
 * Substrings of three characters and more come from the trigram index, shorter ones from reading the texts.
 */
import type { Reader } from '../../store/transaction.ts'
import { sessionOfDoc } from '../rows/docs.ts'

export interface Found {
  /** Lower is better; absent: only the substring was found. */
  readonly rank: number | null
  /** The best text of the session. */
  readonly docKey: number
}

/** By session key. */
export function findKeyword(reader: Reader, keyword: string): Map<number, Found> {
  const found = new Map<number, Found>()
  const add = (docKey: number, rank: number | null): void => {
    const session = sessionOfDoc(docKey)
    const present = found.get(session)
    if (!present || (rank !== null && (present.rank === null || rank < present.rank)))
      found.set(session, { rank, docKey })
  }
  const words = wordsQuery(keyword)
  if (words !== null)
    for (const row of reader.all<{ rowid: number; rank: number }>(
      'SELECT rowid, rank FROM ledger_words WHERE ledger_words MATCH ?',
      words,
    ))
      add(row.rowid, row.rank)
  const substrings =
    [...keyword].length >= 3
      ? reader.all<{ rowid: number }>(
          'SELECT rowid FROM ledger_trigrams WHERE ledger_trigrams MATCH ?',
          quoted(keyword),
        )
      : reader.all<{ rowid: number }>(
          `SELECT doc_key AS rowid FROM ledger_docs WHERE body LIKE ? ESCAPE '\\'`,
          `%${keyword.replace(/[\\%_]/g, '\\$&')}%`,
        )
  for (const row of substrings) add(row.rowid, null)
  return found
}

/** The keyword's words, all of them; null when it has none that the index knows. */
function wordsQuery(keyword: string): string | null {
  const words = keyword.match(/[\p{L}\p{N}\p{Co}\p{M}]+/gu)
  return words === null ? null : words.map(quoted).join(' ')
}

function quoted(text: string): string {
  return `"${text.replaceAll('\0', ' ').replaceAll('"', '""')}"`
}

/** A few words around the hit, `[`…`]` around it. */
export function snippetOf(reader: Reader, keyword: string, found: Found): string {
  const words = wordsQuery(keyword)
  if (found.rank !== null && words !== null) {
    const row = reader.get<{ text: string }>(
      `SELECT snippet(ledger_words, 0, '[', ']', '…', 16) AS text FROM ledger_words
       WHERE ledger_words MATCH ? AND rowid = ?`,
      words,
      found.docKey,
    )
    if (row) return row.text
  }
  const body =
    reader.get<{ body: string }>('SELECT body FROM ledger_docs WHERE doc_key = ?', found.docKey)?.body ?? ''
  const at = body.toLowerCase().indexOf(keyword.toLowerCase())
  if (at < 0) return body.slice(0, 120)
  const end = at + keyword.length
  const start = Math.max(0, at - 60)
  const stop = Math.min(body.length, end + 60)
  return `${start > 0 ? '…' : ''}${body.slice(start, at)}[${body.slice(at, end)}]${body.slice(end, stop)}${stop < body.length ? '…' : ''}`
}
