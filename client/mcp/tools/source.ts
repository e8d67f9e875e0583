/** The file behind the notebook: how it stands to it, and ending a conflict. */
import { z } from 'zod'
import { Autosaving, SourceState } from '../../../protocol/notebook.ts'
import { text } from '../results/content.ts'
import { counted, shorten } from '../results/model-text.ts'
import { withRoom } from './room.ts'
import { notebook } from './shapes.ts'
import { defineTool, destroys, reads } from './tool.ts'

export const getSourceStatus = defineTool({
  name: 'get_source_status',
  title: 'How the notebook stands to its file',
  description:
    'Whether the file behind the notebook is in order, was changed outside or is in conflict, and the three texts of each cell in conflict.',
  annotations: reads,
  input: z.strictObject({ notebook }),
  output: z.object({
    notebook_id: z.string(),
    path: z.string().nullable(),
    source_state: SourceState,
    reason: z.string().optional(),
    conflicts: z.array(
      z.object({
        cell_id: z.string(),
        base: z.string().nullable(),
        room: z.string().nullable(),
        disk: z.string().nullable(),
      }),
    ),
    warnings: z.array(z.string()).optional(),
    autosave: Autosaving,
    doc_seq: z.number(),
    saved_doc_seq: z.number(),
  }),
  async run(context, { notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const status = await lease.room.call('source_status', {}, { signal: context.signal })
      const { path, source_state, reason, conflicts, warnings } = status
      const lines = [
        `${path ?? 'Not saved to a file yet'}: ${source_state}${reason === undefined ? '' : ` (${reason})`}`,
        ...conflicts.flatMap(({ cell_id, room, disk }) => [
          `cell ${cell_id}`,
          `--- in the room\n${side(room)}`,
          `--- on disk\n${side(disk)}`,
        ]),
        ...(warnings ?? []).slice(0, 20).map((warning) => `kept as it is: ${warning}`),
      ]
      if (source_state === 'conflict' || source_state === 'modified_outside')
        lines.push('reconcile_source {"keep": "room" | "disk" | "both"} settles it.')
      return { structured: { ...status }, content: [text(lines.join('\n'))] }
    })
  },
})

function side(source: string | null): string {
  if (source === null) return '(the cell is gone)'
  return shorten(source, (omitted) => `${omitted} characters left out`).text
}

export const reconcileSource = defineTool({
  name: 'reconcile_source',
  title: 'Settle a conflict with the file',
  description:
    "Ends a conflict between the notebook and its file: keep the room's cells, the disk's, or both (the disk's follow, marked, as cells of their own).",
  annotations: destroys,
  input: z.strictObject({
    keep: z.enum(['room', 'disk', 'both']).describe('Whose version of the cells in conflict stays.'),
    notebook,
  }),
  output: z.object({ source_state: SourceState, changed: z.array(z.string()) }),
  async run(context, { keep, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      lease.show({ activity: 'settling the file' })
      const { source_state, changed } = await lease.room.call(
        'reconcile_source',
        { keep },
        { mutationId: context.mutations.next() },
      )
      return {
        structured: { source_state, changed },
        content: [text(`Settled: ${source_state}; ${counted(changed.length, 'cell')} changed.`)],
      }
    })
  },
})
