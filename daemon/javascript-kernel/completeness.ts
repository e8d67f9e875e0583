/** Whether code can run as it is, for `is_complete_request`: consoles ask it at each Enter. */
import { CellSyntaxError, parseCell } from './syntax-tree.ts'
import { transpile } from './typescript.ts'
import type { Json } from './wire.ts'

const unterminated = /Unterminated (template|comment|regular expression group)/

export function isComplete(code: string): Json {
  try {
    parseCell(code)
    return { status: 'complete' }
  } catch (error) {
    if (!(error instanceof CellSyntaxError)) return { status: 'unknown' }
    if (endsTooEarly(error, code)) return incomplete(code)
  }
  try {
    transpile(code)
    return { status: 'complete' }
  } catch (error) {
    if (!(error instanceof CellSyntaxError)) return { status: 'unknown' }
    return endsTooEarly(error, code) ? incomplete(code) : { status: 'invalid' }
  }
}

function endsTooEarly(error: CellSyntaxError, code: string): boolean {
  return (
    error.at >= code.trimEnd().length ||
    unterminated.test(error.message) ||
    /end of file/i.test(error.message)
  )
}

function incomplete(code: string): Json {
  const line = code.trimEnd().split('\n').at(-1) ?? ''
  const indent = /^\s*/.exec(line)?.[0] ?? ''
  return { status: 'incomplete', indent: /[{([]\s*$/.test(line) ? `${indent}  ` : indent }
}
