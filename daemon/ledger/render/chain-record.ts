/**
 * Records of the chain index. A session that was imported and not changed since is written as it was read, member for member; only who
 * its children and relations are is told by the ledger.
 */
import type { Reader } from '../../store/transaction.ts'
import { isJsonObject, type JsonObject, parseLenient } from '../lenient-json.ts'
import { byCodePoint } from '../numbers.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { type SessionRow, summaryOf } from '../rows/sessions.ts'
import { workItemsOf } from '../rows/work-items.ts'

const members = [
  'parent',
  'children',
  'related',
  'tags',
  'project',
  'skill',
  'task_type',
  'summary',
  'created_at',
  'last_prompt',
  'work_items',
]

export function chainRecord(reader: Reader, row: SessionRow): JsonObject {
  const imported = row.extra === null ? null : parseLenient(row.extra)
  const before = isJsonObject(imported) ? imported : null
  const links = { children: childrenOf(reader, row), related: relatedOf(reader, row.session_key) }
  if (before && row.rev === row.imported_rev) return { ...ordered(before, links), ...unknownOf(before) }
  const items = workItemsOf(reader, row.session_key).map((item) => ({
    work_id: item.work_id,
    type: item.type,
    description: item.description,
    started_at: item.started_text,
    completed_at: item.completed_text,
    status: item.status,
    metadata: parseLenient(item.metadata),
    ...(item.extra === null ? {} : (parseLenient(item.extra) as JsonObject)),
  }))
  return {
    parent: row.parent,
    ...links,
    tags: tagsOfSession(reader, row.session_key).sort(byCodePoint),
    project: row.project,
    skill: row.skill,
    task_type: row.task_type,
    summary: summaryOf(row),
    created_at: row.created_text,
    last_prompt: row.last_prompt,
    ...(items.length > 0 ? { work_items: items } : {}),
    ...(before ? unknownOf(before) : {}),
  }
}

/**
 * What is kept of a record that is read: children are told by who names a parent, relations have rows of their own. In one order, so
 * that the same record is the same text.
 */
export function keptRecord(record: JsonObject): JsonObject {
  const { children: _children, related: _related, ...rest } = record
  return { ...ordered(rest, {}), ...unknownOf(rest) }
}

/** In the reference's order of members; those that the record lacked stay away. */
function ordered(before: JsonObject, links: JsonObject): JsonObject {
  const all: JsonObject = { ...before, ...links }
  return Object.fromEntries(members.filter((name) => name in all).map((name) => [name, all[name]]))
}

function unknownOf(before: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(before).filter(([name]) => !members.includes(name)))
}

function childrenOf(reader: Reader, row: SessionRow): string[] {
  return reader
    .all<{ session_id: string }>(
      'SELECT session_id FROM ledger_sessions WHERE parent = ? ORDER BY session_key',
      row.session_id,
    )
    .map((child) => child.session_id)
}

function relatedOf(reader: Reader, key: number): string[] {
  return reader
    .all<{ other: string }>('SELECT other FROM ledger_relations WHERE session_key = ? ORDER BY position', key)
    .map((relation) => relation.other)
}

/** Tags to the sessions that have them, both in order of tagging. */
export function tagIndex(reader: Reader): JsonObject {
  const index = new Map<string, string[]>()
  for (const { name, session_id } of reader.all<{ name: string; session_id: string }>(
    `SELECT st.name, s.session_id FROM ledger_session_tags st JOIN ledger_sessions s USING (session_key)
     WHERE s.chained = 1 ORDER BY st.position, s.session_key`,
  )) {
    const bucket = index.get(name)
    if (bucket) bucket.push(session_id)
    else index.set(name, [session_id])
  }
  return Object.fromEntries(index)
}
