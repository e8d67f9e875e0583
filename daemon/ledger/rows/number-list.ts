/**
 * Many numbers from one statement, and lists of keys in ascending order. As rows each number would be an object; as one JSON array of
 * SQLite's making they cost a tenth, which is what keeps a search among tens of thousands of sessions within a few milliseconds of the
 * daemon's loop.
 */
import type { SqlValue } from '../../store/store.ts'
import type { Reader } from '../../store/transaction.ts'

/** `sql` selects one column named `list` with json_group_array. */
export function numberList(reader: Reader, sql: string, ...values: SqlValue[]): number[] {
  const row = reader.get<{ list: string | null }>(sql, ...values)
  return row?.list ? (JSON.parse(row.list) as number[]) : []
}

/** Sessions that were archived. */
export function archivedKeys(reader: Reader): ReadonlySet<number> {
  return new Set(
    numberList(
      reader,
      'SELECT json_group_array(session_key) AS list FROM ledger_sessions WHERE archived_us IS NOT NULL',
    ),
  )
}

/** Sessions that have a tag. */
export function keysWithTag(reader: Reader, tagKey: number): number[] {
  return numberList(
    reader,
    'SELECT json_group_array(session_key) AS list FROM ledger_session_tags WHERE tag_key = ?',
    tagKey,
  )
}

/** Those of `a` that are not in `b`; both ascending, each once. */
export function without(a: readonly number[], b: readonly number[]): number[] {
  const rest: number[] = []
  let at = 0
  for (const key of a) {
    while (at < b.length && (b[at] ?? 0) < key) at++
    if (b[at] !== key) rest.push(key)
  }
  return rest
}

/** Those of both, ascending, each once; both ascending, each once. */
export function union(a: readonly number[], b: readonly number[]): number[] {
  if (a.length === 0) return [...b]
  if (b.length === 0) return [...a]
  const all: number[] = []
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    const left = a[i] ?? Number.POSITIVE_INFINITY
    const right = b[j] ?? Number.POSITIVE_INFINITY
    all.push(Math.min(left, right))
    if (left <= right) i++
    if (right <= left) j++
  }
  return all
}

/** Where `key` stands in an ascending list, or where it would. */
export function placeOf(list: readonly number[], key: number): number {
  let from = 0
  let to = list.length
  while (from < to) {
    const middle = (from + to) >>> 1
    if ((list[middle] ?? 0) < key) from = middle + 1
    else to = middle
  }
  return from
}

/** How many rows of the index by time are looked through at a time, and at most. */
const STEP = 1_000
const MOST_STEPS = 5

/** Of `keys`, ascending, the last changed `limit`, newest first. */
export function newestOf(reader: Reader, keys: readonly number[], limit: number): number[] {
  if (limit <= 0) return []
  const found: number[] = []
  // Of many the newest are soon met among all; of few it is quicker to ask each.
  if (keys.length > STEP) {
    for (let step = 0; step < MOST_STEPS; step++) {
      const recent = numberList(
        reader,
        `SELECT json_group_array(session_key) AS list FROM (
           SELECT session_key FROM ledger_sessions ORDER BY updated_us DESC, session_key DESC LIMIT ? OFFSET ?)`,
        STEP,
        step * STEP,
      )
      for (const key of recent)
        if (keys[placeOf(keys, key)] === key && found.push(key) === limit) return found
      if (recent.length < STEP) return found
    }
  }
  return numberList(
    reader,
    `SELECT json_group_array(session_key) AS list FROM (
       SELECT s.session_key FROM json_each(?) k CROSS JOIN ledger_sessions s ON s.session_key = k.value
       ORDER BY s.updated_us DESC, s.session_key DESC LIMIT ?)`,
    JSON.stringify(keys),
    limit,
  )
}
