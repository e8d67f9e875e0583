/** One session of a tree: its record, its requests, and what is kept for it. */
import type { Transaction } from '../../store/transaction.ts'
import type { LedgerSettings } from '../call.ts'
import { nameFault, tagFault } from '../grammar.ts'
import { isJsonObject, type JsonObject, parseLenient } from '../lenient-json.ts'
import { keptRecord } from '../render/chain-record.ts'
import { pythonJsonLine } from '../render/python-json.ts'
import { averageText, summaryLine } from '../render/summary-line.ts'
import { summaryMarkdown } from '../render/summary-markdown.ts'
import {
  findArtifact,
  keepVersion,
  mustFindArtifact,
  putArtifact,
  removeArtifact,
} from '../rows/artifacts.ts'
import { removeDocs, setDoc } from '../rows/docs.ts'
import { indexProfile } from '../rows/profile.ts'
import { addTags, removeTags, tagsOfSession } from '../rows/session-tags.ts'
import { findSession, insertSession, must, type SessionRow, sessionByKey } from '../rows/sessions.ts'
import { snapshotOf } from '../rows/snapshot.ts'
import { replaceTracked } from '../rows/tool-events.ts'
import { derivedOf, seenValues, totalsOf } from '../rows/totals.ts'
import { parseIso } from '../times.ts'
import { readTracker } from '../tool-tracker.ts'
import type { SessionEntry } from '../tree/entry.ts'
import { importSummary } from './import-summary.ts'
import { descendsFrom } from './link.ts'

export type ImportOutcome = 'imported' | 'updated' | 'unchanged'

