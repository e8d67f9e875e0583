/** Reading and editing cells. */
import { z } from 'zod'
import { RoomdError } from '../../../protocol/errors.ts'
import { CellType } from '../../../protocol/notebook.ts'
import type { EditOperation } from '../../sdk/room.ts'
import { cellLine, cellText } from '../results/cells.ts'
import { type ContentBlock, text } from '../results/content.ts'
import { fullOutput as readFullOutput } from '../results/full-output.ts'
import { counted, plain } from '../results/model-text.ts'
import { OutputBlocks } from '../results/outputs.ts'
import { structuredCell, structuredSummary } from '../results/structured.ts'
import { changedCell, mustHave, mustRun } from './changed-cell.ts'
import { withRoom } from './room.ts'
import {
  andRun,
  CellShape,
  CellSummaryShape,
  ChangedCellShape,
  cancel,
  cellId,
  fullOutput,
  notebook,
  offset,
  timeoutSecs,
} from './shapes.ts'
import { changes, defineTool, destroys, reads, runs, settles } from './tool.ts'

const cellType = CellType.describe('code, markdown or raw.')
const source = z.string().max(8 * 1024 * 1024)
const runAfter = { and_run: andRun, timeout_secs: timeoutSecs(30), cancel }

/** Bytes of text that one answer of get_all_cells carries. */
const ALL_TEXT = 192 * 1024

export const getCell = defineTool({
  name: 'get_cell',
  title: 'Read a cell',
  description: 'Source, state and outputs of one cell.',
  annotations: reads,
  input: z.strictObject({ cell_id: cellId, full_output: fullOutput, offset, notebook }),
  output: z.object({ cell: CellShape, next_offset: z.number().optional() }),
  async run(context, { cell_id, full_output, offset, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const { room, client } = lease
      const { cell } = await room.call('get_cell', { cell_id }, { signal: context.signal })
      const { execution } = cell
      if (!full_output) {
        const blocks = new OutputBlocks(client)
        blocks.line(cellText(cell))
        if (cell.outputs.length > 0) blocks.line('--- outputs')
        await blocks.add(cell.outputs, execution ?? null)
        return { structured: { cell: structuredCell(cell) }, content: blocks.blocks }
      }
      // Outputs that are read on belong to an execution; a cell without one has none.
      const outputs = { execution_id: execution?.execution_id ?? ('' as never), outputs: cell.outputs }
      const full = await readFullOutput(client, outputs, offset, cell.source)
      const more = full.next_offset === undefined ? {} : { next_offset: full.next_offset }
      return {
        structured: {
          cell: {
            ...structuredCell(cell, { outputs: full.outputs }),
            ...(full.lead === '' ? {} : { source: full.lead }),
          },
          ...more,
        },
        content: [
          text(
            [
              `cell ${cell_id}: ${cell.cell_type}`,
              ...(full.lead === '' ? [] : [full.lead]),
              ...(full.texts.length > 0 ? ['--- outputs'] : []),
              ...full.texts.map((part) => plain(part)),
              ...(full.next_offset === undefined
                ? []
                : [
                    `(more: get_cell ${JSON.stringify({ ...(notebook === undefined ? {} : { notebook }), cell_id, full_output: true, offset: full.next_offset })})`,
                  ]),
            ].join('\n'),
          ),
        ],
      }
    })
  },
})

