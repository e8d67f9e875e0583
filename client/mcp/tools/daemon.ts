/** The daemon itself, and the connection to it. */
import { z } from 'zod'
import { VERSION } from '../../../protocol/version.ts'
import { text } from '../results/content.ts'
import { counted, sizeOf } from '../results/model-text.ts'
import { defineTool, reads, settles } from './tool.ts'

export const daemonStatus = defineTool({
  name: 'daemon_status',
  title: 'Status of the daemon',
  description: 'Whether the daemon runs, its version, and what it holds.',
  annotations: reads,
  input: z.strictObject({}),
  output: z.object({
    running: z.literal(true),
    pid: z.number(),
    boot_id: z.string(),
    version: z.string(),
    uptime_s: z.number(),
    socket: z.string(),
    http: z.string().nullable(),
    rooms: z.number(),
    peers: z.number(),
    kernels: z.number(),
    connections: z.number(),
    journal: z.object({
      state: z.string(),
      reason: z.string().optional(),
      incomplete: z.boolean().optional(),
      size: z.number(),
      pending: z.number(),
    }),
    memory: z.object({ rss: z.number(), heap_used: z.number() }),
  }),
  async run({ daemon }) {
    const client = await daemon.local()
    const status = await client.call('status', {})
    const { version, pid, uptime_s, rooms, peers, kernels, journal, memory } = status
    const store =
      journal.state === 'ok' ? '' : ` Its store is ${journal.state}: ${journal.reason ?? 'see the log'}.`
    return {
      structured: { ...status },
      content: [
        text(
          `roomd ${version} runs (pid ${pid}) since ${Math.round(uptime_s)} s with ${counted(rooms, 'room')}, ${counted(peers, 'peer')}, ${counted(kernels, 'kernel')}; ${sizeOf(memory.rss)} of memory.${store}`,
        ),
      ],
    }
  },
})

/** Behind the proxy the proxy answers this one: it restarts its child. Here the connection is looked at and made where it is missing. */
export const reconnect = defineTool({
  name: 'reconnect',
  title: 'Reconnect',
  description:
    'Restarts the MCP server process and rejoins the active notebook; for when the connection seems stuck. Kernels and notebooks are not touched.',
  annotations: settles,
  input: z.strictObject({}),
  output: z.object({
    reconnected: z.boolean(),
    version: z.string().optional(),
    notebook_id: z.string().optional(),
  }),
  async run({ daemon, sessions }) {
    const client = await daemon.local()
    await client.call('ping', {})
    const { active } = sessions
    return {
      structured: {
        reconnected: true,
        version: VERSION,
        ...(active ? { notebook_id: active.notebookId } : {}),
      },
      content: [
        text(
          `Connected to roomd ${client.daemon?.version ?? ''}. ${active ? `The active notebook is ${active.path ?? active.notebookId}.` : 'No notebook is active.'}`,
        ),
      ],
    }
  },
})
