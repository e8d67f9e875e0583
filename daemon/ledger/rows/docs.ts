/**
 * The texts of a session that are searched, one row each. Its number within the session says what it is, so that a text is found
 * and replaced without looking for it; the number of its session is in the key, so that a hit names its session.
 */
import type { Transaction } from '../../store/transaction.ts'

/** Numbers of one session. */
const SPAN = 1_048_576
const FIRST_REQUEST = 1_000
const FIRST_WORK_ITEM = 900_000
/** Bodies are indexed up to this many UTF-16 units. */
const LONGEST = 1024 * 1024

export type DocPlace =
  | { readonly source: 'profile' | 'summary' | 'files' | 'decisions' }
  | { readonly source: 'saved' | 'context' | 'finalized' }
  | { readonly source: 'request' | 'work_item'; readonly n: number }

function numberOf(place: DocPlace): number | null {
  switch (place.source) {
    case 'profile':
      return 0
    case 'summary':
      return 1
    case 'files':
      return 2
    case 'decisions':
      return 3
    case 'saved':
      return 10
    case 'context':
      return 11
    case 'finalized':
      return 12
    case 'request':
      return place.n < FIRST_WORK_ITEM - FIRST_REQUEST ? FIRST_REQUEST + place.n : null
    case 'work_item':
      return place.n < SPAN - FIRST_WORK_ITEM ? FIRST_WORK_ITEM + place.n : null
  }
}

export function sessionOfDoc(docKey: number): number {
  return Math.floor(docKey / SPAN)
}

/** The least key that a text of a session can have. */
export function firstDocOf(sessionKey: number): number {
  return sessionKey * SPAN
}

/** Sets, replaces, or with an empty body removes. Requests beyond the 899,000th of a session are not indexed. */
export function setDoc(transaction: Transaction, sessionKey: number, place: DocPlace, body: string): void {
  const number = numberOf(place)
  if (number === null) return
  const key = sessionKey * SPAN + number
  if (body.trim() === '') {
    transaction.run('DELETE FROM ledger_docs WHERE doc_key = ?', key)
    return
  }
  transaction.run(
    `INSERT INTO ledger_docs (doc_key, source, ref, body) VALUES (?, ?, ?, ?)
     ON CONFLICT (doc_key) DO UPDATE SET body = excluded.body WHERE body <> excluded.body`,
    key,
    place.source,
    'n' in place ? String(place.n) : '',
    body.length > LONGEST ? body.slice(0, LONGEST) : body,
  )
}

export function removeDocs(transaction: Transaction, sessionKey: number): void {
  transaction.run(
    'DELETE FROM ledger_docs WHERE doc_key >= ? AND doc_key < ?',
    sessionKey * SPAN,
    (sessionKey + 1) * SPAN,
  )
}
