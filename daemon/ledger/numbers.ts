/** Numbers as Python prints them, where files and summaries have to look as the reference's do. */

/** A float: printed with a decimal also where it is whole. */
export class PyFloat {
  readonly value: number

  constructor(value: number) {
    this.value = value
  }

  toString(): string {
    const { value } = this
    if (Number.isNaN(value)) return 'NaN'
    if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity'
    return Number.isInteger(value) && Math.abs(value) < 1e16
      ? value.toFixed(1)
      : pythonExponent(String(value))
  }
}

/** JavaScript writes 1e-7 and 1e+21, Python 1e-07 and 1e+21. */
function pythonExponent(text: string): string {
  return text.replace(/e([+-])(\d)$/, 'e$10$2')
}

/** To one decimal, ties to the even digit: 2.25 is 2.2. A tie is a tie only where the binary number is exactly one. */
export function roundHalfEven(value: number): number {
  const tenths = value * 10
  // Of all numbers only odd quarters lie exactly between two tenths.
  const tie = Number.isInteger(value * 4) && Math.abs(value * 4) % 2 === 1
  if (!tie) return Number(value.toFixed(1))
  const below = Math.floor(tenths)
  return (below % 2 === 0 ? below : below + 1) / 10
}

/** First `count` code points. */
export function firstCodePoints(text: string, count: number): string {
  if (text.length <= count) return text
  let units = 0
  let points = 0
  for (const point of text) {
    if (points++ === count) break
    units += point.length
  }
  return text.slice(0, units)
}

export function codePoints(text: string): number {
  let points = 0
  for (const _ of text) points++
  return points
}

/** By code points, as Python sorts; UTF-16 order differs beyond U+FFFF. */
export function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Python's `strip()`: white space by Unicode's property and the separators U+001C to U+001F, but not the byte order mark. */
export function pythonStrip(text: string): string {
  return text.replace(/^(?:[^\S\ufeff]|[\x1c-\x1f\x85])+|(?:[^\S\ufeff]|[\x1c-\x1f\x85])+$/g, '')
}