export interface ImportContext {
  readonly now: number
  readonly settings: LedgerSettings
  readonly warn: (text: string) => void
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

export function importSession(
  transaction: Transaction,
  entry: SessionEntry,
  context: ImportContext,
): ImportOutcome {
  const found = findSession(transaction, entry.sessionId)
  const before = found ? snapshotOf(transaction, found.session_key) : null
  const record = entry.record === null ? null : (parseLenient(entry.record) as JsonObject)
  const fresh = found === undefined || found.imported_rev === found.rev
  const row = found ?? newSession(transaction, entry, record)
  const key = row.session_key
  if (fresh) setFromRecord(transaction, row, entry, record)
  else addFromRecord(transaction, row, record)
  takeParent(transaction, row, record, fresh, context)
  takeTags(transaction, key, entry, fresh, context)
  takeRelations(transaction, key, record)
  takeWorkItems(transaction, key, record, fresh)
  if (entry.tracker !== null) replaceTracked(transaction, key, readTracker(entry.tracker))
  if (entry.flowTrace !== null)
    putArtifact(transaction, {
      kind: 'flow_trace',
      project: '',
      name: row.session_id,
      session_key: key,
      body: Buffer.from(entry.flowTrace),
      modified_us: entry.fallbackUs,
    })
  if (entry.summaryJson && (fresh || !totalsOf(transaction, key)))
    importSummary(transaction, row, entry, parseLenient(entry.summaryJson.text) as JsonObject, context)
  takeKept(transaction, row, entry)
  settle(transaction, key, entry, record, fresh, context)
  if (before !== null && before === snapshotOf(transaction, key)) return 'unchanged'
  if (found) transaction.run('UPDATE ledger_sessions SET rev = rev + 1 WHERE session_key = ?', key)
  if (fresh) transaction.run('UPDATE ledger_sessions SET imported_rev = rev WHERE session_key = ?', key)
  return found ? 'updated' : 'imported'
}

function newSession(transaction: Transaction, entry: SessionEntry, record: JsonObject | null): SessionRow {
  return insertSession(transaction, {
    session_id: entry.sessionId,
    origin: 'import',
    project: projectOf(entry, record),
    chained: record !== null,
    synthetic: record === null,
    created_text: '',
    now: 0,
  })
}

function projectOf(entry: SessionEntry, record: JsonObject | null): string {
  const [kept] = [...entry.saved, ...entry.archived, ...entry.contexts]
  const wanted = record ? text(record.project) : (kept?.project ?? 'default')
  return wanted === '' || nameFault(wanted, 'project') ? 'default' : wanted
}

function setFromRecord(
  transaction: Transaction,
  row: SessionRow,
  entry: SessionEntry,
  record: JsonObject | null,
): void {
  const kept = record ? keptRecord(record) : {}
  const summary = entry.summaryJson ? (parseLenient(entry.summaryJson.text) as JsonObject) : {}
  const summaryAt = text(summary.created_at) || text(summary.timestamp)
  const createdText = record ? text(record.created_at) : summaryAt
  const created = parseIso(createdText)?.us ?? parseIso(summaryAt)?.us ?? entry.childBegan ?? entry.fallbackUs
  transaction.run(
    `UPDATE ledger_sessions SET project = ?, chained = max(chained, ?), skill = ?, task_type = ?, last_prompt = ?,
       created_us = ?, created_text = ?, extra = ? WHERE session_key = ?`,
    projectOf(entry, record),
    record === null ? 0 : 1,
    text(record?.skill),
    text(record?.task_type),
    text(record?.last_prompt),
    created,
    createdText,
    record === null ? null : pythonJsonLine(kept),
    row.session_key,
  )
}

/** Only what is empty here. */
function addFromRecord(transaction: Transaction, row: SessionRow, record: JsonObject | null): void {
  if (!record) return
  const fill = (present: string, value: unknown): string => (present === '' ? text(value) : present)
  transaction.run(
    `UPDATE ledger_sessions SET chained = 1, skill = ?, task_type = ?, last_prompt = ?, user_summary = ? WHERE session_key = ?`,
    fill(row.skill, record.skill),
    fill(row.task_type, record.task_type),
    fill(row.last_prompt, record.last_prompt),
    fill(row.user_summary, row.auto_summary === '' ? record.summary : ''),
    row.session_key,
  )
}

function takeParent(
  transaction: Transaction,
  row: SessionRow,
  record: JsonObject | null,
  fresh: boolean,
  { warn }: ImportContext,
): void {
  const parent = text(record?.parent)
  if (parent === '' || (!fresh && row.parent !== null)) return
  if (
    parent === row.session_id ||
    nameFault(parent, 'parent') ||
    descendsFrom(transaction, parent, row.session_id)
  ) {
    warn(
      `${row.session_id}: its parent ${JSON.stringify(parent)} was left out: it would be a cycle, or is no id`,
    )
    return
  }
  transaction.run('UPDATE ledger_sessions SET parent = ? WHERE session_key = ?', parent, row.session_key)
}

function takeTags(
  transaction: Transaction,
  key: number,
  entry: SessionEntry,
  fresh: boolean,
  { warn }: ImportContext,
): void {
  const usable = entry.indexed.filter(({ tag }) => {
    if (tag.trim() === '') return false
    const fault = tagFault(tag)
    if (fault) warn(`${entry.sessionId}: a tag was left out: ${fault.error}`)
    return !fault
  })
  if (fresh) {
    const wanted = new Set(usable.map(({ tag }) => tag))
    removeTags(
      transaction,
      key,
      tagsOfSession(transaction, key).filter((tag) => !wanted.has(tag)),
    )
  }
  for (const { tag, position } of usable)
    addTags(transaction, key, [{ name: tag, source: 'import', span: null }], position)
}

function takeRelations(transaction: Transaction, key: number, record: JsonObject | null): void {
  const related = Array.isArray(record?.related) ? record.related : []
  const own = must(sessionByKey(transaction, key)).session_id
  const relate = (from: number, to: string): void => {
    transaction.run(
      `INSERT INTO ledger_relations (session_key, other, kind, position)
       SELECT ?, ?, 'import', coalesce((SELECT max(position) FROM ledger_relations WHERE session_key = ?), 0) + 1
       WHERE true ON CONFLICT DO NOTHING`,
      from,
      to,
      from,
    )
  }
  for (const other of related) {
    if (typeof other !== 'string' || other === own || nameFault(other, 'related')) continue
    relate(key, other)
  }
  // Both ways: what this one names, where it is here already, and who names this one.
  for (const { session_key } of transaction.all<{ session_key: number }>(
    'SELECT s.session_key FROM ledger_relations r JOIN ledger_sessions s ON s.session_id = r.other WHERE r.session_key = ?',
    key,
  ))
    relate(session_key, own)
  for (const { session_id } of transaction.all<{ session_id: string }>(
    'SELECT s.session_id FROM ledger_relations r JOIN ledger_sessions s USING (session_key) WHERE r.other = ?',
    own,
  ))
    relate(key, session_id)
}

const itemMembers = ['work_id', 'type', 'description', 'started_at', 'completed_at', 'status', 'metadata']

function takeWorkItems(
  transaction: Transaction,
  key: number,
  record: JsonObject | null,
  fresh: boolean,
): void {
  const items = Array.isArray(record?.work_items) ? record.work_items.filter(isJsonObject) : []
  if (fresh) transaction.run('DELETE FROM ledger_work_items WHERE session_key = ?', key)
  items.forEach((item, index) => {
    const { changes } = transaction.run(
      `INSERT INTO ledger_work_items (session_key, work_id, type, description, status, started_text, completed_text, metadata, extra)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      key,
      text(item.work_id),
      text(item.type),
      text(item.description),
      text(item.status) || 'IN_PROGRESS',
      text(item.started_at),
      typeof item.completed_at === 'string' ? item.completed_at : null,
      pythonJsonLine(item.metadata ?? {}),
      extraOf(item, itemMembers),
    )
    if (changes > 0) setDoc(transaction, key, { source: 'work_item', n: index + 1 }, text(item.description))
  })
}

export function extraOf(value: JsonObject, known: readonly string[]): string | null {
  const rest = Object.entries(value).filter(([name]) => !known.includes(name))
  return rest.length === 0 ? null : pythonJsonLine(Object.fromEntries(rest))
}

function takeKept(transaction: Transaction, row: SessionRow, entry: SessionEntry): void {
  const key = row.session_key
  for (const file of entry.archived) {
    const made = { kind: 'summary', project: file.project, name: row.session_id, session_key: key } as const
    const body = Buffer.from(file.body)
    const live = entry.saved.some((saved) => saved.project === file.project)
    if (!live) putArtifact(transaction, { ...made, body, modified_us: file.modifiedUs })
    else {
      // The live one below stands for the name; this one is an earlier version of it.
      if (!findArtifact(transaction, 'summary', file.project, row.session_id))
        putArtifact(transaction, { ...made, body, modified_us: file.modifiedUs })
      const { artifact_key } = mustFindArtifact(transaction, 'summary', file.project, row.session_id)
      const there = transaction.get(
        'SELECT 1 FROM ledger_artifact_history WHERE artifact_key = ? AND archived = 1 AND body = ?',
        artifact_key,
        body,
      )
      if (!there) keepVersion(transaction, { artifact_key, rev: 0, body, modified_us: file.modifiedUs }, true)
    }
  }
  for (const file of entry.saved) {
    putArtifact(transaction, {
      kind: 'summary',
      project: file.project,
      name: row.session_id,
      session_key: key,
      body: Buffer.from(file.body),
      modified_us: file.modifiedUs,
    })
    setDoc(transaction, key, { source: 'saved' }, file.body)
  }
  const [archived] = entry.archived
  if (archived && entry.saved.length === 0) setDoc(transaction, key, { source: 'saved' }, archived.body)
  for (const file of entry.contexts) {
    putArtifact(transaction, {
      kind: 'context',
      project: file.project,
      name: row.session_id,
      session_key: key,
      body: Buffer.from(file.body),
      modified_us: file.modifiedUs,
      recovered: file.recovered,
    })
    setDoc(transaction, key, { source: 'context' }, file.body)
  }
}

/** What depends on all of it: times, summaries, the archive, the searched texts. */
function settle(
  transaction: Transaction,
  key: number,
  entry: SessionEntry,
  record: JsonObject | null,
  fresh: boolean,
  { settings }: ImportContext,
): void {
  const row = must(sessionByKey(transaction, key))
  const totals = totalsOf(transaction, key)
  const derived = derivedOf(totals)
  if (fresh) {
    const files = [...entry.saved, ...entry.archived, ...entry.contexts].map((file) => file.modifiedUs)
    const updated = Math.max(row.created_us, totals?.updated_us ?? 0, ...files)
    const summary = text(record?.summary)
    const line =
      totals && derived
        ? summaryLine({
            requests: totals.requests,
            skills: seenValues(transaction, key, 'skill'),
            average: derived.average,
            notebooks: 0,
            cellsRun: 0,
          })
        : ''
    const isLine =
      summary === line ||
      summary.endsWith(`complexity avg ${averageText(totals?.requests ?? 0, derived?.average ?? 0)}`)
    const archived = entry.archived.length > 0 && entry.saved.length === 0
    transaction.run(
      `UPDATE ledger_sessions SET updated_us = ?, user_summary = ?, auto_summary = ?,
         archived_us = CASE WHEN ? THEN coalesce(archived_us, ?) ELSE NULL END WHERE session_key = ?`,
      updated,
      isLine ? '' : summary,
      isLine ? summary : line,
      archived ? 1 : 0,
      updated,
      key,
    )
  }
  takeMarkdown(transaction, key, entry, fresh, settings)
  indexProfile(transaction, key)
}

/** The imported text is kept where it says something else than the rows. */
function takeMarkdown(
  transaction: Transaction,
  key: number,
  entry: SessionEntry,
  fresh: boolean,
  settings: LedgerSettings,
): void {
  if (!fresh || !entry.summaryMarkdown) return
  const { text: body, modifiedUs } = entry.summaryMarkdown
  const generated = parseIso(/\*Generated at (\S+)\*\s*$/.exec(body)?.[1] ?? '')?.us
  transaction.run(
    `UPDATE ledger_sessions SET finalized_us = coalesce(?, finalized_us) WHERE session_key = ?`,
    generated ?? Math.floor(modifiedUs / 1_000_000) * 1_000_000,
    key,
  )
  const row = must(sessionByKey(transaction, key))
  if (summaryMarkdown(transaction, row, settings) === body) {
    removeArtifact(transaction, key, 'finalized')
    return
  }
  putArtifact(transaction, {
    kind: 'finalized',
    project: '',
    name: row.session_id,
    session_key: key,
    body: Buffer.from(body),
    modified_us: modifiedUs,
  })
  setDoc(transaction, key, { source: 'finalized' }, body)
}

/** For retention: everything of a session. */
export function forgetSession(transaction: Transaction, key: number): void {
  for (const { tag_key } of transaction.all<{ tag_key: number }>(
    'SELECT tag_key FROM ledger_session_tags WHERE session_key = ?',
    key,
  ))
    transaction.run('UPDATE ledger_tags SET sessions = sessions - 1 WHERE tag_key = ?', tag_key)
  removeDocs(transaction, key)
  transaction.run('DELETE FROM ledger_sessions WHERE session_key = ?', key)
}
