/** Which notebooks there are: in the daemon, and on this connection. */
import { z } from 'zod'
import { type RoomSummary, roomForOutsiders } from '../../../protocol/notebook.ts'
import { text } from '../results/content.ts'
import { counted } from '../results/model-text.ts'
import { namesOf, type Target, textOf } from '../sessions/target.ts'
import { RoomShape } from './shapes.ts'
import { defineTool, reads } from './tool.ts'

/** Milliseconds a list waits for a rejoin to end, so that it can say what is active. */
const REJOIN_WAIT = 1_000

const ListShape = z.object({
  notebooks: z.array(RoomShape),
  active: z.string().optional(),
  /** The session that is being brought back; it is active soon, and calls wait for it. */
  pending_rejoin: z
    .object({ target: z.string(), notebook_id: z.string().optional(), path: z.string().optional() })
    .optional(),
  parked: z.array(
    z.object({
      notebook_id: z.string(),
      path: z.string().optional(),
      doc_seq: z.number(),
      event_seq: z.number(),
    }),
  ),
})

export const listActiveNotebooks = defineTool({
  name: 'list_active_notebooks',
  title: 'List active notebooks',
  description:
    'Notebooks that are open in the daemon now, with kernel, queue and who is in them; which one is active on this connection, and which are parked. Start here.',
  annotations: reads,
  input: z.strictObject({}),
  output: ListShape,
  async run({ daemon, sessions, signal }) {
    const client = await daemon.local()
    const pending = await sessions.pendingRejoin(REJOIN_WAIT, signal)
    const { rooms } = await client.call('list_rooms', {})
    const { active, parked } = sessions
    const lines = rooms.map((room) => roomLine(room, room.notebook_id === active?.notebookId))
    if (active?.origin === 'remote')
      lines.push(`* ${active.notebookId}  ${active.path ?? 'untitled'}  remote (active)`)
    if (pending) lines.push(`${textOf(pending)} is being brought back; calls wait for it.`)
    if (parked.length > 0)
      lines.push(
        `Parked: ${parked.map((entry) => entry.path ?? entry.notebook_id).join(', ')} (connect_notebook goes back to one).`,
      )
    return {
      structured: {
        notebooks: rooms.map(roomForOutsiders),
        ...(active ? { active: active.notebookId } : {}),
        ...(pending && !active ? { pending_rejoin: structuredTarget(pending) } : {}),
        parked: parked.map(({ notebook_id, path, doc_seq, event_seq }) => ({
          notebook_id,
          ...(path === null ? {} : { path }),
          doc_seq,
          event_seq,
        })),
      },
      content: [
        text(
          lines.length > 0
            ? lines.join('\n')
            : 'No notebook is open. connect_notebook opens a file, create_notebook makes a new one, list_notebooks shows earlier ones.',
        ),
      ],
    }
  },
})

export const listNotebooks = defineTool({
  name: 'list_notebooks',
  title: 'List notebooks',
  description: 'All notebooks the daemon knows, open or not, the open ones first and then the newest.',
  annotations: reads,
  input: z.strictObject({
    limit: z.number().int().min(1).max(500).default(50).describe('At most so many.'),
  }),
  output: z.object({ notebooks: z.array(RoomShape) }),
  async run({ daemon, sessions }, { limit }) {
    const client = await daemon.local()
    const { rooms } = await client.call('list_rooms', { inactive: true, limit })
    const lines = rooms.map((room) => roomLine(room, room.notebook_id === sessions.active?.notebookId))
    return {
      structured: { notebooks: rooms.map(roomForOutsiders) },
      content: [
        text(
          lines.length > 0
            ? lines.join('\n')
            : 'The daemon knows no notebook yet. connect_notebook opens a file, create_notebook makes a new one.',
        ),
      ],
    }
  },
})

function structuredTarget(target: Target): Record<string, unknown> {
  const { notebook_id, path } = namesOf(target)
  return {
    target: textOf(target),
    ...(notebook_id === null ? {} : { notebook_id }),
    ...(path === null ? {} : { path }),
  }
}

function roomLine(room: RoomSummary, active: boolean): string {
  const { notebook_id, path, title, state, kernel, queue, peers } = room
  const parts = [
    state,
    kernel ? `kernel ${kernel.name} ${kernel.state}` : 'no kernel',
    ...(queue.queued > 0 ? [`${queue.queued} queued`] : []),
    ...(peers.length > 0
      ? [`${counted(peers.length, 'peer')}: ${peers.map((peer) => peer.label).join(', ')}`]
      : []),
  ]
  return `${active ? '* ' : '  '}${notebook_id}  ${path ?? title}  ${parts.join('; ')}${active ? ' (active)' : ''}`
}
