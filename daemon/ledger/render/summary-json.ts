/** `session-summary.json`. One that was imported and not changed since is written as it was read. */
import type { Reader } from '../../store/transaction.ts'
import { isJsonObject, type JsonObject, parseLenient } from '../lenient-json.ts'
import { PyFloat } from '../numbers.ts'
import type { SessionRow } from '../rows/sessions.ts'
import { derivedOf, type RequestRow, requestsOf, seenValues, totalsOf } from '../rows/totals.ts'

/** null: the session has no requests and was never finalized. */
export function summaryJson(reader: Reader, row: SessionRow): JsonObject | null {
  const totals = totalsOf(reader, row.session_key)
  if (!totals) return null
  const imported = totals.extra === null ? null : parseLenient(totals.extra)
  if (isJsonObject(imported) && row.rev === row.imported_rev) return withFloats(imported)
  const requests = requestsOf(reader, row.session_key)
  const derived = derivedOf(totals)
  const seen = (kind: Parameters<typeof seenValues>[2]) => seenValues(reader, row.session_key, kind)
  const made: JsonObject = {
    session_id: row.session_id,
    created_at: totals.created_text,
    requests: requests.map(requestJson),
    request_count: totals.requests,
    skills_used: seen('skill'),
    task_types: seen('task_type'),
    models_used: seen('model'),
    all_supplementary_skills: seen('supplementary'),
    plan_mode_count: totals.plan_mode,
    context_history: requests.map((request) => request.context_pct),
    peak_context_pct: totals.peak_context,
    total_complexity: totals.total_complexity,
    max_complexity: totals.max_complexity,
    status: row.status,
    last_updated: totals.updated_text,
    ...(derived
      ? {
          duration_human: derived.duration,
          duration_seconds: derived.seconds,
          avg_complexity: totals.requests === 0 ? 0 : new PyFloat(derived.average),
          files_modified: [...derived.filesModified],
          files_read: [...derived.filesRead],
          total_tool_calls: derived.toolCalls,
          error_count: derived.errors,
          success_rate_pct: new PyFloat(derived.successRate),
          source_warnings: [...derived.warnings],
        }
      : {}),
  }
  const unknown = isJsonObject(imported) ? Object.entries(imported).filter(([name]) => !(name in made)) : []
  return { ...made, ...Object.fromEntries(unknown) }
}

/** JavaScript's JSON does not tell 14.0 from 14; these members are floats. */
function withFloats(summary: JsonObject): JsonObject {
  const float = (name: string): JsonObject => {
    const value = summary[name]
    const whole = name === 'avg_complexity' && value === 0
    return typeof value === 'number' && !whole ? { [name]: new PyFloat(value) } : {}
  }
  return { ...summary, ...float('avg_complexity'), ...float('success_rate_pct') }
}

function requestJson(request: RequestRow): JsonObject {
  return {
    timestamp: request.at_text,
    prompt: request.prompt,
    prompt_char_count: request.prompt_chars,
    task_type: request.task_type,
    skill: request.skill,
    complexity: request.complexity,
    model: request.model,
    cwd: request.cwd,
    plan_mode: request.plan_mode === 1,
    context_pct: request.context_pct,
    supplementary_skills: JSON.parse(request.supplementary),
    decision_rationale: `Complexity ${request.complexity} -> Model ${request.model}, Skill ${request.skill}`,
    ...(request.extra === null ? {} : (parseLenient(request.extra) as JsonObject)),
  }
}
