/**
 * Where a keyword occurs: as a substring of any text of a session (as the reference looks), or with all its words in one text. Ranked
 * by words first (bm25), then the last changed.
 *
 * Substrings of three characters and more come from the trigram index, shorter ones from reading the texts. What both indexes give is
 * in ascending order, so that lists of tens of thousands are compared in one pass.
 */
import type { Reader } from '../../store/transaction.ts'
import { firstDocOf, sessionOfDoc } from '../rows/docs.ts'
import { numberList, placeOf, union, without } from '../rows/number-list.ts'

export interface Found {
  /** Lower is better; absent: only the substring was found. */
  readonly rank: number | null
  /** The best text of the session. */
  readonly docKey: number
}

export interface Hits {
  /** By session. */
  readonly ranked: ReadonlyMap<number, Found>
  /** All other sessions, ascending. */
  readonly others: readonly number[]
  /** Of a session that has the keyword. */
  of(session: number): Found | null
}

/** More hits than this are not ranked: words that are everywhere tell little, and the last changed come first. */
const RANKED = 1_000
/** Up to as many texts are read to see whether the keyword is in them; of more the index is asked. */
const READ = 200
const GRAM = 3

export function findKeyword(reader: Reader, keyword: string): Hits {
  const words = wordsQuery(keyword)
  const withWords = words === null ? [] : docsMatching(reader, 'ledger_words', words)
  const withSubstring =
    [...keyword].length >= GRAM
      ? withGrams(reader, keyword, withWords)
      : numberList(
          reader,
          `SELECT json_group_array(doc_key) AS list FROM ledger_docs WHERE body LIKE ? ESCAPE '\\'`,
          `%${keyword.replace(/[\\%_]/g, '\\$&')}%`,
        )
  const ranks =
    words !== null && withWords.length <= RANKED ? ranked(reader, words) : new Map<number, Found>()
  const docs = union(withWords, withSubstring)
  return {
    ranked: ranks,
    others: sessionsOf(docs).filter((session) => !ranks.has(session)),
    of(session) {
      const docKey = docs[placeOf(docs, firstDocOf(session))]
      if (docKey === undefined || sessionOfDoc(docKey) !== session) return null
      return ranks.get(session) ?? { rank: null, docKey }
    },
  }
}

function docsMatching(reader: Reader, index: 'ledger_words' | 'ledger_trigrams', query: string): number[] {
  return numberList(
    reader,
    `SELECT json_group_array(rowid) AS list FROM (SELECT rowid FROM ${index} WHERE ${index} MATCH ?)`,
    query,
  )
}

/**
 * Texts with the keyword as a substring, which may leave out some of `known`. That some trigrams stand one after the other is what
 * costs; that they are all there is soon found. So the trigrams of which the keyword is made are asked for, and of texts that are not
 * known already, and have them all, the few are read.
 */
function withGrams(reader: Reader, keyword: string, known: readonly number[]): number[] {
  const points = [...keyword]
  const grams = new Set<string>()
  for (let at = 0; at < points.length; at += GRAM) {
    const from = Math.min(at, points.length - GRAM)
    grams.add(points.slice(from, from + GRAM).join(''))
  }
  const all = docsMatching(reader, 'ledger_trigrams', [...grams].map(quoted).join(' '))
  if (points.length === GRAM) return all
  const unknown = without(all, known)
  if (unknown.length > READ) return docsMatching(reader, 'ledger_trigrams', quoted(keyword))
  const folded = keyword.toLowerCase()
  return unknown.filter((docKey) => bodyOf(reader, docKey).toLowerCase().includes(folded))
}

/** Ascending, each once. */
function sessionsOf(docs: readonly number[]): number[] {
  const sessions: number[] = []
  for (const docKey of docs) {
    const session = sessionOfDoc(docKey)
    if (session !== sessions.at(-1)) sessions.push(session)
  }
  return sessions
}

function bodyOf(reader: Reader, docKey: number): string {
  return reader.get<{ body: string }>('SELECT body FROM ledger_docs WHERE doc_key = ?', docKey)?.body ?? ''
}

/** By session, its best text. */
function ranked(reader: Reader, words: string): Map<number, Found> {
  const row = reader.get<{ keys: string; ranks: string }>(
    `SELECT json_group_array(rowid) AS keys, json_group_array(rank) AS ranks FROM (
       SELECT rowid, rank FROM ledger_words WHERE ledger_words MATCH ?)`,
    words,
  )
  const ranks = JSON.parse(row?.ranks ?? '[]') as number[]
  const best = new Map<number, Found & { readonly rank: number }>()
  for (const [index, docKey] of (JSON.parse(row?.keys ?? '[]') as number[]).entries()) {
    const rank = ranks[index] ?? 0
    const session = sessionOfDoc(docKey)
    const present = best.get(session)
    if (!present || rank < present.rank) best.set(session, { rank, docKey })
  }
  return best
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
  const body = bodyOf(reader, found.docKey)
  const at = body.toLowerCase().indexOf(keyword.toLowerCase())
  if (at < 0) return body.slice(0, 120)
  const end = at + keyword.length
  const start = Math.max(0, at - 60)
  const stop = Math.min(body.length, end + 60)
  return `${start > 0 ? '…' : ''}${body.slice(start, at)}[${body.slice(at, end)}]${body.slice(end, stop)}${stop < body.length ? '…' : ''}`
}
