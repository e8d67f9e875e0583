/** Cutting texts to a number of bytes: both ends kept, what is missing said, no surrogate pair parted. Pure. */
import { wholeUnits } from './change.ts'

/** The most UTF-16 units of `text` that are at most `bytes` long, ending after a newline where one is near. */
export function unitsWithin(text: string, bytes: number): number {
  let units = Math.min(text.length, bytes)
  for (let over = Buffer.byteLength(text.slice(0, units)) - bytes; over > 0; ) {
    units = Math.max(0, units - Math.ceil(over / 3))
    over = Buffer.byteLength(text.slice(0, units)) - bytes
  }
  if (units === 0) return 0
  const line = text.lastIndexOf('\n', units - 1) + 1
  if (units - line < 4096 && line > 0) return line
  const whole = wholeUnits(text, units)
  return whole > units ? 0 : whole
}

export function shorten(text: string, bytes: number): string {
  const size = Buffer.byteLength(text)
  if (size <= bytes) return text
  const head = text.slice(0, unitsWithin(text, bytes / 2))
  const start = text.length - Math.floor(bytes / 6)
  const unit = text.charCodeAt(start)
  const tail = text.slice(unit >= 0xdc00 && unit <= 0xdfff ? start + 1 : start)
  const missing = size - Buffer.byteLength(head) - Buffer.byteLength(tail)
  return `${head}\n[roomd: ${missing} bytes are missing here]\n${tail}`
}

/** A traceback of at most about 64 KiB: long lines shortened, lines in the middle left out. */
export function shortenLines(lines: readonly string[]): string[] {
  const short = lines.map((line) => shorten(line, 8 * 1024))
  let over = short.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0) - 64 * 1024
  if (over <= 0) return short
  const middle = Math.floor(short.length / 2)
  let first = middle
  let last = middle
  let missing = 0
  while (over > 0 && last - first < short.length - 2) {
    const left = middle - first <= last - middle
    const line = (left ? short[--first] : short[last++]) ?? ''
    missing += Buffer.byteLength(line) + 1
    over -= Buffer.byteLength(line) + 1
  }
  return [...short.slice(0, first), `[roomd: ${missing} bytes are missing here]`, ...short.slice(last)]
}
