/** What happened in a room while its session was parked, for the one who comes back. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { ExecutionSummary } from '../../../protocol/notebook.ts'
import type { Room } from '../../sdk/room.ts'
import type { Parked } from './parked.ts'

export interface Since {
  readonly executions: readonly ExecutionSummary[]
  /** Accepted document updates. */
  readonly edits: number
  /** Who made them, the newest first; edits that the daemon has folded by now are nobody's. */
  readonly editors: ReadonlyArray<{ readonly by: string; readonly edits: number }>
}

/** Looks at most 200 executions back. Rejects with what the daemon answers. */
export async function sinceParked(parked: Parked, room: Room): Promise<Since> {
  const [executions, { edits, editors }] = await Promise.all([
    executionsSince(parked, room),
    editsSince(parked, room),
  ])
  return { executions, edits, editors }
}

async function executionsSince(parked: Parked, room: Room): Promise<ExecutionSummary[]> {
  if (room.state.event_seq <= parked.event_seq) return []
  const { executions } = await room.call('list_executions', { limit: 200 })
  return executions.filter(
    ({ execution_id, status, queued_at, origin }) =>
      origin === 'peer' &&
      (queued_at > parked.newestQueuedAt ||
        (parked.open.has(execution_id) && parked.open.get(execution_id) !== status)),
  )
}

async function editsSince({ doc_seq }: Parked, room: Room): Promise<Pick<Since, 'edits' | 'editors'>> {
  const edits = Math.max(0, room.state.doc_seq - doc_seq)
  if (edits === 0) return { edits, editors: [] }
  try {
    const { editors } = await room.call('list_edits', { after: doc_seq })
    return { edits, editors }
  } catch (error) {
    // A daemon of before that method: how many is known all the same.
    if (error instanceof RoomdError && error.code === 'unsupported') return { edits, editors: [] }
    throw error
  }
}

/**
 * `3 executions (1 not done), 2 edits by Claude Code since you left`; `1 execution by Ada, 5 edits by Claude Code (4), disk since you
 * left`; null when nothing happened.
 */
export function describeSince({ executions, edits, editors }: Since): string | null {
  const failed = executions.filter(bad).length
  const ran = `${counted(executions.length, 'execution')}${failed > 0 ? ` (${failed} not done)` : ''}`
  const edited = counted(edits, 'edit')
  const runners = [...new Set(executions.map((execution) => execution.by))].join(', ')
  const known = editors.reduce((sum, editor) => sum + editor.edits, 0)
  const by = editors.map((editor) =>
    editors.length > 1 && editor.edits > 1 ? `${editor.by} (${editor.edits})` : editor.by,
  )
  const writers = [...by, ...(known < edits && known > 0 ? ['others'] : [])].join(', ')
  const said = writers === '' ? edited : `${edited} by ${writers}`
  if (executions.length === 0 && edits === 0) return null
  if (executions.length === 0) return `${said} since you left`
  if (edits === 0) return `${ran} by ${runners} since you left`
  if (runners === writers) return `${ran}, ${edited} by ${writers} since you left`
  return `${ran} by ${runners}, ${said} since you left`
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

function bad({ status }: ExecutionSummary): boolean {
  return status === 'error' || status === 'interrupted' || status === 'cancelled' || status === 'lost'
}
