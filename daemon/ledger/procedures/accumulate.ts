/**
 * `session_accumulate`: one request more, and what it adds up to. The cost does not grow with the session. A session that nobody
 * made is registered; one that was completed is under way again, and what finalizing found is stale until the next time.
 */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { codePoints, firstCodePoints } from '../numbers.ts'
import { failure, revFault } from '../outcome.ts'
import { setDoc } from '../rows/docs.ts'
import { firstAnswer, keepAnswer } from '../rows/keys.ts'
import { indexProfile } from '../rows/profile.ts'
import { addTags } from '../rows/session-tags.ts'
import { findSession, insertSession, touchSession } from '../rows/sessions.ts'
import { type SeenKind, seenValues } from '../rows/totals.ts'
import { commaList, promptTags } from '../tags.ts'
import { isoText } from '../times.ts'

type Result = LedgerResult<'session_accumulate'>
export type AccumulateParams = LedgerParams<'session_accumulate'>

export function accumulate(transaction: Transaction, call: Call<AccumulateParams>): Changed<Result> {
  const { params } = call
  if (params.session_id === '') return refused(failure('session_id is required'))
  const fault = nameFault(params.session_id, 'session_id')
  if (fault) return refused(fault)
  const scope = `session_accumulate ${params.session_id}`
  const known = firstAnswer(transaction, scope, params.idempotency_key)
  if (known !== undefined) return { value: known as Result, changed: [] }
  const found = findSession(transaction, params.session_id)
  const stale = revFault(params.expect_rev, found?.rev ?? 0)
  if (stale) return refused(stale)
  const row =
    found ??
    insertSession(transaction, {
      session_id: params.session_id,
      origin: 'tool',
      cwd: params.cwd,
      chained: false,
      synthetic: true,
      now: call.now,
    })
  if (!found) indexProfile(transaction, row.session_key)
  const value: Result = {
    success: true,
    session_id: row.session_id,
    ...addRequest(transaction, call, row.session_key),
  }
  keepAnswer(transaction, scope, params.idempotency_key, value, call.now)
  return { value, changed: [row.session_id] }
}

/** The request alone; arguments and session are checked. */
export function addRequest(transaction: Transaction, call: Call<AccumulateParams>, key: number) {
  const { params, now } = call
  const supplementary = commaList(params.supplementary_skills)
  transaction.run(
    `INSERT INTO ledger_totals (session_key, created_us, created_text, updated_us, updated_text) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
    key,
    now,
    isoText(now),
    now,
    isoText(now),
  )
  const totals = transaction.get<{ requests: number; peak_context: number }>(
    `UPDATE ledger_totals SET requests = requests + 1, total_complexity = total_complexity + ?,
       max_complexity = max(max_complexity, ?), peak_context = max(peak_context, ?), plan_mode = plan_mode + ?,
       created_us = CASE WHEN requests = 0 AND extra IS NULL THEN ? ELSE created_us END,
       created_text = CASE WHEN requests = 0 AND extra IS NULL THEN ? ELSE created_text END,
       updated_us = ?, updated_text = ?, stale = derived IS NOT NULL
     WHERE session_key = ? RETURNING requests, peak_context`,
    params.complexity,
    params.complexity,
    params.context_pct,
    params.plan_mode ? 1 : 0,
    now,
    isoText(now),
    now,
    isoText(now),
    key,
  )
  if (!totals) throw new Error('the totals of a session are gone')
  const n = totals.requests
  const prompt = firstCodePoints(params.prompt, 500)
  transaction.run(
    `INSERT INTO ledger_requests (session_key, n, at_us, at_text, prompt, prompt_chars, task_type, skill, complexity, model,
       cwd, plan_mode, context_pct, standards, rules, supplementary)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key,
    n,
    now,
    isoText(now),
    prompt,
    codePoints(params.prompt),
    params.task_type,
    params.skill,
    params.complexity,
    params.model,
    params.cwd,
    params.plan_mode ? 1 : 0,
    params.context_pct,
    params.standards_count,
    params.rules_count,
    JSON.stringify(supplementary),
  )
  const see = (kind: SeenKind, value: string, index = 0): void => {
    if (value === '') return
    transaction.run(
      'INSERT INTO ledger_seen (session_key, kind, value, position) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
      key,
      kind,
      value,
      n * 10_000 + index,
    )
  }
  see('skill', params.skill)
  see('task_type', params.task_type)
  see('model', params.model)
  supplementary.forEach((skill, index) => {
    see('supplementary', skill, index)
  })
  setDoc(
    transaction,
    key,
    { source: 'request', n },
    [prompt, params.task_type, params.skill].join('\n').trim(),
  )
  if (call.settings.tagPrompts) {
    addTags(transaction, key, promptTags(params.prompt), now)
    indexProfile(transaction, key)
  }
  transaction.run("UPDATE ledger_sessions SET status = 'IN_PROGRESS' WHERE session_key = ?", key)
  return {
    request_number: n,
    skills_used: seenValues(transaction, key, 'skill'),
    peak_context: totals.peak_context,
    rev: touchSession(transaction, key, now, { revives: true }),
  }
}