export const getAllCells = defineTool({
  name: 'get_all_cells',
  title: 'Read all cells',
  description:
    'The cells in order. summary: a line each. full: with whole sources and outputs; a long notebook comes in several answers (next_start).',
  annotations: reads,
  input: z.strictObject({
    format: z.enum(['summary', 'full']).default('summary').describe('How much of each cell.'),
    start: z.number().int().min(0).default(0).describe('Index of the first cell.'),
    count: z.number().int().min(1).max(1000).default(100).describe('At most so many cells.'),
    notebook,
  }),
  output: z.object({
    cells: z.array(z.union([CellShape, CellSummaryShape])),
    total: z.number(),
    start: z.number(),
    next_start: z.number().optional(),
  }),
  async run(context, { format, start, count, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const { room, client } = lease
      const page = await room.call('get_cells', { start, count }, { signal: context.signal })
      const { total } = page
      const cells: Record<string, unknown>[] = []
      let content: ContentBlock[] = []
      if (format === 'summary') {
        cells.push(...page.cells.map(structuredSummary))
        content = [text([headOf(total, start, page.cells.length), ...page.cells.map(cellLine)].join('\n'))]
      } else {
        const blocks = new OutputBlocks(client)
        blocks.line(headOf(total, start, page.cells.length))
        let size = 0
        for (const cell of page.cells) {
          const structured = structuredCell(cell)
          size += JSON.stringify(structured).length
          // At least one, however large.
          if (cells.length > 0 && size > ALL_TEXT) break
          cells.push(structured)
          blocks.line(`\n${cellText(cell)}`)
          if (cell.outputs.length > 0) blocks.line('--- outputs')
          await blocks.add(cell.outputs, cell.execution ?? null)
        }
        content = blocks.blocks
      }
      const next = start + cells.length
      if (next < total && cells.length > 0)
        content.push(
          text(
            `(${total - next} more: get_all_cells ${JSON.stringify({ ...(notebook === undefined ? {} : { notebook }), format, start: next })})`,
          ),
        )
      return {
        structured: { cells, total, start, ...(next < total ? { next_start: next } : {}) },
        content,
      }
    })
  },
})

function headOf(total: number, start: number, shown: number): string {
  if (total === 0) return 'The notebook has no cells.'
  if (start === 0 && shown === total) return `${counted(total, 'cell')}:`
  return shown === 0
    ? `${counted(total, 'cell')}; none from ${start} on.`
    : `${counted(total, 'cell')}, from ${start} on:`
}

export const createCell = defineTool({
  name: 'create_cell',
  title: 'Create a cell',
  description:
    'Adds a cell: at the end, behind after_cell_id, or at the start (after_cell_id: null). With and_run it runs at once.',
  annotations: runs,
  input: z.strictObject({
    source: source.default('').describe('Text of the cell.'),
    cell_type: cellType.default('code'),
    after_cell_id: z
      .string()
      .min(1)
      .max(128)
      .nullable()
      .optional()
      .describe('The cell before it. null: at the start. Left out: at the end.'),
    ...runAfter,
    notebook,
  }),
  output: ChangedCellShape,
  async run(context, { source, cell_type, after_cell_id, notebook, ...run }) {
    mustRun(cell_type, run)
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'adding a cell', cellId: after_cell_id ?? undefined })
      const cellId = await lease.room.createCell(
        {
          source,
          cellType: cell_type,
          ...(after_cell_id === undefined ? {} : { afterCellId: after_cell_id }),
        },
        { mutationId: context.mutations.next() },
      )
      return await changedCell(context, lease, { cellId, done: `Created cell ${cellId}.`, run })
    })
  },
})

export const setCell = defineTool({
  name: 'set_cell',
  title: 'Set a cell',
  description:
    'Replaces the text of a cell, or makes it another type. For a small change in a long cell, replace_match is safer.',
  annotations: runs,
  input: z.strictObject({
    cell_id: cellId,
    source: source.optional().describe('The whole new text.'),
    cell_type: cellType.optional(),
    ...runAfter,
    notebook,
  }),
  output: ChangedCellShape,
  async run(context, { cell_id, source, cell_type, notebook, ...run }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      const before = mustHave(lease, cell_id)
      const operations: EditOperation[] = [
        ...(source === undefined ? [] : [{ op: 'set_source' as const, cell_id, source }]),
        ...(cell_type === undefined ? [] : [{ op: 'set_cell_type' as const, cell_id, cell_type }]),
      ]
      if (operations.length === 0 && !run.and_run) {
        throw new RoomdError(
          'invalid_argument',
          'set_cell: give source, cell_type or both; there is nothing to change',
        )
      }
      mustRun(cell_type ?? before.cell_type, run)
      if (operations.length > 0) lease.show({ activity: 'editing cell #', cellId: cell_id })
      const mutationId = context.mutations.next()
      if (operations.length > 0) await lease.room.edit(operations, { mutationId })
      return await changedCell(context, lease, {
        cellId: cell_id,
        done: operations.length > 0 ? `Changed cell ${cell_id}.` : `Cell ${cell_id} was left as it is.`,
        before: source === undefined ? undefined : before.source,
        run,
      })
    })
  },
})

