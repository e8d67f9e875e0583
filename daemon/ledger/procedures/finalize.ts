/**
 * `session_finalize`: what the session came to, in one transaction: statistics of tools and policies, duration, averages, its one
 * line of summary. The markdown is a rendering of these rows. Doing it again computes everything anew.
 */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { readFlowTrace } from '../flow-trace.ts'
import { nameFault } from '../grammar.ts'
import { fileName, treeFile } from '../names.ts'
import { roundHalfEven } from '../numbers.ts'
import { failure, revFault } from '../outcome.ts'
import { summaryLine } from '../render/summary-line.ts'
import { artifactsOf, bodyText, putArtifact, removeArtifact } from '../rows/artifacts.ts'
import { setDoc } from '../rows/docs.ts'
import { indexProfile } from '../rows/profile.ts'
import { roomsOf } from '../rows/rooms-used.ts'
import { findSession, type SessionRow, touchSession } from '../rows/sessions.ts'
import { replaceTracked, toolStatistics } from '../rows/tool-events.ts'
import { type Derived, seenValues, totalsOf } from '../rows/totals.ts'
import { durationText, isoText } from '../times.ts'
import { readTracker } from '../tool-tracker.ts'

type Result = LedgerResult<'session_finalize'>

export function finalize(
  transaction: Transaction,
  call: Call<LedgerParams<'session_finalize'>>,
): Changed<Result> {
  const { params } = call
  if (params.session_id === '') return refused(failure('session_id is required'))
  const fault = nameFault(params.session_id, 'session_id')
  if (fault) return refused(fault)
  const row = findSession(transaction, params.session_id)
  const stale = row && revFault(params.expect_rev, row.rev)
  if (stale) return refused(stale)
  if (!row || !hasData(transaction, call, row.session_key))
    return refused(failure(`No accumulated data for ${params.session_id}`))
  return { value: finalizeSession(transaction, call, row), changed: [row.session_id] }
}

/** Requests, or work that was recorded. */
export function hasData(transaction: Transaction, call: Pick<Call<unknown>, 'files'>, key: number): boolean {
  if (totalsOf(transaction, key)) return true
  if (call.files?.tracker?.kind === 'text') return true
  return (
    transaction.get(
      `SELECT 1 WHERE EXISTS (SELECT 1 FROM ledger_sessions WHERE session_key = ? AND forgotten_events IS NOT NULL)
         OR EXISTS (SELECT 1 FROM ledger_tool_events WHERE session_key = ?)
         OR EXISTS (SELECT 1 FROM ledger_rooms WHERE session_key = ?)`,
      key,
      key,
      key,
    ) !== undefined
  )
}

