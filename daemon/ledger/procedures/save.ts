/**
 * `session_save`: a body of one of three types. A state is any JSON and one for each project; a context is JSON of a session; a summary
 * is text of a session. What is not JSON is refused where JSON is promised, instead of being found broken when it is read.
 */
import type { Transaction } from '../../store/transaction.ts'
import { type Call, type Changed, type LedgerParams, type LedgerResult, refused } from '../call.ts'
import { nameFault } from '../grammar.ts'
import { parseLenient, UnreadableFile } from '../lenient-json.ts'
import { fileName, treeFile } from '../names.ts'
import { type Failure, failure, valueError } from '../outcome.ts'
import { pythonJson } from '../render/python-json.ts'
import { putArtifact } from '../rows/artifacts.ts'
import { setDoc } from '../rows/docs.ts'
import { indexProfile } from '../rows/profile.ts'
import { findSession, insertSession, touchSession } from '../rows/sessions.ts'

type Result = LedgerResult<'session_save'>

export function save(transaction: Transaction, call: Call<LedgerParams<'session_save'>>): Changed<Result> {
  const { session_id, data_type, content, project } = call.params
  const fault = nameFault(project, 'project') ?? nameFault(session_id, 'session_id')
  if (fault) return refused(fault)
  switch (data_type) {
    case 'state':
      return saveState(transaction, call)
    case 'summary':
      return saveOfSession(transaction, call, content)
    case 'context': {
      const bad = jsonFault(content)
      return bad ? refused(bad) : saveOfSession(transaction, call, content)
    }
    default:
      return refused(failure(`Unknown data_type: ${data_type}`))
  }
}

function jsonFault(content: string): Failure | null {
  try {
    parseLenient(content)
    return null
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    return valueError(`Invalid JSON: the content of a context must be JSON: ${error.message}`)
  }
}

function saveState(transaction: Transaction, call: Call<LedgerParams<'session_save'>>): Changed<Result> {
  const { session_id, content, project } = call.params
  let value: unknown
  try {
    value = parseLenient(content)
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    // As the reference: a text that is no JSON becomes an object that holds it.
    value = { content, updated_at: new Date(call.now / 1000).toISOString() }
  }
  const body = Buffer.from(pythonJson(value))
  putArtifact(transaction, {
    kind: 'state',
    project,
    name: '',
    session_key: null,
    body,
    modified_us: call.now,
  })
  return {
    value: {
      success: true,
      file: fileName(call.mirror, treeFile.state(project)),
      data_type: 'state',
      session_id,
      size_bytes: body.length,
    },
    changed: [`state ${project}`],
  }
}

function saveOfSession(
  transaction: Transaction,
  call: Call<LedgerParams<'session_save'>>,
  content: string,
): Changed<Result> {
  const { session_id, data_type, project } = call.params
  const kind = data_type === 'summary' ? 'summary' : 'context'
  const found = findSession(transaction, session_id)
  const row =
    found ??
    insertSession(transaction, {
      session_id,
      project,
      origin: 'tool',
      chained: false,
      synthetic: true,
      now: call.now,
    })
  const body = Buffer.from(content)
  putArtifact(
    transaction,
    { kind, project, name: session_id, session_key: row.session_key, body, modified_us: call.now },
    { archived: row.archived_us !== null },
  )
  setDoc(transaction, row.session_key, { source: kind === 'summary' ? 'saved' : 'context' }, content)
  if (!found) indexProfile(transaction, row.session_key)
  const rev = touchSession(transaction, row.session_key, call.now, { revives: true })
  return {
    value: {
      success: true,
      file: fileName(
        call.mirror,
        kind === 'summary' ? treeFile.saved(project, session_id) : treeFile.context(project, session_id),
      ),
      data_type,
      session_id,
      size_bytes: body.length,
      rev,
    },
    changed: [session_id],
  }
}
