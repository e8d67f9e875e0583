/** JSON for clients, whose JSON has no NaN: special numbers become their names. */
import { SpecialNumber } from './lenient-json.ts'

export function plainJson(value: unknown): unknown {
  if (value instanceof SpecialNumber) return value.text
  if (Array.isArray(value)) return value.map(plainJson)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plainJson(member)]))
}
