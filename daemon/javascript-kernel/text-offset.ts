/** Offsets: the protocol counts Unicode code points, JavaScript counts UTF-16 units. */

export function toUnits(text: string, codePoints: number): number {
  let units = 0
  for (let left = codePoints; left > 0 && units < text.length; left -= 1) {
    units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1
  }
  return units
}

export function toCodePoints(text: string, units: number): number {
  let count = 0
  for (let at = 0; at < units; count += 1) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
  return count
}
