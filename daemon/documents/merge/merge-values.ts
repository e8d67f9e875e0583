/**
 * Three-way merging of JSON values: objects key by key, all else whole. Where both sides changed the same value differently the
 * room's stays, and `differs` hears the place: metadata is no text that someone wrote, but what is dropped is said.
 */
import { isDeepStrictEqual } from 'node:util'

export type Values = Readonly<Record<string, unknown>>

export function mergeValues(
  base: Values,
  room: Values,
  disk: Values,
  differs: (at: string) => void,
): Record<string, unknown> {
  const merged: Record<string, unknown> = {}
  const set = (key: string, value: unknown): void => {
    // `__proto__` is a key like any other.
    if (value !== undefined)
      Object.defineProperty(merged, key, { value, enumerable: true, configurable: true, writable: true })
  }
  const own = (values: Values, key: string): unknown => (Object.hasOwn(values, key) ? values[key] : undefined)
  for (const key of new Set([...Object.keys(room), ...Object.keys(disk)])) {
    const [o, a, b] = [own(base, key), own(room, key), own(disk, key)]
    if (isDeepStrictEqual(a, b) || isDeepStrictEqual(o, b)) set(key, a)
    else if (isDeepStrictEqual(o, a)) set(key, b)
    else if (isValues(a) && isValues(b))
      set(
        key,
        mergeValues(isValues(o) ? o : {}, a, b, (at) => differs(`${key}.${at}`)),
      )
    else {
      differs(key)
      set(key, a)
    }
  }
  return merged
}

function isValues(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
