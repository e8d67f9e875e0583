/**
 * Structured forms: executions, cells and outputs as `structuredContent` has them. Text over 8 KiB is head and tail with its size and, in
 * `blob`, the resource that gives all of it; binary values are named by digest and size, never carried.
 */
import { createHash } from 'node:crypto'
import { isBinaryMime } from '../../../protocol/mime.ts'
import {
  type BlobRef,
  type Cell,
  type Execution,
  type ExecutionSummary,
  INLINE_LIMIT,
  type Output,
  type TextValue,
} from '../../../protocol/notebook.ts'
import { outputUri } from '../resources/uri.ts'
import { cutToBytes, lastBytes } from './model-text.ts'

type Plain = Record<string, unknown>

/** Bytes kept of each end of a long text. */
const END = 4 * 1024

/** `whole`: long texts stay as they are. */
export interface StructuredOptions {
  readonly whole?: boolean
  /** URI of the resource that has all of the text; absent: only the tool that was called gives it, with full_output. */
  readonly blob?: string
}

/** A long text as results have it. */
type ShownText = string | (Omit<Exclude<TextValue, string>, 'blob'> & { readonly blob?: string })

/** A text, or its two ends when it is long. */
export function longText(text: string, { whole = false, blob }: StructuredOptions = {}): ShownText {
  if (whole) return text
  const size = Buffer.byteLength(text)
  if (size <= INLINE_LIMIT) return text
  return {
    ...(blob === undefined ? {} : { blob }),
    size,
    chars: text.length,
    head: cutToBytes(text, END),
    tail: lastBytes(text, END),
  }
}

/** The mirror keeps more of a stream's end than a result needs. */
function trimmed(long: Exclude<TextValue, string>, options: StructuredOptions): ShownText {
  const { size, chars, head, tail, blob = options.blob } = long
  return {
    ...(blob === undefined ? {} : { blob }),
    size,
    chars,
    head: cutToBytes(head, END),
    tail: lastBytes(tail, END),
  }
}

/** Outputs of an execution, in its order; null: of none, as in a file that was never run here. */
export function structuredOutputs(
  executionId: string | null,
  outputs: readonly Output[],
  options: StructuredOptions = {},
): Plain[] {
  return outputs.map((output, index) =>
    structuredOutput(
      output,
      executionId === null ? options : { ...options, blob: outputUri(executionId, index) },
    ),
  )
}

export function structuredOutput(output: Output, options: StructuredOptions = {}): Plain {
  switch (output.output_type) {
    case 'stream':
      return {
        output_type: 'stream',
        name: output.name,
        text:
          typeof output.text === 'string' ? longText(output.text, options) : trimmed(output.text, options),
      }
    case 'error':
      return { ...output, traceback: output.traceback.map((line) => cutToBytes(line, INLINE_LIMIT)) }
    case 'display_data':
    case 'execute_result':
      return {
        output_type: output.output_type,
        data: Object.fromEntries(
          Object.entries(output.data).map(([mime, value]) => [
            mime,
            structuredValue(mime, value, { whole: options.whole ?? false }),
          ]),
        ),
        metadata: output.metadata,
        ...(output.output_type === 'execute_result' ? { execution_count: output.execution_count } : {}),
      }
  }
}

export function isBlobRef(value: unknown): value is BlobRef {
  return (
    typeof value === 'object' &&
    value !== null &&
    'blob' in value &&
    typeof value.blob === 'string' &&
    'size' in value &&
    Object.keys(value).length === 2
  )
}

function structuredValue(mime: string, value: unknown, options: StructuredOptions): unknown {
  if (isBlobRef(value)) return value
  if (typeof value !== 'string') return value
  if (!isBinaryMime(mime)) return longText(value, options)
  const bytes = Buffer.from(value, 'base64')
  return { blob: createHash('sha256').update(bytes).digest('hex'), size: bytes.length }
}

/** `outputs` in their place: already structured, or to be; null leaves them out and says so. */
export function structuredExecution(
  execution: ExecutionSummary | Execution,
  outputs: readonly Plain[] | null = 'outputs' in execution
    ? structuredOutputs(execution.execution_id, execution.outputs)
    : null,
): Plain {
  const { execution_id, cell_id, status, execution_count, truncated, started_at, finished_at } = execution
  const { prompt, password, reason, by, gaps } = execution
  return {
    execution_id,
    ...(cell_id === null ? {} : { cell_id }),
    status,
    execution_count,
    outputs: outputs ?? [],
    ...(outputs === null ? { outputs_omitted: true } : {}),
    truncated,
    by,
    ...(started_at === null ? {} : { started_at }),
    ...(finished_at === null ? {} : { finished_at }),
    ...(status === 'waiting_for_input' ? { prompt: prompt ?? '', password: password ?? false } : {}),
    ...(reason === undefined ? {} : { reason }),
    ...(gaps === undefined ? {} : { gaps }),
  }
}

export function structuredCell(
  cell: Cell,
  options: StructuredOptions & { outputs?: readonly Plain[] } = {},
): Plain {
  const { execution } = cell
  return {
    cell_id: cell.cell_id,
    cell_type: cell.cell_type,
    source: longText(cell.source, options),
    ...(Object.keys(cell.metadata).length === 0 ? {} : { metadata: cell.metadata }),
    ...executionOf(execution),
    outputs: options.outputs ?? structuredOutputs(execution?.execution_id ?? null, cell.outputs, options),
  }
}

function executionOf(execution: ExecutionSummary | undefined): Plain {
  if (!execution) return {}
  // Outputs that came with the file never ran here: there is no execution to ask about.
  if (execution.origin === 'file')
    return execution.execution_count === null ? {} : { execution_count: execution.execution_count }
  const { execution_id, execution_count, status } = execution
  return { execution_id, execution_count, status }
}

/** One cell in a list. `preview`: its first line. */
export function structuredSummary(cell: Cell): Plain {
  const first = cell.source.split('\n', 1)[0] ?? ''
  return {
    cell_id: cell.cell_id,
    cell_type: cell.cell_type,
    preview: first.length <= 120 ? first : `${[...first].slice(0, 119).join('')}…`,
    lines: cell.source === '' ? 0 : cell.source.split('\n').length,
    ...executionOf(cell.execution),
    ...(cell.outputs.length > 0 ? { outputs: cell.outputs.map(summaryOfOutput) } : {}),
  }
}

function summaryOfOutput(output: Output): string {
  switch (output.output_type) {
    case 'stream':
      return `${output.name} ${typeof output.text === 'string' ? output.text.length : output.text.chars} chars`
    case 'error':
      return `error ${output.ename}: ${output.evalue.slice(0, 120)}`
    case 'display_data':
    case 'execute_result':
      return Object.keys(output.data).join(', ')
  }
}
