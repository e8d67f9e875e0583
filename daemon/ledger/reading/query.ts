/** `session_query`: sessions by project, time of change and keyword, given as one JSON text. Unknown keys are ignored and echoed. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { isJsonObject, type JsonObject, parseLenient, UnreadableFile } from '../lenient-json.ts'
import { type Failure, failure, valueError } from '../outcome.ts'
import type { SessionRow } from '../rows/sessions.ts'
import { parseIso } from '../times.ts'
import { countSessions, listedSession, projectCondition } from './listed.ts'
import { type Found, findKeyword, snippetOf } from './search.ts'

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
  const condition = projectCondition(read.project)
  const where = [condition.sql]
  const values: Array<string | number> = [...condition.values]
  if (read.from !== null) {
    where.push('s.updated_us >= ?')
    values.push(read.from)
  }
  if (read.to !== null) {
    where.push('s.updated_us <= ?')
    values.push(read.to)
  }
  const matched =
    read.keyword === ''
      ? inOrder(reader, where, values, read.limit, params.include_archived)
      : ranked(
          reader,
          params.include_archived ? where : [...where, 's.archived_us IS NULL'],
          values,
          read.keyword,
          read.limit,
        )
  const results = matched.rows.map(({ row, found }) => ({
    ...listedSession(reader, row, mirror),
    ...(found ? { snippet: snippetOf(reader, read.keyword, found) } : {}),
  }))
  return {
    success: true,
    results,
    count: results.length,
    total_matched: matched.total,
    truncated: matched.total > results.length,
    filters: given.filters,
  }
}

interface Matched {
  readonly total: number
  readonly rows: ReadonlyArray<{ row: SessionRow; found: Found | null }>
}

function inOrder(
  reader: Reader,
  where: readonly string[],
  values: Array<string | number>,
  limit: number,
  includeArchived: boolean,
): Matched {
  const condition = where.join(' AND ')
  const shown = includeArchived ? condition : `${condition} AND s.archived_us IS NULL`
  const rows = reader.all<SessionRow>(
    `SELECT s.* FROM ledger_sessions s WHERE ${shown} ORDER BY s.updated_us DESC, s.session_key DESC LIMIT ?`,
    ...values,
    limit,
  )
  return {
    total: countSessions(reader, condition, values, includeArchived),
    rows: rows.map((row) => ({ row, found: null })),
  }
}

function ranked(
  reader: Reader,
  where: readonly string[],
  values: Array<string | number>,
  keyword: string,
  limit: number,
): Matched {
  const found = findKeyword(reader, keyword)
  if (found.size === 0) return { total: 0, rows: [] }
  // The keys as one JSON array, and back as two: a statement of one shape, however many there are.
  const row = reader.get<{ keys: string; times: string }>(
    `SELECT json_group_array(session_key) AS keys, json_group_array(updated_us) AS times FROM (
       SELECT s.session_key, s.updated_us FROM json_each(?) k CROSS JOIN ledger_sessions s ON s.session_key = k.value
       WHERE ${where.join(' AND ')})`,
    JSON.stringify([...found.keys()]),
    ...values,
  )
  const times = JSON.parse(row?.times ?? '[]') as number[]
  const matching = (JSON.parse(row?.keys ?? '[]') as number[]).map((session_key, index) => ({
    session_key,
    updated_us: times[index] ?? 0,
  }))
  const rankOf = (key: number): number => found.get(key)?.rank ?? Number.POSITIVE_INFINITY
  matching.sort((a, b) => {
    const ranks = rankOf(a.session_key) - rankOf(b.session_key)
    // Two that have no rank differ by NaN.
    return ranks || b.updated_us - a.updated_us || b.session_key - a.session_key
  })
  const rows = matching.slice(0, limit).flatMap(({ session_key }) => {
    const row = reader.get<SessionRow>('SELECT * FROM ledger_sessions WHERE session_key = ?', session_key)
    return row ? [{ row, found: found.get(session_key) ?? null }] : []
  })
  return { total: matching.length, rows }
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
