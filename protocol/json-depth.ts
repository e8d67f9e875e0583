/** How deep values may be nested: what is deeper cannot be written to a notebook file or be encoded without danger for the stack. */

/** Levels of objects and arrays; the same limit holds for files. */
export const DEEPEST_JSON = 500

/** Whether the value is nested at most so deep. Needs no stack of its own. */
export function isShallow(value: unknown, deepest = DEEPEST_JSON): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    const next: unknown[] = []
    for (const item of level) {
      if (typeof item !== 'object' || item === null || ArrayBuffer.isView(item)) continue
      if (depth >= deepest) return false
      for (const inner of Array.isArray(item) ? item : Object.values(item)) next.push(inner)
    }
    level = next
  }
  return true
}
