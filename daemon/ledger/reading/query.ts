/** `session_query`: sessions by project, time of change and keyword, given as one JSON text. Unknown keys are ignored and echoed. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { isJsonObject, type JsonObject, parseLenient, UnreadableFile } from '../lenient-json.ts'
import { type Failure, failure, valueError } from '../outcome.ts'
import { archivedKeys, newestOf, numberList } from '../rows/number-list.ts'
import { type SessionRow, sessionByKey } from '../rows/sessions.ts'
import { parseIso } from '../times.ts'
import { type Choice, conditionOf, countSessions, listedSession, newestSessions, shownOf } from './listed.ts'
import { type Found, findKeyword, type Hits, snippetOf } from './search.ts'

interface Filters {
  readonly project: string
  readonly from: number | null
  readonly to: number | null
  readonly keyword: string
  readonly limit: number
}

const DAY_US = 86_400_000_000
/** Without a maximum in the reference; more than this is no answer for anybody. */
const LARGEST_LIMIT = 10_000

export function query(
  reader: Reader,
  params: LedgerParams<'session_query'>,
  mirror: string | null,
): LedgerResult<'session_query'> | Failure {
  const given = parsed(params.filters)
  if (!given.ok) return given.failure
  const read = readFilters(given.filters)
  if ('success' in read) return read
  const choice: Choice = { ...read, includeArchived: params.include_archived }
  const matched =
    read.keyword === ''
      ? inOrder(reader, choice, read.limit)
      : byKeyword(reader, choice, read.keyword, read.limit)
  const results = matched.rows.map(({ row, found }) => ({
    ...listedSession(reader, row, mirror),
    ...(found ? { snippet: snippetOf(reader, read.keyword, found) } : {}),
  }))
  return {
    success: true,
    results,
    ...shownOf(results.length, matched.total),
    filters: given.filters,
  }
}

interface Matched {
  readonly total: number
  readonly rows: ReadonlyArray<{ row: SessionRow; found: Found | null }>
}

function inOrder(reader: Reader, choice: Choice, limit: number): Matched {
  return {
    total: countSessions(reader, choice),
    rows: newestSessions(reader, choice, limit).map((row) => ({ row, found: null })),
  }
}

/** Those that were ranked, best first; then the others, the last changed first. */
function byKeyword(reader: Reader, choice: Choice, keyword: string, limit: number): Matched {
  const hits = findKeyword(reader, keyword)
  const ranked = inOrderOfRank(reader, hits, choice)
  const others = chosen(reader, choice, hits.others)
  const keys = [...ranked.slice(0, limit), ...newestOf(reader, others, limit - ranked.length)]
  return {
    total: ranked.length + others.length,
    rows: keys.flatMap((key) => {
      const row = sessionByKey(reader, key)
      return row ? [{ row, found: hits.of(key) }] : []
    }),
  }
}

/** The keys as one JSON array, and back as two: a statement of one shape, however many there are. */
function inOrderOfRank(reader: Reader, hits: Hits, choice: Choice): number[] {
  if (hits.ranked.size === 0) return []
  const condition = conditionOf(choice)
  const row = reader.get<{ keys: string; times: string }>(
    `SELECT json_group_array(session_key) AS keys, json_group_array(updated_us) AS times FROM (
       SELECT s.session_key, s.updated_us FROM json_each(?) k CROSS JOIN ledger_sessions s ON s.session_key = k.value
       WHERE ${condition.sql})`,
    JSON.stringify([...hits.ranked.keys()]),
    ...condition.values,
  )
  const times = JSON.parse(row?.times ?? '[]') as number[]
  return (JSON.parse(row?.keys ?? '[]') as number[])
    .map((key, index) => ({ key, rank: hits.ranked.get(key)?.rank ?? 0, changed: times[index] ?? 0 }))
    .sort((a, b) => a.rank - b.rank || b.changed - a.changed || b.key - a.key)
    .map(({ key }) => key)
}

/** Those of the keys, ascending, that are chosen. */
function chosen(reader: Reader, choice: Choice, keys: readonly number[]): readonly number[] {
  if (keys.length === 0) return keys
  if (choice.project !== '' || choice.from !== null || choice.to !== null) {
    const condition = conditionOf(choice)
    return numberList(
      reader,
      `SELECT json_group_array(session_key) AS list FROM (
         SELECT s.session_key FROM json_each(?) k CROSS JOIN ledger_sessions s ON s.session_key = k.value
         WHERE ${condition.sql})`,
      JSON.stringify(keys),
      ...condition.values,
    )
  }
  if (choice.includeArchived) return keys
  const archived = archivedKeys(reader)
  return archived.size === 0 ? keys : keys.filter((key) => !archived.has(key))
}

function parsed(text: string): { ok: true; filters: JsonObject } | { ok: false; failure: Failure } {
  let value: unknown
  try {
    value = parseLenient(text)
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    return { ok: false, failure: failure(`Invalid JSON in filters: ${error.message}`) }
  }
  if (isJsonObject(value)) return { ok: true, filters: value }
  return { ok: false, failure: valueError('filters must be a JSON object, such as {"keyword": "redis"}') }
}

function readFilters(given: JsonObject): Filters | Failure {
  const { project = '', keyword = '', limit = 50 } = given
  if (typeof project !== 'string') return valueError('project must be a text')
  const fault = project === '' ? null : nameFault(project, 'project')
  if (fault) return fault
  if (typeof keyword !== 'string') return valueError('keyword must be a text')
  const count = limit === true ? 1 : limit
  if (typeof count !== 'number' || !Number.isInteger(count) || count < 1)
    return failure('limit must be a positive integer')
  const from = bound(given.date_from, 'date_from')
  if (typeof from === 'object' && from !== null) return from
  const to = bound(given.date_to, 'date_to')
  if (typeof to === 'object' && to !== null) return to
  return { project, keyword, from, to, limit: Math.min(count, LARGEST_LIMIT) }
}

/** Inclusive. A date alone is its beginning or, as an upper bound, its end. */
function bound(value: unknown, key: 'date_from' | 'date_to'): number | null | Failure {
  if (value === undefined || value === null || value === '') return null
  const time = typeof value === 'string' ? parseIso(value) : null
  if (!time) return failure(`${key} is not an ISO date or time: ${JSON.stringify(value)}`)
  return key === 'date_to' && time.dateOnly ? time.us + DAY_US - 1 : time.us
}
