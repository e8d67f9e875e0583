/** The `user_expressions` of an execute_request: each is evaluated after the cell and answered for itself. */
import { compileCell } from './cells.ts'
import { errorFields } from './errors.ts'
import { isInterrupt } from './guard.ts'
import { toMimeBundle } from './mime-bundle.ts'
import type { Json } from './wire.ts'

/** Throws only an interrupt. */
export function evaluateExpressions(expressions: unknown): Json {
  const results: Json = {}
  if (typeof expressions !== 'object' || expressions === null) return results
  for (const [name, source] of Object.entries(expressions)) results[name] = evaluate(String(source))
  return results
}

function evaluate(source: string): Json {
  const name = 'Cell In[*]'
  try {
    const cell = compileCell(source, name)
    if (cell.async) throw new SyntaxError('await and import cannot be used in user expressions')
    const value: unknown = cell.script.runInThisContext({ displayErrors: false })
    return { status: 'ok', ...toMimeBundle(value) }
  } catch (error) {
    if (isInterrupt(error)) throw error
    return { status: 'error', ...errorFields(error, { name, source }) }
  }
}
