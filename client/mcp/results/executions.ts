/** Executions as results: what became of each, its outputs, and what to call next while it has not ended. */
import type { Execution, ExecutionSummary } from '../../../protocol/notebook.ts'
import type { Client } from '../../sdk/client.ts'
import type { ContentBlock } from './content.ts'
import { sizeOf } from './model-text.ts'
import { gist, OutputBlocks } from './outputs.ts'
import { structuredExecution } from './structured.ts'

/** Bytes of text, and of structured outputs, that one result carries of several executions. */
const ALL_TEXT = 64 * 1024
const ALL_STRUCTURED = 512 * 1024

/** `done [3] in 0.4 s (cell a1b2, execution …)` and, where it has not ended, what to call. */
export function headline(execution: ExecutionSummary, now: number): string {
  const { execution_id, cell_id, status, execution_count, reason } = execution
  const number = execution_count === null ? '' : ` [${execution_count}]`
  const where = cell_id === null ? '' : `cell ${cell_id}, `
  const why = reason === undefined ? '' : `: ${reason}`
  const first = `${status}${number}${took(execution, now)} (${where}execution ${execution_id})${why}`
  const id = JSON.stringify(execution_id)
  switch (status) {
    case 'queued':
      return `${first}\nIt waits for its turn and runs then. get_results {"execution_id": ${id}} shows how it goes, cancel_execution ends it.`
    case 'running':
      return `${first}\nIt goes on. get_results {"execution_id": ${id}} shows how it goes, cancel_execution ends it.`
    case 'waiting_for_input': {
      const asked = JSON.stringify(execution.prompt ?? '')
      const secret = execution.password ? ' (a password: ask the user)' : ''
      return `${first}\nThe code asks for input${secret}: ${asked}. Answer with send_input {"execution_id": ${id}, "value": "…"}.`
    }
    default:
      return first
  }
}

function took({ started_at, finished_at }: ExecutionSummary, now: number): string {
  if (started_at === null) return ''
  const ms = Math.max(0, (finished_at ?? now) - started_at)
  const time =
    ms < 1_000
      ? `${Math.round(ms)} ms`
      : `${ms < 10_000 ? (ms / 1000).toFixed(1) : String(Math.round(ms / 1000))} s`
  return `${finished_at === null ? ' for' : ' in'} ${time}`
}

/** One execution: headline, then its outputs. `more` is said behind the headline. */
export async function executionBlocks(
  client: Client,
  execution: Execution,
  options: { now: number; more?: string },
): Promise<ContentBlock[]> {
  const blocks = new OutputBlocks(client)
  blocks.line(headline(execution, options.now))
  if (options.more !== undefined) blocks.line(options.more)
  await blocks.add(execution.outputs, execution)
  for (const { reason } of execution.gaps ?? []) blocks.line(`(some output is missing: ${reason})`)
  if (execution.truncated)
    blocks.line('(the kernel printed more than is kept; the marker in the output says how much)')
  return blocks.blocks
}

/** Several: all outputs while there is room, then a line each. */
export async function executionsResult(
  client: Client,
  executions: readonly Execution[],
  now: number,
): Promise<{ structured: Record<string, unknown>; content: ContentBlock[] }> {
  const blocks = new OutputBlocks(client)
  const structured: Record<string, unknown>[] = []
  let size = 0
  for (const execution of executions) {
    const full = structuredExecution(execution)
    size += Buffer.byteLength(JSON.stringify(full.outputs))
    structured.push(size <= ALL_STRUCTURED ? full : structuredExecution(execution, null))
    blocks.line(headline(execution, now))
    if (textSize(blocks.blocks) < ALL_TEXT) await blocks.add(execution.outputs, execution)
    else if (execution.outputs.length > 0) blocks.line(`… ends with: ${gist(execution, 120)}`)
  }
  if (textSize(blocks.blocks) >= ALL_TEXT)
    blocks.line(
      `(outputs beyond ${sizeOf(ALL_TEXT)} are shown by their last line; get_results shows one whole)`,
    )
  return { structured: { executions: structured }, content: blocks.blocks }
}

function textSize(blocks: readonly ContentBlock[]): number {
  return blocks.reduce((size, block) => size + (block.type === 'text' ? block.text.length : 0), 0)
}
