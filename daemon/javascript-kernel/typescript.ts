/** TypeScript to JavaScript, by esbuild, which is loaded when the first cell needs it. */
import { createRequire, type SourceMap } from 'node:module'
import type { TransformFailure, transformSync } from 'esbuild'
import { sourceMapOf } from './source-positions.ts'
import { CellSyntaxError } from './syntax-tree.ts'

export interface TranspiledCell {
  readonly code: string
  readonly map: SourceMap
}

type TransformSync = typeof transformSync
let transform: TransformSync | undefined

/**
 * Types are removed, not checked. The synchronous call is used on purpose: esbuild's service process would be in our process group and
 * die of the interrupts meant for cells. Throws CellSyntaxError.
 */
export function transpile(source: string): TranspiledCell {
  transform ??= (createRequire(import.meta.url)('esbuild') as { transformSync: TransformSync }).transformSync
  try {
    return run(transform, source, 'ts')
  } catch (error) {
    try {
      return run(transform, source, 'tsx')
    } catch {
      // Not JSX either: the first error is the one to tell.
      throw syntaxError(error, source)
    }
  }
}

function run(transformSync: TransformSync, source: string, loader: 'ts' | 'tsx'): TranspiledCell {
  const { code, map } = transformSync(source, {
    loader,
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'silent',
    target: 'node20',
    supported: { 'top-level-await': true },
    // Imports that this cell does not use may be used by the next one.
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, experimentalDecorators: true } },
  })
  return { code: code.replace(/\n?\/\/# sourceMappingURL=.*\s*$/, ''), map: sourceMapOf(map) }
}

function syntaxError(error: unknown, source: string): unknown {
  const first = (error as Partial<TransformFailure>).errors?.[0]
  if (!first?.location) return error
  const { line, column } = first.location
  const before = source.split('\n').slice(0, line - 1)
  const at = before.reduce((sum, text) => sum + text.length + 1, 0) + column
  return new CellSyntaxError(first.text, line, column, at)
}
