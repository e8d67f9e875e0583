/** Places in source text, and finding them through source maps. */
import { SourceMap } from 'node:module'

/** Lines and columns from 1, as in stack traces. */
export interface Position {
  readonly line: number
  readonly column: number
}

export function sourceMapOf(json: string): SourceMap {
  return new SourceMap(JSON.parse(json))
}

/** Lines and columns from 1, on both sides. */
export function lookup(map: SourceMap, line: number, column: number): Position | undefined {
  const entry = map.findEntry(line - 1, column - 1)
  if (!('originalLine' in entry) || entry.originalLine === undefined) return undefined
  return { line: entry.originalLine + 1, column: entry.originalColumn + 1 }
}
