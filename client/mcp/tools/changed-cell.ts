/** The result of tools that change a cell, and running it afterwards. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Cell } from '../../../protocol/notebook.ts'
import { cellText } from '../results/cells.ts'
import { text } from '../results/content.ts'
import { sourceDiff } from '../results/diff.ts'
import { executionBlocks } from '../results/executions.ts'
import { structuredCell, structuredExecution } from '../results/structured.ts'
import type { Lease } from '../sessions/guests.ts'
import { follow } from './follow.ts'
import { throwIfCancelled, type Work } from './room.ts'
import type { ToolContext, ToolResult } from './tool.ts'

export interface RunAfter {
  readonly and_run: boolean
  readonly timeout_secs: number
  readonly cancel: 'interrupt' | 'detach'
}

export interface Change {
  readonly cellId: string
  /** First line of the text. */
  readonly done: string
  /** Source before the change; undefined where it did not change or is not known any more. */
  readonly before?: string | undefined
  readonly run?: RunAfter | undefined
}

/** After the edit is durable. A run that cannot be had fails the call and says that the edit stands. */
export async function changedCell(context: ToolContext, lease: Work, change: Change): Promise<ToolResult> {
  const { cellId, done, before, run } = change
  const { room, client } = lease
  const diff = before === undefined ? '' : sourceDiff(before, mustHave(lease, cellId).source)
  if (!run?.and_run) {
    const cell = mustHave(lease, cellId)
    const body = diff === '' ? cellText(cell, 2048) : diff
    return {
      structured: { cell: structuredCell(cell), ...(diff === '' ? {} : { diff }) },
      content: [text(`${done}\n${body}`)],
    }
  }
  throwIfCancelled(context)
  const running = await room
    .execute(cellId, { mutationId: context.mutations.next() })
    .catch((error: unknown) => {
      throw error instanceof RoomdError ? notRun(error, cellId, done) : error
    })
  const execution = await follow(context, lease, running, {
    timeoutSecs: run.timeout_secs,
    cancel: run.cancel,
  })
  const cell = mustHave(lease, cellId)
  return {
    structured: {
      cell: structuredCell(cell),
      execution: structuredExecution(execution),
      ...(diff === '' ? {} : { diff }),
    },
    content: [
      text(diff === '' ? done : `${done}\n${diff}`),
      ...(await executionBlocks(client, execution, { now: context.clock.now() })),
    ],
  }
}

/** Refuses before anything is changed: only code cells run. */
export function mustRun(cellType: string, run: RunAfter): void {
  if (!run.and_run || cellType === 'code') return
  throw new RoomdError(
    'invalid_argument',
    `and_run: a ${cellType} cell does not run; nothing was changed. Leave and_run out, or make it a code cell`,
  )
}

/** The cell as this peer's state has it; behind an edit's answer it includes the edit. */
export function mustHave({ room }: Lease, cellId: string): Cell {
  const cell = room.state.cell(cellId)
  if (cell) return cell
  throw new RoomdError('not_found', `no cell ${cellId} in this notebook; get_all_cells lists the ids`, {
    next: { tool: 'get_all_cells', arguments: {} },
  })
}

function notRun(error: RoomdError, cellId: string, done: string): RoomdError {
  return new RoomdError(error.code, `${done} It was not run: ${error.message}`, {
    retryable: error.retryable,
    cause: { cell_id: cellId, changed: true, cause: error.detail },
    next: { tool: 'execute_cell', arguments: { cell_id: cellId } },
  })
}
