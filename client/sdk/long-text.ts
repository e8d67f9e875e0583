/**
 * Stream text as the mirror keeps it: whole while it is short, head and tail once it is long, so that a flood of output costs a
 * client a bounded amount of memory. All offsets count UTF-16 units; the omitted middle is had by `read_output`.
 */
import type { TextValue } from '../../protocol/notebook.ts'

/** A text longer than this (UTF-16 units) is folded to head and tail. */
export const WHOLE_TEXT_MAX = 256 * 1024
export const KEPT_HEAD = 4 * 1024
/** At least so much of the end is kept, at most twice as much: cutting at every append would copy it each time. */
export const KEPT_TAIL = 64 * 1024

export function charsOf(text: TextValue): number {
  return typeof text === 'string' ? text.length : text.chars
}

/** Size of the UTF-8 form in bytes; a lone surrogate counts as the replacement character it becomes. */
export function utf8Size(text: string): number {
  let size = text.length
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x80) continue
    if (unit < 0x800) size += 1
    else if (isHigh(unit) && isLow(text.charCodeAt(i + 1))) {
      size += 2
      i++
    } else size += 2
  }
  return size
}

/**
 * Cuts `text` to its first `from` units and appends `added`. `exact: false`: the cut lies in the omitted middle, so the size is
 * only a lower bound until the text is fetched again. Throws RangeError for a cut beyond the end: an event was missed.
 */
export function spliceText(
  text: TextValue,
  from: number,
  added: string,
): { text: TextValue; exact: boolean } {
  const chars = charsOf(text)
  if (from > chars) throw new RangeError(`cut at ${from} of a text of ${chars}`)
  if (typeof text === 'string')
    return { text: fold((from === chars ? text : text.slice(0, from)) + added), exact: true }
  if (from <= text.head.length) return { text: fold(text.head.slice(0, from) + added), exact: true }
  const tailStart = chars - text.tail.length
  const { head } = text
  if (from < tailStart) {
    const tail = keepTail(added)
    return {
      text: { head, tail, chars: from + added.length, size: utf8Size(head) + utf8Size(added) },
      exact: false,
    }
  }
  const kept = text.tail.slice(0, from - tailStart)
  const size = text.size - utf8Size(text.tail.slice(from - tailStart)) + utf8Size(added)
  return { text: { head, tail: keepTail(kept + added), chars: from + added.length, size }, exact: true }
}

/** A whole text in the form the mirror keeps it in. */
export function fold(text: string): TextValue {
  if (text.length <= WHOLE_TEXT_MAX) return text
  const head = text.slice(0, safeCut(text, KEPT_HEAD))
  return { head, tail: cutTail(text), chars: text.length, size: utf8Size(text) }
}

/** Units `from` onwards, or null when they are not all here. */
export function textFrom(text: TextValue, from: number): string | null {
  if (typeof text === 'string') return text.slice(from)
  const tailStart = text.chars - text.tail.length
  return from >= tailStart ? text.tail.slice(from - tailStart) : null
}

/** How many units two states of one text have in common at their start, as far as can be told. */
export function commonStart(a: TextValue, b: TextValue): number {
  const length = Math.min(charsOf(a), charsOf(b))
  const regions = [...shownRegions(a), ...shownRegions(b)]
  // Every boundary of what is shown of either splits the comparison into pieces that are whole in both, or in none.
  const cuts = [...new Set([0, length, ...regions.flat()])]
    .filter((cut) => cut <= length)
    .sort((x, y) => x - y)
  for (let i = 0; i + 1 < cuts.length; i++) {
    const [start, end] = [cuts[i] ?? 0, cuts[i + 1] ?? 0]
    const [left, right] = [pieceOf(a, start, end), pieceOf(b, start, end)]
    if (left === null || right === null || left === right) continue
    let same = 0
    while (left.charCodeAt(same) === right.charCodeAt(same)) same++
    return start + same
  }
  return length
}

function shownRegions(text: TextValue): [number, number][] {
  if (typeof text === 'string') return [[0, text.length]]
  return [
    [0, text.head.length],
    [text.chars - text.tail.length, text.chars],
  ]
}

function pieceOf(text: TextValue, start: number, end: number): string | null {
  if (typeof text === 'string') return text.slice(start, end)
  if (end <= text.head.length) return text.head.slice(start, end)
  const tailStart = text.chars - text.tail.length
  return start >= tailStart ? text.tail.slice(start - tailStart, end - tailStart) : null
}

function keepTail(tail: string): string {
  return tail.length > 2 * KEPT_TAIL ? cutTail(tail) : tail
}

function cutTail(text: string): string {
  return text.slice(safeCut(text, text.length - KEPT_TAIL))
}

/** Never between the halves of a surrogate pair. */
function safeCut(text: string, at: number): number {
  return isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at)) ? at + 1 : at
}

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff
