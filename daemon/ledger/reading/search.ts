/**
 * Where a keyword occurs: as a substring of any text of a session (as the reference looks), or with all its words in one text. Ranked
 * by words first (bm25), then the last changed.
 *
 * Substrings of three characters and more come from the trigram index, shorter ones from reading the texts.
 */
import type { Reader } from '../../store/transaction.ts'
import { sessionOfDoc } from '../rows/docs.ts'
import { numberList } from '../rows/number-list.ts'

export interface Found {
  /** Lower is better; absent: only the substring was found. */
  readonly rank: number | null
  /** The best text of the session. */
  readonly docKey: number
}

/** More hits than this are not ranked: words that are everywhere tell little, and the last changed come first. */
const RANKED = 1_000

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
  if (words !== null) {
    const hits = numberList(
      reader,
      'SELECT json_group_array(rowid) AS list FROM (SELECT rowid FROM ledger_words WHERE ledger_words MATCH ?)',
      words,
    )
    if (hits.length > RANKED) for (const key of hits) add(key, null)
    else for (const [key, rank] of ranked(reader, words)) add(key, rank)
  }
  const substrings =
    [...keyword].length >= 3
      ? numberList(
          reader,
          'SELECT json_group_array(rowid) AS list FROM (SELECT rowid FROM ledger_trigrams WHERE ledger_trigrams MATCH ?)',
          quoted(keyword),
        )
      : numberList(
          reader,
          `SELECT json_group_array(doc_key) AS list FROM ledger_docs WHERE body LIKE ? ESCAPE '\\'`,
          `%${keyword.replace(/[\\%_]/g, '\\$&')}%`,
        )
  for (const key of substrings) add(key, null)
  return found
}

function ranked(reader: Reader, words: string): Array<[docKey: number, rank: number]> {
  const row = reader.get<{ keys: string; ranks: string }>(
    `SELECT json_group_array(rowid) AS keys, json_group_array(rank) AS ranks FROM (
       SELECT rowid, rank FROM ledger_words WHERE ledger_words MATCH ?)`,
    words,
  )
  const ranks = JSON.parse(row?.ranks ?? '[]') as number[]
  return (JSON.parse(row?.keys ?? '[]') as number[]).map((key, index) => [key, ranks[index] ?? 0])
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
