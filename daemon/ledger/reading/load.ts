/** `session_load`: what session_save kept; of a session that was finalized also its summary. */
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { parseLenient } from '../lenient-json.ts'
import { fileName, treeFile } from '../names.ts'
import { type Failure, failure, valueError } from '../outcome.ts'
import { plainJson } from '../plain-json.ts'
import { summaryMarkdown } from '../render/summary-markdown.ts'
import { type ArtifactRow, artifactsOf, bodyText, findArtifact } from '../rows/artifacts.ts'
import { findSession, type SessionRow } from '../rows/sessions.ts'

type Result = LedgerResult<'session_load'> | Failure

interface Options {
  readonly compat: boolean
  readonly mirror: string | null
}

export function load(reader: Reader, params: LedgerParams<'session_load'>, options: Options): Result {
  const { session_id, data_type, project } = params
  const fault =
    nameFault(project, 'project') ?? (session_id === '' ? null : nameFault(session_id, 'session_id'))
  if (fault) return fault
  switch (data_type) {
    case 'state':
      return loadState(reader, project, options)
    case 'summary':
      return session_id === '' ? latestSummary(reader, params, options) : loadSummary(reader, params, options)
    case 'context':
      return loadContext(reader, params, options)
    default:
      return failure(`Unknown data_type: ${data_type}`)
  }
}

function loadState(reader: Reader, project: string, { mirror }: Options): Result {
  const row = findArtifact(reader, 'state', project, '')
  if (!row) return { success: true, data: {}, message: `No state saved for project: ${project}` }
  return {
    success: true,
    data: jsonOf(row),
    file: fileName(mirror, treeFile.state(project)),
    ...recovery(row),
  }
}

function loadContext(reader: Reader, params: LedgerParams<'session_load'>, { mirror }: Options): Result {
  const { session_id, project } = params
  if (session_id === '') return valueError('session_id is required to load a context')
  const row = findArtifact(reader, 'context', project, session_id)
  if (!row || isHidden(reader, session_id, params.include_archived))
    return failure(`Context not found: ${session_id}`)
  return {
    success: true,
    data: jsonOf(row),
    file: fileName(mirror, treeFile.context(project, session_id)),
    session_id,
    ...recovery(row),
  }
}

function loadSummary(reader: Reader, params: LedgerParams<'session_load'>, options: Options): Result {
  const { session_id, project } = params
  const row = findSession(reader, session_id)
  const missing = failure(`Session not found: ${session_id}`)
  if (!row || (row.archived_us !== null && !params.include_archived)) return missing
  const saved = findArtifact(reader, 'summary', project, session_id)
  if (saved) return savedSummary(saved, row, options)
  return finalizedSummary(reader, row, options) ?? missing
}

function latestSummary(reader: Reader, params: LedgerParams<'session_load'>, options: Options): Result {
  const { project, include_archived } = params
  const shown = include_archived ? '' : 'AND s.archived_us IS NULL'
  const latest = reader.get<{ session_id: string; saved: number }>(
    `SELECT session_id, saved FROM (
       SELECT s.session_id, 1 AS saved, a.modified_us AS at, s.session_key FROM ledger_artifacts a
         JOIN ledger_sessions s USING (session_key) WHERE a.kind = 'summary' AND a.project = ? ${shown}
       UNION ALL
       SELECT s.session_id, 0, s.finalized_us, s.session_key FROM ledger_sessions s
         WHERE s.project = ? AND s.finalized_us IS NOT NULL ${shown})
     ORDER BY at DESC, session_key DESC LIMIT 1`,
    project,
    project,
  )
  const row = latest && findSession(reader, latest.session_id)
  const saved = latest?.saved ? findArtifact(reader, 'summary', project, latest.session_id) : undefined
  const result = row && (saved ? savedSummary(saved, row, options) : finalizedSummary(reader, row, options))
  return result ?? { success: true, data: '', message: `No session summaries for project: ${project}` }
}

function savedSummary(saved: ArtifactRow, row: SessionRow, { mirror }: Options): Result {
  const name =
    row.archived_us === null
      ? treeFile.saved(saved.project, row.session_id)
      : treeFile.archived(saved.project, row.session_id)
  return { success: true, data: bodyText(saved), file: fileName(mirror, name), session_id: row.session_id }
}

function finalizedSummary(reader: Reader, row: SessionRow, options: Options): Result | null {
  const [imported] = artifactsOf(reader, row.session_key, 'finalized')
  const text = imported ? bodyText(imported) : summaryMarkdown(reader, row, options)
  if (text === null) return null
  return {
    success: true,
    data: text,
    file: fileName(options.mirror, treeFile.log(row.session_id, 'session-summary.md')),
    session_id: row.session_id,
  }
}

function isHidden(reader: Reader, sessionId: string, includeArchived: boolean): boolean {
  return !includeArchived && (findSession(reader, sessionId)?.archived_us ?? null) !== null
}

function jsonOf(row: ArtifactRow): unknown {
  return plainJson(parseLenient(bodyText(row)))
}

/** Only where a real backup stands for a file that could not be read. */
function recovery(row: ArtifactRow) {
  return row.recovered === null ? {} : { recovered: true, warning: row.recovered }
}
