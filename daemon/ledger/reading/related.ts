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
  const { counts } = tally(reader, key)
  const shared: number[] = []
  for (let other = 0; other < counts.length; other++)
    if ((counts[other] ?? 0) >= SHARED && other !== key) shared.push(other)
  if (shared.length === 0) return []
  const row = reader.get<{ list: string }>(
    `SELECT json_group_array(session_id) AS list FROM (
       SELECT s.session_id FROM json_each(?) k CROSS JOIN ledger_sessions s INDEXED BY ledger_session_ids ON s.session_key = k.value)`,
    JSON.stringify(shared),
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
  for (const { session_key, score } of candidates(reader, row.session_key, CANDIDATES + limit))
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

interface Tally {
  /** By session key: how many of the session's tags it has. */
  readonly counts: Uint16Array
  /** By session key: what those weigh. */
  readonly scores: Float64Array
}

/** Arrays by session key, because a common tag has thousands of sessions. */
function tally(reader: Reader, key: number): Tally {
  const tags = reader.all<{ tag_key: number; sessions: number }>(
    'SELECT t.tag_key, t.sessions FROM ledger_session_tags st JOIN ledger_tags t USING (tag_key) WHERE st.session_key = ?',
    key,
  )
  if (tags.length < SHARED) return { counts: new Uint16Array(0), scores: new Float64Array(0) }
  const newest = reader.get<{ n: number }>('SELECT max(session_key) AS n FROM ledger_sessions')?.n ?? 1
  const counts = new Uint16Array(newest + 1)
  const scores = new Float64Array(newest + 1)
  for (const tag of tags) {
    const weight = Math.log(1 + newest / (1 + tag.sessions))
    for (const other of keysWithTag(reader, tag.tag_key)) {
      counts[other] = (counts[other] ?? 0) + 1
      scores[other] = (scores[other] ?? 0) + weight
    }
  }
  return { counts, scores }
}

/** The best `most`, best first; the newer of two that are as good. */
function candidates(reader: Reader, key: number, most: number): Candidate[] {
  const { counts, scores } = tally(reader, key)
  const better = (a: Candidate, b: Candidate): number => b.score - a.score || b.session_key - a.session_key
  const best: Candidate[] = []
  for (let session_key = counts.length - 1; session_key >= 0; session_key--) {
    if ((counts[session_key] ?? 0) < SHARED || session_key === key) continue
    const score = scores[session_key] ?? 0
    // From the newest down: one that is only as good as the last of a full list is the older one.
    if (best.length === most && score <= (best.at(-1)?.score ?? 0)) continue
    best.push({ session_key, score })
    best.sort(better)
    if (best.length > most) best.pop()
  }
  return best
}
