/**
 * JSON as Python's `json.dumps` writes it: non-ASCII escaped, floats with a decimal, NaN by its name. So every text it makes is
 * ASCII, also where a string holds half a surrogate pair.
 */
import { SpecialNumber } from '../lenient-json.ts'
import { PyFloat } from '../numbers.ts'

/** Two spaces of indent; an empty list or object stays on its line. No line end at the end. */
export function pythonJson(value: unknown): string {
  return render(value, '\n')
}

/** On one line, with a space behind comma and colon. */
export function pythonJsonLine(value: unknown): string {
  return render(value, null)
}

function render(value: unknown, newline: string | null): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'string') return asciiString(value)
  if (typeof value === 'number') return numberText(value)
  if (typeof value === 'boolean') return String(value)
  if (value instanceof PyFloat) return value.toString()
  if (value instanceof SpecialNumber) return value.text
  const inner = newline === null ? null : `${newline}  `
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]'
    return block(
      '[',
      value.map((item) => render(item, inner)),
      ']',
      newline,
    )
  }
  if (typeof value !== 'object') throw new TypeError(`a ${typeof value} is no JSON`)
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([key, member]) => `${asciiString(key)}: ${render(member, inner)}`)
  return members.length === 0 ? '{}' : block('{', members, '}', newline)
}

function block(open: string, parts: readonly string[], close: string, newline: string | null): string {
  if (newline === null) return `${open}${parts.join(', ')}${close}`
  return `${open}${newline}  ${parts.join(`,${newline}  `)}${newline}${close}`
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity'
  return Object.is(value, -0) ? '-0.0' : String(value)
}

function asciiString(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
