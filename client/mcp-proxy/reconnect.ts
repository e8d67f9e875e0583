/** The tool `reconnect`: restarts the child and tells how it and the rejoin went. */
import type { Clock } from '../../protocol/clock.ts'
import type { Announcement } from './announcement.ts'
import { pauseText, toolError } from './answers.ts'
import { banner } from './banner.ts'
import type { JsonObject } from './jsonrpc.ts'
import type { LocalTool } from './local-tools.ts'
import { PausedError, type Supervisor } from './supervisor.ts'
import { rejoinTarget } from './target.ts'
import type { Tool } from './tool-list.ts'

export interface ReconnectSetting {
  readonly clock: Clock
  readonly supervisor: () => Supervisor
  readonly announcement: Announcement
  /** `roomd <version>` of the child that was ready last; null before the first. */
  readonly title: () => string | null
}

/** It answers within this many ms of a child that can start. */
const BOUND = 1800

const definition: Tool = {
  name: 'reconnect',
  title: 'Reconnect',
  description:
    'Restarts the MCP child and rejoins the active notebook. The daemon, its kernels and variables are not touched; calls under way go on. Use it when tools keep failing although daemon_status is well, or after an upgrade of roomd.',
  // Some clients refuse a whole list in which one schema is no object.
  inputSchema: { type: 'object', properties: {}, additionalProperties: false },
  outputSchema: {
    type: 'object',
    properties: {
      restarted: { type: 'boolean' },
      version: {
        type: 'object',
        properties: { before: { type: 'string' }, after: { type: 'string' } },
        required: ['before', 'after'],
      },
      rejoin: {
        type: 'object',
        properties: {
          outcome: { type: 'string', enum: ['none', 'pending', 'succeeded', 'failed'] },
          target: { type: 'string' },
          readiness: { type: ['object', 'null'] },
          reason: { type: 'string' },
        },
        required: ['outcome'],
      },
      parked_lost: { type: 'array', items: { type: 'string' } },
      error: { type: 'object' },
    },
  },
  annotations: {
    title: 'Reconnect',
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
}

export function reconnectTool(setting: ReconnectSetting): LocalTool {
  return { definition, call: () => reconnect(setting) }
}

async function reconnect({ clock, supervisor, announcement, title }: ReconnectSetting): Promise<JsonObject> {
  const deadline = clock.now() + BOUND
  const before = title()
  try {
    await supervisor().restart('reconnect')
  } catch (error) {
    if (!(error instanceof PausedError)) throw error
    const message = `not reconnected: ${pauseText(error.pause, clock.now())}.`
    const cause = { reason: error.pause.reason, retry_in_ms: error.pause.until - clock.now() }
    return toolError({ code: 'internal', message, retryable: true, cause })
  }
  const news = announcement.take()
  await Promise.race([
    announcement.known(),
    new Promise<void>((resolve) => clock.after(Math.max(0, deadline - clock.now()), resolve)),
  ])
  const { rejoin } = announcement
  const after = title() ?? ''
  const text = news === null ? `[roomd] The MCP child is ready (${after}).` : banner(news, rejoin)
  return {
    content: [{ type: 'text', text }],
    structuredContent: {
      restarted: true,
      version: { before: before ?? after, after },
      rejoin: { ...rejoin },
      parked_lost: (news?.parked ?? []).flatMap((session) => rejoinTarget(session) ?? []),
    },
  }
}
