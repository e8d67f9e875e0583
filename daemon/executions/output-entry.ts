/** One output of an execution in memory, what it weighs, and how it is stored and shown. */
import { encode } from '../../protocol/codec.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { Output } from '../../protocol/notebook.ts'
import type { Statement } from '../store/store.ts'
import type { StreamOutput } from './stream-output.ts'
import { bundleBytes, jsonBytes } from './values.ts'

/** Counted for each output beside its content. */
export const OVERHEAD = 64

export interface Entry {
  readonly index: number
  readonly content:
    | { kind: 'value'; output: Output; bytes: number }
    | { kind: 'stream'; stream: StreamOutput }
}

/** The statement that stores an output which is no stream in pieces. */
export function insertOutput(id: ExecutionId, index: number, output: Output): Statement {
  return {
    sql: 'INSERT OR REPLACE INTO outputs (execution_id, output_index, body) VALUES (?, ?, ?)',
    values: [id, index, encode(output)],
  }
}

export function snapshot({ content }: Entry): Output {
  return content.kind === 'stream' ? content.stream.snapshot() : content.output
}

export function entryBytes({ content }: Entry): number {
  return OVERHEAD + (content.kind === 'stream' ? content.stream.bytes : content.bytes)
}

export function outputBytes(output: Output): number {
  switch (output.output_type) {
    case 'stream':
      return typeof output.text === 'string' ? Buffer.byteLength(output.text) : output.text.size
    case 'display_data':
    case 'execute_result':
      return bundleBytes(output.data) + jsonBytes(output.metadata)
    case 'error':
      return jsonBytes(output)
  }
}

export function hasDisplayId(
  output: Output,
  displayId: string | undefined,
): output is Extract<Output, { output_type: 'display_data' | 'execute_result' }> {
  return 'display_id' in output && output.display_id === displayId && displayId !== undefined
}
