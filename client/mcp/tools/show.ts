/** Showing a notebook to the person at this machine. */
import { z } from 'zod'
import type { Client } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import { text } from '../results/content.ts'
import { withRoom } from './room.ts'
import { notebook } from './shapes.ts'
import { defineTool, settles, type ToolContext } from './tool.ts'

export const showNotebook = defineTool({
  name: 'show_notebook',
  title: 'Show the notebook to the user',
  description: 'Opens the notebook for a person to look at, where this machine has a screen and a console.',
  annotations: settles,
  input: z.strictObject({ notebook }),
  output: z.object({
    opened: z.boolean(),
    notebook_id: z.string(),
    path: z.string().optional(),
    reason: z.string().optional(),
  }),
  async run(context, { notebook }) {
    return withRoom(context, notebook, 'read', async ({ room, client }) => {
      const { path } = room.state.source
      const reason = await notShown(context, client, room)
      const where = path ?? 'not saved to a file yet'
      return {
        structured: {
          opened: reason === null,
          notebook_id: room.id,
          ...(path === null ? {} : { path }),
          ...(reason === null ? {} : { reason }),
        },
        content: [
          text(reason === null ? 'Opened in the browser.' : `Not opened: ${reason}. The file is ${where}.`),
        ],
      }
    })
  },
})

/**
 * Shows the room in the browser of this machine, let in by a token for one use, which goes to nobody but the browser. Returns why it
 * could not, or null.
 */
async function notShown({ show, sessions }: ToolContext, client: Client, room: Room): Promise<string | null> {
  if (sessions.active?.room === room && sessions.active.origin === 'remote')
    return "it is a remote daemon's notebook; that machine's console shows it"
  const made = await client.call('create_token', { scope: 'owner', once: true, notebook_id: room.id })
  if (made.http === null) return 'the daemon has no HTTP listener (the setting http.enabled, or its port)'
  const address = new URL('/', made.http)
  address.searchParams.set('token', made.token)
  address.searchParams.set('notebook', room.id)
  if (show && (await show(address.href))) return null
  return `no browser could be started here; the user can call "roomd open ${room.id}"`
}
