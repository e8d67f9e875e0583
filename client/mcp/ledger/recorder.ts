/**
 * Tells the ledger what this connection does, so that a session knows its tool calls, rooms and executions without a tracker: every
 * tool call but those of the ledger, before it is answered. A call that is sent again to a new child is counted once: the record
 * has a mutation id of the call's own block.
 *
 * Nothing depends on it: where there is no daemon, or it refuses, the call's answer stays as it is.
 */
import { isLedgerMethod } from '../../../protocol/ledger.ts'
import type { MethodParams } from '../../../protocol/methods.ts'
import type { Client } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import type { DaemonLink } from '../daemon-link.ts'
import type { MutationBlock } from '../mutation-block.ts'

export interface ActiveRoom {
  readonly notebookId: string
  readonly path: string | null
  readonly client: Client
}

export interface RecorderOptions {
  readonly daemon: DaemonLink
  readonly cwd: string
  readonly active: () => ActiveRoom | null
}

/** What one tool call tells. */
export interface CallRecord {
  /** The call works in this room. */
  used(room: Room, client: Client): void
  /** A session began with this call: the room that is active already is one of its rooms. */
  begun(): Promise<void>
  /** The call has its answer. Never rejects. */
  ended(result: Answer): Promise<void>
}

interface Answer {
  readonly isError?: true
  readonly structuredContent: Record<string, unknown>
}

type Told = Omit<MethodParams<'session_record'>, 'cwd'>
type ToldRoom = NonNullable<Told['notebooks']>[number]
type ToldExecution = NonNullable<Told['executions']>[number]

/** Tools that are no work: they look after the connection. */
const housekeeping: ReadonlySet<string> = new Set(['daemon_status', 'reconnect'])
/** Milliseconds that a tool's answer waits for its record at most. */
const PATIENCE = 2_000

export class Recorder {
  readonly #options: RecorderOptions

  constructor(options: RecorderOptions) {
    this.#options = options
  }

  begin(tool: string, mutations: MutationBlock): CallRecord {
    const rooms = new Map<string, ToldRoom>()
    const add = (notebook_id: string, path: string | null): void => {
      rooms.set(notebook_id, { notebook_id, path } as ToldRoom)
    }
    return {
      used: (room, client) => {
        // Rooms of other daemons are not this ledger's.
        if (client === this.#options.daemon.present) add(room.id, room.state.source.path)
      },
      begun: async () => {
        const active = this.#options.active()
        if (active && active.client === this.#options.daemon.present)
          await this.#tell(
            { notebooks: [{ notebook_id: active.notebookId, path: active.path } as ToldRoom] },
            mutations,
          )
      },
      ended: async ({ structuredContent, isError }) => {
        if (isLedgerMethod(tool) || housekeeping.has(tool)) return
        const active = this.#options.active()
        const { notebook_id } = structuredContent
        if (active?.notebookId === notebook_id && active?.client === this.#options.daemon.present)
          add(active.notebookId, active.path)
        const room = [...rooms.keys()][0]
        await this.#tell(
          {
            tool: tool.slice(0, 200),
            failed: isError === true,
            notebooks: [...rooms.values()],
            executions: room === undefined ? [] : executionsIn(structuredContent, room),
          },
          mutations,
        )
      },
    }
  }

  async #tell(told: Told, mutations: MutationBlock): Promise<void> {
    const client = this.#options.daemon.present
    const spare = mutations.spare()
    if (!client?.connected || spare === undefined) return
    try {
      await client.call(
        'session_record',
        { ...told, cwd: this.#options.cwd },
        { timeoutMs: PATIENCE, ...(spare.id === undefined ? {} : { mutationId: spare.id }) },
      )
    } catch (error) {
      process.stderr.write(`roomd mcp: the ledger was not told of a call: ${(error as Error).message}\n`)
    }
  }
}

/** Executions of a result: alone, in a list, or beside the cell that was changed. */
function executionsIn(result: Record<string, unknown>, notebook_id: string): ToldExecution[] {
  const candidates: unknown[] = [
    result,
    result.execution,
    ...(Array.isArray(result.executions) ? result.executions : []),
  ]
  return candidates.flatMap((candidate) => {
    if (typeof candidate !== 'object' || candidate === null) return []
    const { execution_id, status } = candidate as { execution_id?: unknown; status?: unknown }
    if (typeof execution_id !== 'string' || typeof status !== 'string') return []
    return [{ execution_id, notebook_id, status } as ToldExecution]
  })
}