/** The session has data; everything is checked. */
export function finalizeSession(transaction: Transaction, call: Call<unknown>, row: SessionRow): Result {
  const { now } = call
  const key = row.session_key
  const unreadable = takeFiles(transaction, call, row)
  transaction.run(
    `INSERT INTO ledger_totals (session_key, created_us, created_text, updated_us, updated_text) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
    key,
    row.created_us,
    isoText(row.created_us),
    now,
    isoText(now),
  )
  const derived = derive(transaction, key, unreadable)
  const line = summaryLine({
    requests: totalsOf(transaction, key)?.requests ?? 0,
    skills: seenValues(transaction, key, 'skill'),
    average: derived.average,
    notebooks: derived.notebooks.length,
    cellsRun: derived.cellsRun,
  })
  transaction.run(
    'UPDATE ledger_totals SET derived = ?, stale = 0 WHERE session_key = ?',
    JSON.stringify(derived),
    key,
  )
  transaction.run(
    "UPDATE ledger_sessions SET status = 'COMPLETED', finalized_us = ?, auto_summary = ? WHERE session_key = ?",
    now,
    line,
    key,
  )
  // An imported text told of an earlier state.
  removeArtifact(transaction, key, 'finalized')
  setDoc(transaction, key, { source: 'finalized' }, '')
  setDoc(
    transaction,
    key,
    { source: 'files' },
    [...derived.filesModified, ...derived.filesRead, ...derived.notebooks].join('\n'),
  )
  setDoc(
    transaction,
    key,
    { source: 'decisions' },
    derived.decisions.map(({ policy, decision }) => `${policy}: ${decision}`).join('\n'),
  )
  indexProfile(transaction, key)
  return {
    success: true,
    session_id: row.session_id,
    summary_file: fileName(call.mirror, treeFile.log(row.session_id, 'session-summary.md')),
    duration: derived.duration,
    requests: totalsOf(transaction, key)?.requests ?? 0,
    tools: derived.toolCalls,
    files_modified: derived.filesModified.length,
    policies: derived.policies,
    source_warnings: [...derived.warnings],
    notebooks: [...derived.notebooks],
    cells_run: derived.cellsRun,
    cells_failed: derived.cellsFailed,
    rev: touchSession(transaction, key, now),
  }
}

/** Takes over what other programs left; what cannot be read is told. */
function takeFiles(transaction: Transaction, { files, now }: Call<unknown>, row: SessionRow): string[] {
  const warnings: string[] = []
  if (files?.flowTrace?.kind === 'unreadable') {
    warnings.push(`flow-trace.json could not be read: ${files.flowTrace.reason}`)
  } else if (files?.flowTrace) {
    putArtifact(transaction, {
      kind: 'flow_trace',
      project: '',
      name: row.session_id,
      session_key: row.session_key,
      body: Buffer.from(files.flowTrace.text),
      modified_us: now,
    })
  }
  if (files?.tracker?.kind === 'unreadable')
    warnings.push(`tool-tracker.jsonl could not be read: ${files.tracker.reason}`)
  else if (files?.tracker) replaceTracked(transaction, row.session_key, readTracker(files.tracker.text))
  return warnings
}

export function derive(transaction: Transaction, key: number, unreadable: readonly string[]): Derived {
  const totals = totalsOf(transaction, key)
  if (!totals) throw new Error('a session without totals cannot be summed up')
  const tools = toolStatistics(transaction, key)
  const [trace] = artifactsOf(transaction, key, 'flow_trace')
  const flow = readFlowTrace(trace ? bodyText(trace) : null)
  const rooms = roomsOf(transaction, key)
  const warnings = [...unreadable, ...flow.warnings]
  if (tools.malformed > 0)
    warnings.push(
      `tool-tracker.jsonl: ${tools.malformed} malformed line${tools.malformed === 1 ? '' : 's'} skipped`,
    )
  let duration = ''
  let seconds = 0
  if (totals.created_us !== null && totals.updated_us !== null) {
    const span = totals.updated_us - totals.created_us
    if (span < 0) warnings.push('the last request is older than the first: the duration is told as 0s')
    seconds = Math.floor(Math.max(0, span) / 1_000_000)
    duration = durationText(seconds)
  } else if (totals.created_text !== '' || totals.updated_text !== '') {
    warnings.push('the duration is not computable: its first or last time cannot be read')
  }
  return {
    duration,
    seconds,
    average: totals.requests === 0 ? 0 : roundHalfEven(totals.total_complexity / totals.requests),
    filesModified: tools.modified,
    filesRead: tools.read,
    toolCalls: tools.calls,
    errors: tools.errors,
    successRate: tools.calls === 0 ? 100 : roundHalfEven(((tools.calls - tools.errors) / tools.calls) * 100),
    warnings,
    policies: flow.policies,
    policyMs: flow.milliseconds,
    decisions: flow.decisions,
    notebooks: rooms.map((room) => room.path ?? room.notebook_id),
    cellsRun: rooms.reduce((sum, room) => sum + room.cells_run, 0),
    cellsFailed: rooms.reduce((sum, room) => sum + room.cells_failed, 0),
  }
}
