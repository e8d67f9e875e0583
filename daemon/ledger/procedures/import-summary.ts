/**
 * `session-summary.json` of a tree. What its requests add up to is computed anew; where the file says something else, the file's word
 * is kept beside it and told.
 */
import type { Transaction } from '../../store/transaction.ts'
import { readFlowTrace } from '../flow-trace.ts'
import { isJsonObject, type JsonObject } from '../lenient-json.ts'
import { pythonJsonLine } from '../render/python-json.ts'
import { setDoc } from '../rows/docs.ts'
import type { SessionRow } from '../rows/sessions.ts'
import { toolStatistics } from '../rows/tool-events.ts'
import type { Derived, SeenKind } from '../rows/totals.ts'
import { parseIso } from '../times.ts'
import type { SessionEntry } from '../tree/entry.ts'
import { extraOf, type ImportContext } from './import-session.ts'

const requestMembers = [
  'timestamp',
  'prompt',
  'prompt_char_count',
  'task_type',
  'skill',
  'complexity',
  'model',
  'cwd',
  'plan_mode',
  'context_pct',
  'supplementary_skills',
  'decision_rationale',
]

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const whole = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? Math.trunc(value) : value === true ? 1 : 0
const strings = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : []

export function importSummary(
  transaction: Transaction,
  row: SessionRow,
  entry: SessionEntry,
  summary: JsonObject,
  { warn }: ImportContext,
): void {
  const key = row.session_key
  for (const table of ['ledger_requests', 'ledger_seen', 'ledger_totals'])
    transaction.run(`DELETE FROM ${table} WHERE session_key = ?`, key)
  const requests = Array.isArray(summary.requests) ? summary.requests.filter(isJsonObject) : []
  const createdText = text(summary.created_at) || text(summary.timestamp)
  const updatedText = text(summary.last_updated) || text(summary.finalized_at) || createdText
  const completed = text(summary.status).toUpperCase() === 'COMPLETED'
  const sums = {
    requests: requests.length,
    total_complexity: requests.reduce((sum, request) => sum + whole(request.complexity), 0),
    max_complexity: Math.max(0, ...requests.map((request) => whole(request.complexity))),
    peak_context: Math.max(0, ...requests.map((request) => whole(request.context_pct))),
    plan_mode: requests.filter((request) => request.plan_mode === true).length,
  }
  for (const [name, stored] of [
    ['requests', summary.request_count],
    ['total_complexity', summary.total_complexity],
    ['max_complexity', summary.max_complexity],
    ['peak_context', summary.peak_context_pct],
    ['plan_mode', summary.plan_mode_count],
  ] as const)
    if (typeof stored === 'number' && stored !== sums[name])
      warn(`${row.session_id}: its summary says ${name} ${stored}, its requests come to ${sums[name]}`)
  transaction.run(
    `INSERT INTO ledger_totals (session_key, created_us, created_text, updated_us, updated_text, requests, total_complexity,
       max_complexity, peak_context, plan_mode, derived, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key,
    parseIso(createdText)?.us ?? null,
    createdText,
    parseIso(updatedText)?.us ?? null,
    updatedText,
    sums.requests,
    sums.total_complexity,
    sums.max_complexity,
    sums.peak_context,
    sums.plan_mode,
    completed || summary.duration_human !== undefined
      ? JSON.stringify(derivedFrom(transaction, key, entry, summary, sums))
      : null,
    pythonJsonLine(summary),
  )
  requests.forEach((request, index) => {
    addRequest(transaction, key, index + 1, request)
  })
  seeAll(transaction, key, 'skill', strings(summary.skills_used))
  seeAll(transaction, key, 'task_type', strings(summary.task_types))
  seeAll(transaction, key, 'model', strings(summary.models_used))
  seeAll(transaction, key, 'supplementary', strings(summary.all_supplementary_skills))
  const finalized = completed ? (parseIso(updatedText)?.us ?? entry.fallbackUs) : null
  transaction.run(
    'UPDATE ledger_sessions SET status = ?, finalized_us = ? WHERE session_key = ?',
    completed ? 'COMPLETED' : 'IN_PROGRESS',
    finalized === null ? null : Math.floor(finalized / 1_000_000) * 1_000_000,
    key,
  )
  setDoc(
    transaction,
    key,
    { source: 'files' },
    [...strings(summary.files_modified), ...strings(summary.files_read)].join('\n'),
  )
}

function addRequest(transaction: Transaction, key: number, n: number, request: JsonObject): void {
  const at = text(request.timestamp)
  transaction.run(
    `INSERT INTO ledger_requests (session_key, n, at_us, at_text, prompt, prompt_chars, task_type, skill, complexity, model, cwd,
       plan_mode, context_pct, supplementary, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key,
    n,
    parseIso(at)?.us ?? null,
    at,
    text(request.prompt),
    whole(request.prompt_char_count),
    text(request.task_type),
    text(request.skill),
    whole(request.complexity),
    text(request.model),
    text(request.cwd),
    request.plan_mode === true ? 1 : 0,
    whole(request.context_pct),
    JSON.stringify(strings(request.supplementary_skills)),
    extraOf(request, requestMembers),
  )
  const searched = [request.prompt, request.task_type, request.skill].map(text).join('\n').trim()
  setDoc(transaction, key, { source: 'request', n }, searched)
}

function seeAll(transaction: Transaction, key: number, kind: SeenKind, values: readonly string[]): void {
  values.forEach((value, index) => {
    transaction.run(
      'INSERT INTO ledger_seen (session_key, kind, value, position) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
      key,
      kind,
      value,
      index,
    )
  })
}

function derivedFrom(
  transaction: Transaction,
  key: number,
  entry: SessionEntry,
  summary: JsonObject,
  sums: { requests: number; total_complexity: number },
): Derived {
  const tools = toolStatistics(transaction, key)
  const flow = readFlowTrace(entry.flowTrace)
  const number = (value: unknown, otherwise: number): number =>
    typeof value === 'number' ? value : otherwise
  return {
    duration: text(summary.duration_human),
    seconds: whole(summary.duration_seconds),
    average: number(summary.avg_complexity, sums.requests === 0 ? 0 : sums.total_complexity / sums.requests),
    filesModified: strings(summary.files_modified),
    filesRead: strings(summary.files_read),
    toolCalls: number(summary.total_tool_calls, tools.calls),
    errors: number(summary.error_count, tools.errors),
    successRate: number(summary.success_rate_pct, 100),
    warnings: strings(summary.source_warnings),
    policies: flow.policies,
    policyMs: flow.milliseconds,
    decisions: flow.decisions,
    notebooks: [],
    cellsRun: 0,
    cellsFailed: 0,
  }
}
