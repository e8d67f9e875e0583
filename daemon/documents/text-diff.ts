/**
 * The smallest useful difference of two texts, so that an edit that replaces a whole source leaves alone what did not change:
 * whoever types on another line keeps cursor and words. Common ends are cut off, then lines are compared, then each changed
 * run of lines is cut again. Offsets are UTF-16 units that never part a surrogate pair.
 */
import type { TextDelta } from '../../protocol/events.ts'

/** Differing lines beyond this cost more to compare than they are worth; then the whole span is replaced. */
const MOST_EDITS = 400

interface Span {
  /** Of the old text. */
  readonly from: number
  readonly to: number
  readonly insert: string
}

/** Delta that turns `before` into `after`; empty when they are equal. */
export function diffText(before: string, after: string): TextDelta {
  const delta: TextDelta = []
  let at = 0
  for (const span of spans(before, after)) {
    if (span.from > at) delta.push({ retain: span.from - at })
    if (span.insert !== '') delta.push({ insert: span.insert })
    if (span.to > span.from) delta.push({ delete: span.to - span.from })
    at = span.to
  }
  return delta
}

function spans(before: string, after: string): Span[] {
  const outer = trim(before, after, 0)
  if (outer === null) return []
  const removed = before.slice(outer.from, outer.to)
  const oldLines = lines(removed)
  const newLines = lines(outer.insert)
  if (oldLines.length < 2 || newLines.length < 2) return [outer]
  const hunks = diffLines(oldLines, newLines)
  if (hunks === null) return [outer]
  const found: Span[] = []
  for (const hunk of hunks) {
    const span = trim(hunk.removed, hunk.inserted, outer.from + hunk.at)
    if (span) found.push(span)
  }
  return found
}

/** The one differing span between common start and common end, or null. */
function trim(before: string, after: string, offset: number): Span | null {
  if (before === after) return null
  const shorter = Math.min(before.length, after.length)
  let start = 0
  while (start < shorter && before.charCodeAt(start) === after.charCodeAt(start)) start++
  if (partsPair(before, start) || partsPair(after, start)) start--
  let end = 0
  while (
    end < shorter - start &&
    before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)
  )
    end++
  if (partsPair(before, before.length - end) || partsPair(after, after.length - end)) end--
  return {
    from: offset + start,
    to: offset + before.length - end,
    insert: after.slice(start, after.length - end),
  }
}

/** Whether a cut at `index` would part a surrogate pair. */
function partsPair(text: string, index: number): boolean {
  if (index <= 0 || index >= text.length) return false
  return (text.charCodeAt(index - 1) & 0xfc00) === 0xd800 && (text.charCodeAt(index) & 0xfc00) === 0xdc00
}

/** Lines with their ends. */
function lines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+/g) ?? []
}

interface Hunk {
  /** Offset in the old text. */
  readonly at: number
  removed: string
  inserted: string
}

/** Myers' greedy comparison, forward. null: more than MOST_EDITS lines differ. */
function diffLines(before: readonly string[], after: readonly string[]): Hunk[] | null {
  const most = Math.min(before.length + after.length, MOST_EDITS)
  const reach = new Map<number, number>([[1, 0]])
  const trace: Map<number, number>[] = []
  for (let edits = 0; edits <= most; edits++) {
    trace.push(new Map(reach))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = down(reach, diagonal, edits)
        ? (reach.get(diagonal + 1) ?? 0)
        : (reach.get(diagonal - 1) ?? 0) + 1
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x++
      reach.set(diagonal, x)
      if (x >= before.length && x - diagonal >= after.length) return hunksOf(before, after, trace)
    }
  }
  return null
}

function down(reach: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true
  return diagonal !== edits && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1)
}

function hunksOf(
  before: readonly string[],
  after: readonly string[],
  trace: readonly Map<number, number>[],
): Hunk[] {
  const removed = new Set<number>()
  const inserted = new Set<number>()
  let x = before.length
  let y = after.length
  for (let edits = trace.length - 1; edits > 0; edits--) {
    const reach = trace[edits] ?? new Map<number, number>()
    const diagonal = x - y
    const isDown = down(reach, diagonal, edits)
    const previous = isDown ? diagonal + 1 : diagonal - 1
    const previousX = reach.get(previous) ?? 0
    const previousY = previousX - previous
    if (isDown) inserted.add(previousY)
    else removed.add(previousX)
    x = previousX
    y = previousY
  }
  const hunks: Hunk[] = []
  let open: Hunk | null = null
  let offset = 0
  let i = 0
  let j = 0
  while (i < before.length || j < after.length) {
    const goes = removed.has(i) && i < before.length
    const comes = inserted.has(j) && j < after.length
    if (!goes && !comes) {
      open = null
      offset += before[i]?.length ?? 0
      i++
      j++
      continue
    }
    if (open === null) {
      open = { at: offset, removed: '', inserted: '' }
      hunks.push(open)
    }
    if (goes) {
      open.removed += before[i]
      offset += before[i]?.length ?? 0
      i++
    } else {
      open.inserted += after[j]
      j++
    }
  }
  return hunks
}