export const deleteCell = defineTool({
  name: 'delete_cell',
  title: 'Delete a cell',
  description: 'Removes a cell from the notebook. Results of its executions stay readable with get_results.',
  annotations: destroys,
  input: z.strictObject({ cell_id: cellId, notebook }),
  output: z.object({ cell_id: z.string(), doc_seq: z.number() }),
  async run(context, { cell_id, notebook }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'deleting cell #', cellId: cell_id })
      const { doc_seq } = await lease.room.deleteCell(cell_id, { mutationId: context.mutations.next() })
      return { structured: { cell_id, doc_seq }, content: [text(`Deleted cell ${cell_id}.`)] }
    })
  },
})

export const moveCell = defineTool({
  name: 'move_cell',
  title: 'Move a cell',
  description: 'Moves a cell behind another, or to the start (after_cell_id: null).',
  annotations: settles,
  input: z.strictObject({
    cell_id: cellId,
    after_cell_id: z
      .string()
      .min(1)
      .max(128)
      .nullable()
      .describe('The cell it comes behind; null: the start.'),
    notebook,
  }),
  output: ChangedCellShape,
  async run(context, { cell_id, after_cell_id, notebook }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'moving cell #', cellId: cell_id })
      await lease.room.moveCell(cell_id, after_cell_id, { mutationId: context.mutations.next() })
      const where = after_cell_id === null ? 'to the start' : `behind ${after_cell_id}`
      return await changedCell(context, lease, { cellId: cell_id, done: `Moved cell ${cell_id} ${where}.` })
    })
  },
})

export const clearOutputs = defineTool({
  name: 'clear_outputs',
  title: 'Clear outputs',
  description:
    'Cells show no outputs any more: the named ones, or all. A cell that is queued or running keeps its own.',
  annotations: destroys,
  input: z.strictObject({
    cell_ids: z.array(z.string().min(1).max(128)).max(10_000).optional().describe('Left out: all cells.'),
    notebook,
  }),
  output: z.object({ cell_ids: z.array(z.string()), event_seq: z.number() }),
  hints: { cell_id: 'Cells are named by the list "cell_ids".' },
  async run(context, { cell_ids, notebook }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'clearing outputs', cellId: cell_ids?.length === 1 ? cell_ids[0] : undefined })
      const cleared = await lease.room.clearOutputs(cell_ids, { mutationId: context.mutations.next() })
      return {
        structured: { ...cleared },
        content: [text(`Cleared the outputs of ${counted(cleared.cell_ids.length, 'cell')}.`)],
      }
    })
  },
})

export const setCellMetadata = defineTool({
  name: 'set_cell_metadata',
  title: "Set a cell's metadata",
  description: "Replaces a cell's metadata (tags, for example) as a whole; get_cell shows what there is.",
  annotations: { ...changes, idempotentHint: true },
  input: z.strictObject({
    cell_id: cellId,
    metadata: z.record(z.string(), z.unknown()).describe('All of the metadata, as a JSON object.'),
    notebook,
  }),
  output: ChangedCellShape,
  async run(context, { cell_id, metadata, notebook }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'editing cell #', cellId: cell_id })
      await lease.room.edit([{ op: 'set_cell_metadata', cell_id, metadata }], {
        mutationId: context.mutations.next(),
      })
      return await changedCell(context, lease, {
        cellId: cell_id,
        done: `Set the metadata of cell ${cell_id}: ${JSON.stringify(metadata)}`,
      })
    })
  },
})
