/** A configuration file that is not what its client could read, or has something else where our entry belongs. Nothing was changed. */
export class DamagedFile extends Error {
  /** Line and column from 1. */
  readonly line: number
  readonly column: number

  constructor(text: string, offset: number, reason: string) {
    super(reason)
    this.name = 'DamagedFile'
    const before = text.slice(0, offset)
    this.line = before.split('\n').length
    this.column = offset - before.lastIndexOf('\n')
  }
}

/** One replacement in a text; edits of one text do not overlap. */
export interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Applies edits given in any order; those at one place in the given one. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = ''
  let at = 0
  for (const edit of [...edits].sort((a, b) => a.start - b.start)) {
    result += text.slice(at, edit.start) + edit.text
    at = edit.end
  }
  return result + text.slice(at)
}

export function sameValue(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => sameValue(item, b[index]))
  }
  if (isTable(a) && isTable(b)) {
    const keys = Object.keys(a)
    return keys.length === Object.keys(b).length && keys.every((key) => key in b && sameValue(a[key], b[key]))
  }
  return a === b
}

/** A plain object. */
export function isTable(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}
