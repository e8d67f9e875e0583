/** `session_create`. Does not look for related sessions, nor link to the session before: that is said, not guessed. */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault, tagFault } from '../grammar.ts'
import { newSessionId } from '../names.ts'
import { firstCodePoints } from '../numbers.ts'
import { firstAnswer, keepAnswer } from '../rows/keys.ts'
import { clientScope, point } from '../rows/pointers.ts'
import { indexProfile } from '../rows/profile.ts'
import { addTags } from '../rows/session-tags.ts'
import { insertSession, type SessionRow } from '../rows/sessions.ts'
import { tagsOf } from '../tags.ts'

type Result = LedgerResult<'session_create'>

export function create(
  transaction: Transaction,
  call: Call<LedgerParams<'session_create'>>,
  suffix?: () => string,
): Changed<Result> {
  const { params, now } = call
  // The reference takes an empty project as it is.
  const fault = params.project === '' ? null : nameFault(params.project, 'project')
  if (fault) return refused(fault)
  const known = firstAnswer(transaction, 'session_create', params.idempotency_key)
  if (known !== undefined) return { value: known as Result, changed: [] }
  const begun = beginning(call.settings.compat, {
    task_type: params.task_type,
    skill: params.skill,
    cwd: params.project_cwd,
    prompt: params.prompt,
  })
  const bad = begun.map((tag) => tagFault(tag.name)).find((found) => found !== null)
  if (bad) return refused(bad)
  const row = makeSession(transaction, call, {
    session_id: newSessionId(transaction, now, suffix),
    origin: 'tool',
    project: params.project,
    skill: params.skill,
    task_type: params.task_type,
    prompt: params.prompt,
    cwd: params.project_cwd,
  })
  point(transaction, clientScope(call.clientInstance), row.session_key, now)
  point(transaction, clientScope(call.clientInstance, params.project), row.session_key, now)
  const value: Result = {
    success: true,
    session_id: row.session_id,
    project: params.project,
    tags: begun.map((tag) => tag.name),
    created_at: row.created_text,
    rev: row.rev,
  }
  keepAnswer(transaction, 'session_create', params.idempotency_key, value, now)
  return { value, changed: [row.session_id] }
}

function beginning(compat: boolean, from: { task_type: string; skill: string; cwd: string; prompt: string }) {
  return tagsOf(
    { taskType: from.task_type, skill: from.skill, cwd: from.cwd, prompt: from.prompt },
    { compat },
  )
}

/** A session with the tags of how it begins. */
export function makeSession(
  transaction: Transaction,
  call: Call<unknown>,
  made: Pick<SessionRow, 'session_id' | 'origin' | 'project' | 'skill' | 'task_type' | 'cwd'> & {
    prompt: string
    parent?: string | null
  },
): SessionRow {
  const { now } = call
  const { prompt, ...rest } = made
  const row = insertSession(transaction, {
    ...rest,
    last_prompt: firstCodePoints(prompt, 200),
    chained: true,
    synthetic: false,
    now,
  })
  const tags = beginning(call.settings.compat, { ...made, prompt }).filter(
    (tag) => tagFault(tag.name) === null,
  )
  addTags(transaction, row.session_key, tags, now)
  indexProfile(transaction, row.session_key)
  return row
}
