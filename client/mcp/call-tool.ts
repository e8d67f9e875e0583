/** One tool call without an MCP client: what `roomd tool` does. The same handlers, the same results. */
import { randomUUID } from 'node:crypto'
import { systemClock } from '../../protocol/clock.ts'
import { Activities } from './activities.ts'
import { DaemonLink } from './daemon-link.ts'
import { MutationBlock } from './mutation-block.ts'
import { errorResult } from './results/errors.ts'
import type { Sessions as SessionsType } from './sessions/sessions.ts'
import { Sessions } from './sessions/sessions.ts'
import { type CallResult, callTool as dispatch } from './tools/dispatch.ts'

export interface CallToolOptions {
  readonly name: string
  /** Arguments as an object, or as its JSON text. */
  readonly arguments: unknown
  /** The active session of the call: id, unique prefix of an id, or path. */
  readonly room?: string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly autostart?: (() => Promise<void>) | undefined
  /** How others see the caller. */
  readonly label?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Shows an address in the user's browser; false: there is none here. */
  readonly show?: ((url: string) => Promise<boolean>) | undefined
  /** New output while the call goes on. */
  readonly progress?: ((text: string) => void) | undefined
}

/** Never rejects for what a tool answers: errors are results with `isError`. */
export async function callTool(options: CallToolOptions): Promise<CallResult> {
  const { env, cwd, label = 'roomd', signal = new AbortController().signal } = options
  const clock = systemClock
  const daemon = new DaemonLink({
    env,
    clock,
    label: () => label,
    kind: 'cli',
    clientInstance: randomUUID(),
    autostart: options.autostart ?? null,
  })
  const sessions = new Sessions({ daemon, clock, cwd })
  try {
    if (options.room !== undefined) await sessions.connect(await roomTarget(sessions, daemon, options.room))
    return await dispatch(options.name, options.arguments, {
      sessions,
      daemon,
      activities: new Activities(),
      clock,
      cwd,
      signal,
      mutations: new MutationBlock(undefined),
      progress: options.progress ?? null,
      ask: null,
      show: options.show ?? null,
      record: null,
    })
  } catch (error) {
    return errorResult(error)
  } finally {
    sessions.dispose()
    await daemon.close()
  }
}

/** A prefix of an id is looked up; what looks like a path is one. */
async function roomTarget(sessions: SessionsType, daemon: DaemonLink, room: string) {
  if (!/^[0-9a-f-]{4,35}$/i.test(room)) return sessions.target(room)
  const client = await daemon.local()
  const found = await client.call('find_room', { room })
  return sessions.target(found.room.notebook_id)
}
