/**
 * `session_hook`: events of an agent's hooks, as the reference's pipeline used them: a session at the first prompt under the host's
 * own id, a request for each prompt, tool calls counted, finalized when the agent stops, and after /clear the new session linked
 * to the old one. One event, one row: an event that comes again (from a spool, or re-sent) changes nothing.
 */

import type { Transaction } from '../../store/transaction.ts'
import type { Call, Changed, LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { type HookInput, hookInput, toolCallOf } from '../hook-input.ts'
import { pythonJsonLine } from '../render/python-json.ts'
import { clearedScope, folderScope, point, pointed, unpoint } from '../rows/pointers.ts'
import { findSession, insertSession, type SessionRow, sessionByKey, touchSession } from '../rows/sessions.ts'
import { addToolEvent } from '../rows/tool-events.ts'
import { isoText } from '../times.ts'
import { addRequest } from './accumulate.ts'
import { makeSession } from './create.ts'
import { finalizeSession, hasData } from './finalize.ts'
import { descendsFrom, linkSessions } from './link.ts'

/** A session that began with /clear this long before its predecessor's end is told belongs to it. */
const CROSSED_US = 60_000_000
/** Without an end that was told, the folder's last session is the predecessor when it was used this long ago at most. */
const RECENT_US = 6 * 3_600_000_000

/** `now` of the call is the event's own time. The reader adds the context that the host may show. */
export function hook(
  transaction: Transaction,
  call: Call<LedgerParams<'session_hook'>>,
): Changed<LedgerResult<'session_hook'>> {
  const { params } = call
  const input = hookInput(params.event, params.input)
  if (input.sessionId === '' || nameFault(input.sessionId, 'session_id'))
    return { value: { session_id: null, context: '' }, changed: [] }
  const { changes } = transaction.run(
    `INSERT INTO ledger_hook_events (event_id, event, session_id, at_us, input) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    params.event_id,
    params.event,
    input.sessionId,
    call.now,
    pythonJsonLine(input.kept),
  )
  const value = { session_id: input.sessionId, context: '' }
  if (changes === 0) return { value, changed: [] }
  const changed = perform(transaction, call, input)
  return { value, changed }
}

function perform(transaction: Transaction, call: Call<unknown>, input: HookInput): readonly string[] {
  switch (input.event) {
    case 'SessionStart':
      return sessionStart(transaction, call, input)
    case 'UserPromptSubmit':
      return prompt(transaction, call, input)
    case 'PostToolUse':
      return toolUse(transaction, call, input)
    case 'Stop':
      return stop(transaction, call, input)
    case 'SessionEnd':
      return sessionEnd(transaction, call, input)
    default:
      // PreToolUse, SubagentStop, PreCompact and what newer hosts add: kept as they are.
      return []
  }
}

function sessionStart(transaction: Transaction, call: Call<unknown>, input: HookInput): readonly string[] {
  if (input.cwd === '') return []
  if (input.source !== 'clear') {
    // A session that goes on is the folder's again.
    const known = findSession(transaction, input.sessionId)
    if (known) point(transaction, folderScope(input.cwd), known.session_key, call.now)
    return []
  }
  const parent = predecessor(transaction, call.now, input)
  const row = sessionOf(transaction, call, input)
  point(transaction, folderScope(input.cwd), row.session_key, call.now)
  if (!parent) return [row.session_id]
  unpoint(transaction, clearedScope(input.cwd))
  linkSessions(transaction, call.now, row.session_id, parent.session_id, 'hook')
  return [row.session_id, parent.session_id]
}

function predecessor(transaction: Transaction, now: number, input: HookInput): SessionRow | undefined {
  const cleared = pointed(transaction, clearedScope(input.cwd))
  const last = cleared ?? pointed(transaction, folderScope(input.cwd))
  if (!last || (!cleared && now - last.set_us > RECENT_US)) return undefined
  const row = sessionByKey(transaction, last.session_key)
  if (!row || row.session_id === input.sessionId) return undefined
  return descendsFrom(transaction, row.session_id, input.sessionId) ? undefined : row
}

/** The host's session, made when there is none. */
function sessionOf(transaction: Transaction, call: Call<unknown>, input: HookInput, text = ''): SessionRow {
  const found = findSession(transaction, input.sessionId)
  if (found) return found
  return makeSession(transaction, call, {
    session_id: input.sessionId,
    origin: 'hook',
    project: projectOf(input.cwd),
    skill: '',
    task_type: '',
    cwd: input.cwd,
    prompt: text,
  })
}

function projectOf(cwd: string): string {
  const folder = cwd.replaceAll('\\', '/').replace(/\/+$/, '')
  const name = folder.slice(folder.lastIndexOf('/') + 1)
  return nameFault(name, 'project') ? 'default' : name
}

function prompt(transaction: Transaction, call: Call<unknown>, input: HookInput): readonly string[] {
  const row = sessionOf(transaction, call, input, input.prompt)
  if (row.last_prompt === '' && input.prompt !== '') {
    // Made by /clear, before there was a prompt.
    transaction.run(
      'UPDATE ledger_sessions SET last_prompt = ? WHERE session_key = ?',
      [...input.prompt].slice(0, 200).join(''),
      row.session_key,
    )
  }
  addRequest(
    transaction,
    {
      ...call,
      params: {
        session_id: row.session_id,
        prompt: input.prompt,
        task_type: '',
        skill: '',
        complexity: 0,
        model: modelOf(transaction, input.sessionId),
        cwd: input.cwd,
        plan_mode: input.permissionMode === 'plan',
        context_pct: 0,
        supplementary_skills: '',
        standards_count: 0,
        rules_count: 0,
      },
    },
    row.session_key,
  )
  if (input.cwd !== '') point(transaction, folderScope(input.cwd), row.session_key, call.now)
  return [row.session_id]
}

/** SessionStart tells it, prompts do not. */
function modelOf(transaction: Transaction, sessionId: string): string {
  const row = transaction.get<{ model: unknown }>(
    `SELECT json_extract(input, '$.model') AS model FROM ledger_hook_events
     WHERE session_id = ? AND event = 'SessionStart' ORDER BY at_us DESC LIMIT 1`,
    sessionId,
  )
  return typeof row?.model === 'string' ? row.model : ''
}

function toolUse(transaction: Transaction, call: Call<unknown>, input: HookInput): readonly string[] {
  const used = toolCallOf(input)
  if (!used) return []
  const row = sessionOf(transaction, call, input)
  addToolEvent(transaction, row.session_key, {
    at_text: isoText(call.now),
    tool: used.tool,
    failed: used.failed,
    file: used.file,
    source: 'hook',
    event_id: used.id,
  })
  touchSession(transaction, row.session_key, call.now)
  return [row.session_id]
}

function stop(transaction: Transaction, call: Call<unknown>, input: HookInput): readonly string[] {
  const row = findSession(transaction, input.sessionId)
  if (!row || !hasData(transaction, call, row.session_key)) return []
  finalizeSession(transaction, call, row)
  return [row.session_id]
}

function sessionEnd(transaction: Transaction, call: Call<unknown>, input: HookInput): readonly string[] {
  const changed = [...stop(transaction, call, input)]
  if (input.reason !== 'clear' || input.cwd === '') return changed
  const row =
    findSession(transaction, input.sessionId) ??
    insertSession(transaction, {
      session_id: input.sessionId,
      project: projectOf(input.cwd),
      cwd: input.cwd,
      origin: 'hook',
      chained: true,
      synthetic: true,
      now: call.now,
    })
  const successor = crossed(transaction, call.now, input)
  if (successor) linkSessions(transaction, call.now, successor, row.session_id, 'hook')
  else point(transaction, clearedScope(input.cwd), row.session_key, call.now)
  return [...changed, row.session_id, ...(successor ? [successor] : [])]
}

/** A session of this folder that began with /clear just before, and found no predecessor. */
function crossed(transaction: Transaction, now: number, input: HookInput): string | null {
  const row = transaction.get<{ session_id: string }>(
    `SELECT s.session_id FROM ledger_hook_events e JOIN ledger_sessions s USING (session_id)
     WHERE e.event = 'SessionStart' AND e.at_us BETWEEN ? AND ? AND json_extract(e.input, '$.source') = 'clear'
       AND json_extract(e.input, '$.cwd') = ? AND s.parent IS NULL AND s.session_id <> ?
     ORDER BY e.at_us DESC LIMIT 1`,
    now - CROSSED_US,
    now,
    input.cwd,
    input.sessionId,
  )
  if (!row || descendsFrom(transaction, input.sessionId, row.session_id)) return null
  return row.session_id
}
