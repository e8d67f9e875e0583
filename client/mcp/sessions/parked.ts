/**
 * Sessions that were switched away from: remembered without a peer, so that they hold no kernel alive and cost the daemon nothing.
 * At most 8; the least recently used goes first.
 */
import type { ExecutionStatus } from '../../../protocol/notebook.ts'
import { isTerminal } from '../../../protocol/notebook.ts'
import type { Session } from './session.ts'
import { canonicalPath, idKey, pathKey, type Target } from './target.ts'

export const MAX_PARKED = 8

export interface Parked {
  readonly notebook_id: string
  readonly path: string | null
  readonly target: Target
  readonly boot_id: string
  readonly doc_seq: number
  readonly event_seq: number
  /** When the newest execution known at that time was queued, by the daemon's clock; 0: there was none. */
  readonly newestQueuedAt: number
  /** Executions that had not ended. */
  readonly open: ReadonlyMap<string, ExecutionStatus>
}

export function park(session: Session): Parked {
  const { room } = session
  const executions = [...room.state.executions.values()].filter(({ origin }) => origin === 'peer')
  return {
    notebook_id: session.notebookId,
    path: session.path,
    target: session.target,
    boot_id: session.bootId,
    doc_seq: room.state.doc_seq,
    event_seq: room.state.event_seq,
    newestQueuedAt: Math.max(0, ...executions.map((execution) => execution.queued_at)),
    open: new Map(
      executions
        .filter((execution) => !isTerminal(execution.status))
        .map((execution) => [execution.execution_id, execution.status]),
    ),
  }
}

export class ParkedSessions {
  /** In the order of use, oldest first. */
  readonly #parked = new Map<string, Parked>()

  get all(): readonly Parked[] {
    return [...this.#parked.values()]
  }

  add(parked: Parked): void {
    this.#parked.delete(parked.notebook_id)
    this.#parked.set(parked.notebook_id, parked)
    for (const oldest of this.#parked.keys()) {
      if (this.#parked.size <= MAX_PARKED) return
      this.#parked.delete(oldest)
    }
  }

  take(notebookId: string): Parked | undefined {
    const parked = this.#parked.get(notebookId)
    this.#parked.delete(notebookId)
    return parked
  }

  find(keys: readonly string[]): Parked | undefined {
    return this.all.find(
      ({ notebook_id, path }) =>
        keys.includes(idKey(notebook_id)) || (path !== null && keys.includes(pathKey(canonicalPath(path)))),
    )
  }
}
