/** Outputs between the file's form (lists of lines) and ours (joined texts). */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Output } from '../../../protocol/notebook.ts'
import { joinLines, splitLines } from './lines.ts'

/** Tells what an output of a file is, or why it is none that can be shown. Throws with the place for a broken one. */
export type ReadOutput = { readonly output: Output } | { readonly skipped: string }

/** `fail`: reports a broken value with its place below the output. */
export function readOutput(raw: unknown, fail: (at: string, reason: string) => never): ReadOutput {
  if (!isRecord(raw)) return fail('', 'an output must be an object')
  const type = raw.output_type
  switch (type) {
    case 'stream': {
      const text = joinLines(raw.text ?? '')
      if (text === null) return fail('.text', 'expected a text or a list of lines')
      return { output: { output_type: 'stream', name: nameOf(raw.name), text } }
    }
    case 'display_data':
      return { output: { output_type: 'display_data', ...bundleOf(raw, fail) } }
    case 'execute_result':
      return {
        output: {
          output_type: 'execute_result',
          ...bundleOf(raw, fail),
          execution_count: countOf(raw.execution_count),
        },
      }
    case 'error': {
      const traceback = raw.traceback ?? []
      if (!Array.isArray(traceback)) return fail('.traceback', 'expected a list of texts')
      return {
        output: {
          output_type: 'error',
          ename: String(raw.ename ?? ''),
          evalue: String(raw.evalue ?? ''),
          traceback: traceback.map(String),
        },
      }
    }
    default:
      return {
        skipped: `the output type ${JSON.stringify(type)} is not known; it is kept in the file and not shown`,
      }
  }
}

function bundleOf(
  raw: Record<string, unknown>,
  fail: (at: string, reason: string) => never,
): { data: Record<string, unknown>; metadata: Record<string, unknown> } {
  const data = raw.data ?? {}
  if (!isRecord(data)) return fail('.data', 'expected an object of mime types')
  const metadata = raw.metadata ?? {}
  if (!isRecord(metadata)) return fail('.metadata', 'expected an object')
  return { data: joinBundle(data), metadata }
}

export function joinBundle(data: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(data).map(([mime, value]) => [
      mime,
      isJsonMime(mime) ? value : (joinLines(value) ?? value),
    ]),
  )
}

export function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) ? value : null
}

function nameOf(value: unknown): string {
  return typeof value === 'string' ? value : 'stdout'
}

function isJsonMime(mime: string): boolean {
  return mime === 'application/json' || (mime.startsWith('application/') && mime.endsWith('+json'))
}

/** nbformat splits these into lines; all else stays one text. */
function isSplitMime(mime: string): boolean {
  return mime.startsWith('text/') || mime === 'application/javascript' || mime === 'image/svg+xml'
}

/** The file's form of an output. Throws `internal` when a value was shortened or moved to a blob: the caller has to bring the whole. */
export function fileOutput(output: Output): Record<string, unknown> {
  switch (output.output_type) {
    case 'stream':
      if (typeof output.text !== 'string') throw notWhole('text of a stream')
      return { name: output.name, output_type: 'stream', text: splitLines(output.text) }
    case 'display_data':
      return { data: fileBundle(output.data), metadata: output.metadata, output_type: 'display_data' }
    case 'execute_result':
      return {
        data: fileBundle(output.data),
        execution_count: output.execution_count,
        metadata: output.metadata,
        output_type: 'execute_result',
      }
    case 'error':
      return { ename: output.ename, evalue: output.evalue, output_type: 'error', traceback: output.traceback }
  }
}

function fileBundle(data: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(data).map(([mime, value]) => {
      if (isRecord(value) && !isJsonMime(mime)) throw notWhole(`value of ${mime}`)
      return [mime, typeof value === 'string' && isSplitMime(mime) ? splitLines(value) : value]
    }),
  )
}

function notWhole(what: string): RoomdError {
  return new RoomdError('internal', `the ${what} was not read whole before the notebook was written`)
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
