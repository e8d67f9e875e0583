/**
 * Sessions that share tags with one. Found when asked for: two shared tags relate. Rare tags weigh more than common ones (inverse
 * document frequency), then the same project, then the last changed. Relations that were written down count too.
 */
import type { Reader } from '../../store/transaction.ts'
import { keysWithTag } from '../rows/number-list.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { findSession, type SessionRow, summaryOf } from '../rows/sessions.ts'

const SHARED = 2
/** Candidates that are ranked by more than their tags. */
const CANDIDATES = 50

interface Candidate {
  readonly session_key: number
  readonly score: number
}

/** All that share at least two tags, in order of creation: ids. */
export function sharingTags(reader: Reader, key: number): string[] {
  const shared = candidates(reader, key).map((candidate) => candidate.session_key)
  if (shared.length === 0) return []
  const row = reader.get<{ list: string }>(
    `SELECT json_group_array(session_id) AS list FROM (
       SELECT s.session_id FROM json_each(?) k CROSS JOIN ledger_sessions s ON s.session_key = k.value)`,
    JSON.stringify(shared.sort((a, b) => a - b)),
  )
  return row ? (JSON.parse(row.list) as string[]) : []
}

export interface RelatedSession {
  readonly session_id: string
  readonly summary: string
  readonly tags: string[]
  readonly shared_tags: string[]
  readonly created_at: string
}

/** The best `limit`; `except` are left out (ancestors, who are told already). */
export function relatedSessions(
  reader: Reader,
  row: SessionRow,
  limit: number,
  except: ReadonlySet<string>,
): RelatedSession[] {
  if (limit === 0) return []
  const own = tagsOfSession(reader, row.session_key)
  const scores = new Map<number, number>()
  for (const { session_key, score } of candidates(reader, row.session_key).slice(0, CANDIDATES + limit))
    scores.set(session_key, score)
  for (const other of reader.all<{ other: string }>(
    'SELECT other FROM ledger_relations WHERE session_key = ? ORDER BY position',
    row.session_key,
  )) {
    const found = findSession(reader, other.other)
    // Somebody said so: above what is only alike, unless it is much alike.
    if (found) scores.set(found.session_key, (scores.get(found.session_key) ?? 0) + 1_000)
  }
  const sessions = [...scores].flatMap(([key, score]) => {
    const found = reader.get<SessionRow>('SELECT * FROM ledger_sessions WHERE session_key = ?', key)
    if (!found || except.has(found.session_id) || found.archived_us !== null) return []
    return [{ found, score, sameProject: found.project === row.project ? 1 : 0 }]
  })
  sessions.sort(
    (a, b) =>
      round(b.score) - round(a.score) ||
      b.sameProject - a.sameProject ||
      b.found.updated_us - a.found.updated_us ||
      b.found.session_key - a.found.session_key,
  )
  const folded = new Set(own.map((tag) => tag.toLowerCase()))
  return sessions.slice(0, limit).map(({ found }) => {
    const tags = tagsOfSession(reader, found.session_key)
    return {
      session_id: found.session_id,
      summary: summaryOf(found),
      tags,
      shared_tags: tags.filter((tag) => folded.has(tag.toLowerCase())),
      created_at: found.created_text,
    }
  })
}

/** Scores that differ by less are the same. */
function round(score: number): number {
  return Math.round(score * 100)
}

/** Best first. */
function candidates(reader: Reader, key: number): Candidate[] {
  const tags = reader.all<{ tag_key: number; sessions: number }>(
    `SELECT t.tag_key, t.sessions FROM ledger_session_tags st JOIN ledger_tags t USING (tag_key)
     WHERE st.session_key = ? ORDER BY t.sessions`,
    key,
  )
  if (tags.length < SHARED) return []
  const newest = reader.get<{ n: number }>('SELECT max(session_key) AS n FROM ledger_sessions')?.n ?? 1
  // By session key; arrays, because a common tag has thousands of sessions.
  const counts = new Uint16Array(newest + 1)
  const scores = new Float64Array(newest + 1)
  const met: number[] = []
  for (const tag of tags) {
    const weight = Math.log(1 + newest / (1 + tag.sessions))
    for (const k of keysWithTag(reader, tag.tag_key)) {
      const before = counts[k] ?? 0
      if (before === SHARED - 1) met.push(k)
      counts[k] = before + 1
      scores[k] = (scores[k] ?? 0) + weight
    }
  }
  return met
    .filter((session_key) => session_key !== key)
    .map((session_key) => ({ session_key, score: scores[session_key] ?? 0 }))
    .sort((a, b) => b.score - a.score || b.session_key - a.session_key)
}
