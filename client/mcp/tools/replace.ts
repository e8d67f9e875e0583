/** Replacing one place in a cell: what is read and what is written belong together, whoever else edits the cell meanwhile. */
import { z } from 'zod'
import { RoomdError } from '../../../protocol/errors.ts'
import { changedCell, mustHave, mustRun, type RunAfter } from './changed-cell.ts'
import { findText, onlyMatch, replaced } from './matching.ts'
import { findMatches } from './regex.ts'
import { type Work, withRoom } from './room.ts'
import { andRun, ChangedCellShape, cancel, cellId, notebook, timeoutSecs } from './shapes.ts'
import { defineTool, runs, type ToolContext, type ToolResult } from './tool.ts'

const runAfter = { and_run: andRun, timeout_secs: timeoutSecs(30), cancel }

/** How often the place is looked for again when somebody else changed the cell in between. */
const ATTEMPTS = 8

export const replaceMatch = defineTool({
  name: 'replace_match',
  title: 'Replace text in a cell',
  description:
    'Replaces the one place where a text occurs in a cell. If it occurs more than once, context_before or context_after tell which is meant; else nothing is changed.',
  annotations: runs,
  input: z.strictObject({
    cell_id: cellId,
    match: z.string().min(1).describe('The text to replace, exactly as it stands.'),
    content: z
      .string()
      .max(8 * 1024 * 1024)
      .describe('What stands there afterwards.'),
    context_before: z.string().min(1).optional().describe('Text right before the match.'),
    context_after: z.string().min(1).optional().describe('Text right behind the match.'),
    ...runAfter,
    notebook,
  }),
  output: ChangedCellShape,
  async run(context, { cell_id, match, content, context_before, context_after, notebook, ...run }) {
    const wanted = { match, context_before, context_after }
    return replace(context, { cell_id, notebook, run }, async (source) => {
      const place = onlyMatch(cell_id, source, findText(source, wanted), { kind: 'text', wanted })
      return { source: replaced(source, place, content), at: place.index }
    })
  },
})

export const replaceRegex = defineTool({
  name: 'replace_regex',
  title: 'Replace a pattern in a cell',
  description:
    'Replaces the one place that a regular expression (multiline, with look-around) matches in a cell. The content is literal: no group references.',
  annotations: runs,
  input: z.strictObject({
    cell_id: cellId,
    pattern: z
      .string()
      .min(1)
      .max(10_000)
      .describe('Regular expression. ^ and $ match at lines; (?i) and (?s) at the start work.'),
    content: z
      .string()
      .max(8 * 1024 * 1024)
      .describe('What stands there afterwards, as it is.'),
    ...runAfter,
    notebook,
  }),
  output: ChangedCellShape,
  async run(context, { cell_id, pattern, content, notebook, ...run }) {
    return replace(context, { cell_id, notebook, run }, async (source) => {
      const found = await findMatches(pattern, source, context.signal)
      const place = onlyMatch(cell_id, source, found, { kind: 'pattern' })
      return { source: replaced(source, place, content), at: place.index }
    })
  },
})

/** The source after the replacement, and where it differs. */
type Compute = (source: string) => Promise<{ source: string; at: number }>

async function replace(
  context: ToolContext,
  { cell_id, notebook, run }: { cell_id: string; notebook: string | undefined; run: RunAfter },
  compute: Compute,
): Promise<ToolResult> {
  return withRoom(context, notebook, 'edit', async (lease) => {
    const mutationId = context.mutations.next()
    const done = `Changed cell ${cell_id}.`
    if (mutationId !== undefined && (await happened(lease, cell_id, mutationId)))
      return await changedCell(context, lease, { cellId: cell_id, done, run })
    mustRun(mustHave(lease, cell_id).cell_type, run)
    const before = await write(lease, cell_id, mutationId, compute)
    return await changedCell(context, lease, { cellId: cell_id, done, before, run })
  })
}

/** Writes what was computed from exactly the source that is there; returns that source. */
async function write(
  lease: Work,
  cellId: string,
  mutationId: number | undefined,
  compute: Compute,
): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const { source, source_hash } = mustHave(lease, cellId)
    const after = await compute(source)
    lease.show({ activity: 'editing cell #', cellId, offset: after.at })
    try {
      // A refused write leaves no trace under its id, so all attempts share the one id.
      await lease.room.setSource(cellId, after.source, { expectSourceHash: source_hash, mutationId })
      return source
    } catch (error) {
      const changed = error instanceof RoomdError && error.code === 'conflict'
      if (!changed || attempt === ATTEMPTS) throw error
    }
  }
}

/**
 * Whether an earlier process already made this very replacement. Its text cannot tell (the match is gone, or is there again), but
 * its id can: a write that certainly does not fit is refused if the id is new, and answered from memory if it is not.
 */
async function happened(lease: Work, cellId: string, mutationId: number): Promise<boolean> {
  try {
    await lease.room.setSource(cellId, '', { expectSourceHash: 'none', mutationId })
    return true
  } catch (error) {
    if (error instanceof RoomdError && error.code === 'conflict') return false
    throw error
  }
}
