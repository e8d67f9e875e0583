/** How much text is in a value. */

/** Characters, about: enough to tell small from large. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  let size = 8
  for (const part of Object.values(value)) size += sizeOf(part)
  return size
}
