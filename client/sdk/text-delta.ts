/** Applies deltas of `cells` events. A delta that does not fit means that something was missed: RangeError, never a guess. */
import type { TextDelta } from '../../protocol/events.ts'

/** The text after the delta; offsets in UTF-16 units. */
export function applyTextDelta(text: string, delta: TextDelta): string {
  let at = 0
  let result = ''
  for (const part of delta) {
    if ('insert' in part) {
      result += part.insert
      continue
    }
    const length = 'retain' in part ? part.retain : part.delete
    if (at + length > text.length) throw new RangeError(`delta reaches beyond a text of ${text.length}`)
    if ('retain' in part) result += text.slice(at, at + length)
    at += length
  }
  return result + text.slice(at)
}
