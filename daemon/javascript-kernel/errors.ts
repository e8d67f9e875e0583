/** An error of a cell in the fields of Jupyter's `error` message. */
import { inspect, types } from 'node:util'
import { KeyboardInterrupt } from './scope.ts'
import { placeOf } from './stack-trace.ts'
import { CellSyntaxError } from './syntax-tree.ts'

export interface ErrorFields {
  readonly ename: string
  readonly evalue: string
  readonly traceback: string[]
}

/** Whatever was thrown; never throws itself. `cell` names the cell for errors found before it ran. */
export function errorFields(thrown: unknown, cell?: { name: string; source: string }): ErrorFields {
  try {
    if (thrown instanceof KeyboardInterrupt) {
      const { name, message } = thrown
      return { ename: name, evalue: message, traceback: [`${name}: ${message}`] }
    }
    if (thrown instanceof CellSyntaxError) return syntaxFields(thrown, cell)
    if (!isError(thrown)) {
      const evalue = typeof thrown === 'string' ? thrown : inspect(thrown)
      return { ename: 'Uncaught', evalue, traceback: [`Uncaught ${inspect(thrown)}`] }
    }
    // Reading the stack makes it, and finds the place.
    void thrown.stack
    const place = placeOf(thrown)
    const frame = place ? codeFrame(place.name, place.source, place.line, place.column) : []
    return {
      ename: String(thrown.name || 'Error'),
      evalue: String(thrown.message),
      traceback: [...frame, ...inspect(thrown).split('\n')],
    }
  } catch (error) {
    const evalue = `an error that cannot be shown (showing it failed with ${typeof error === 'object' ? 'an error' : String(error)})`
    return { ename: 'Error', evalue, traceback: [evalue] }
  }
}

function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

function syntaxFields(
  error: CellSyntaxError,
  cell: { name: string; source: string } | undefined,
): ErrorFields {
  const line = cell?.source.split('\n')[error.line - 1] ?? ''
  const frame = codeFrame(cell?.name ?? 'Cell', line, error.line, error.column + 1)
  return {
    ename: error.name,
    evalue: error.message,
    traceback: [...frame, `${error.name}: ${error.message}`],
  }
}

function codeFrame(name: string, source: string, line: number, column: number): string[] {
  // Long lines (minified code, data) show the part around the place.
  const start = column > 120 ? column - 60 : 0
  const shown = source.slice(start, start + 160)
  const pointer = shown.slice(0, column - 1 - start).replace(/[^\t]/g, ' ')
  return [`${name}:${line}:${column}`, `  ${shown}`, `  ${pointer}^`, '']
}
