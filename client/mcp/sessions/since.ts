/** What happened in a room while its session was parked, for the one who comes back. */
import type { ExecutionSummary } from '../../../protocol/notebook.ts'
import type { Room } from '../../sdk/room.ts'
import type { Parked } from './parked.ts'

export interface Since {
  readonly executions: readonly ExecutionSummary[]
  /** Accepted document updates. */
  readonly edits: number
}

/** Looks at most 200 executions back. Rejects with what the daemon answers. */
export async function sinceParked(parked: Parked, room: Room): Promise<Since> {
  const edits = Math.max(0, room.state.doc_seq - parked.doc_seq)
  if (room.state.event_seq <= parked.event_seq) return { executions: [], edits }
  const { executions } = await room.call('list_executions', { limit: 200 })
  return {
    executions: executions.filter(
      ({ execution_id, status, queued_at, origin }) =>
        origin === 'peer' &&
        (queued_at > parked.newestQueuedAt ||
          (parked.open.has(execution_id) && parked.open.get(execution_id) !== status)),
    ),
    edits,
  }
}

/** `3 executions by Claude Code (1 failed), 2 edits since you left`, or null when nothing happened. */
export function describeSince({ executions, edits }: Since): string | null {
  const parts: string[] = []
  if (executions.length > 0) {
    const by = [...new Set(executions.map((execution) => execution.by))].join(', ')
    const failed = executions.filter(bad)
    const bads = failed.length > 0 ? ` (${failed.length} not done)` : ''
    parts.push(`${executions.length} execution${executions.length === 1 ? '' : 's'} by ${by}${bads}`)
  }
  if (edits > 0) parts.push(`${edits} edit${edits === 1 ? '' : 's'}`)
  return parts.length === 0 ? null : `${parts.join(', ')} since you left`
}

function bad({ status }: ExecutionSummary): boolean {
  return status === 'error' || status === 'interrupted' || status === 'cancelled' || status === 'lost'
}
