/**
 * Keeps secrets out of the log: values of whatever is named `*TOKEN*`, `*SECRET*`, `*KEY*` or `*PASSWORD*`, as a field of a log
 * object and as `NAME=value` inside a text (environments, command lines, query strings).
 */

const secretName = /token|secret|key|password/i
/** `NAME=value` and `?name=value`; the value ends at a space, quote, comma or `&`. */
const assignment = /([\w-]*(?:token|secret|key|password)[\w-]*=)[^\s"'&,;\\]+/gi
const MASK = '[redacted]'
/** Deeper than any log object of ours; what lies deeper is not logged. */
const MAX_DEPTH = 8

/** A copy of a log object with secret fields masked. Errors keep their identity, so that the logger writes their stacks. */
export function redactFields(value: Record<string, unknown>): Record<string, unknown> {
  return redactMap(value, 0)
}

/** A finished log line with `NAME=value` masked. */
export function redactLine(line: string): string {
  return line.includes('=') ? line.replace(assignment, `$1${MASK}`) : line
}

function redactMap(value: object, depth: number): Record<string, unknown> {
  const copy: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value)) {
    copy[name] = secretName.test(name) ? mask(member) : redact(member, depth + 1)
  }
  return copy
}

function redact(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Error) return value
  if (depth >= MAX_DEPTH) return '[deeper]'
  if (Array.isArray(value)) return value.map((member) => redact(member, depth + 1))
  if (Object.getPrototypeOf(value) === Object.prototype || Object.getPrototypeOf(value) === null) {
    return redactMap(value, depth)
  }
  return value
}

function mask(value: unknown): unknown {
  return value === undefined || value === null ? value : MASK
}
