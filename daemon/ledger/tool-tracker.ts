/** Lines of `tool-tracker.jsonl`: one tool call each. Split at line feeds only: other separators may stand inside strings. */
import { isJsonObject, parseLenient, UnreadableFile } from './lenient-json.ts'

export interface TrackedCall {
  readonly at: string
  /** null: the line is no object. */
  readonly tool: string | null
  readonly failed: boolean
  readonly file: string | null
  readonly line: string
}

export function readTracker(text: string): TrackedCall[] {
  const lines = text.replace(/^\ufeff/, '').split('\n')
  return lines.filter((line) => line.trim() !== '').map(readLine)
}

function readLine(line: string): TrackedCall {
  const value = parsed(line)
  if (!isJsonObject(value)) return { at: '', tool: null, failed: false, file: null, line }
  return {
    at: typeof value.ts === 'string' ? value.ts : '',
    tool: typeof value.tool === 'string' ? value.tool : '',
    failed: Boolean(value.error) || value.status === 'error',
    file: typeof value.file === 'string' && value.file !== '' ? value.file : null,
    line,
  }
}

function parsed(line: string): unknown {
  try {
    return parseLenient(line)
  } catch (error) {
    if (error instanceof UnreadableFile) return undefined
    throw error
  }
}
