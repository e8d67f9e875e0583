/**
 * Which cell of a file is which cell of the file before: by id where the file has ids, by content and likeness where it has none
 * or where a program gave all cells new ones.
 *
 * Invariant: each cell is matched with at most one other. Cells that are equal are matched before cells that are only alike.
 */
import { diffIndices } from 'node-diff3'
import { similarity, type Tokens, tokensOf } from './similarity.ts'

export interface AlignedCell {
  readonly cell_type: string
  readonly source: string
}

export interface NewCell extends AlignedCell {
  /** The id that the file itself gives the cell; null: it gives none. */
  readonly own_id: string | null
}

export interface OldCell extends AlignedCell {
  readonly cell_id: string
}

/** Cells less alike than this are different cells. */
const ALIKE = 0.5
/** A lone cell between the same neighbours as before is the same one already when this much of it is left. */
const ALIKE_ALONE = 0.25
/** Pairs beyond this are not compared one by one: a stretch of so many changed cells is taken as replaced, but for equal cells. */
const MOST_PAIRS = 40_000

/** For each cell of `after` the index of its cell in `before`, or -1. */
export function alignCells(before: readonly OldCell[], after: readonly NewCell[]): number[] {
  const matched = new Array<number>(after.length).fill(-1)
  const byId = new Map(before.map((cell, index) => [cell.cell_id, index]))
  const taken = new Set<number>()
  const pair = (old: number, now: number): void => {
    matched[now] = old
    taken.add(old)
  }
  let idsKept = false
  after.forEach((cell, now) => {
    const old = cell.own_id === null ? undefined : byId.get(cell.own_id)
    if (old === undefined || taken.has(old)) return
    idsKept = true
    pair(old, now)
  })
  const oldLeft = before.flatMap((_, index) => (taken.has(index) ? [] : [index]))
  // A cell with an id of its own among others that kept theirs is a new cell, however much it looks like an old one.
  const nowLeft = after.flatMap((cell, index) =>
    matched[index] === -1 && !(idsKept && cell.own_id !== null) ? [index] : [],
  )
  for (const gap of equalRuns(before, after, oldLeft, nowLeft, pair)) alike(before, after, gap, pair)
  moved(before, after, taken, nowLeft, matched, pair)
  return matched
}

interface Gap {
  readonly old: readonly number[]
  readonly now: readonly number[]
}

const keyOf = (cell: AlignedCell | undefined): string => `${cell?.cell_type}\n${cell?.source}`

/** Pairs what is equal in the same order; gives the stretches in between. */
function equalRuns(
  before: readonly OldCell[],
  after: readonly NewCell[],
  old: readonly number[],
  now: readonly number[],
  pair: (old: number, now: number) => void,
): Gap[] {
  const oldKeys = old.map((index) => keyOf(before[index]))
  const nowKeys = now.map((index) => keyOf(after[index]))
  let start = 0
  while (start < oldKeys.length && start < nowKeys.length && oldKeys[start] === nowKeys[start]) start++
  let end = 0
  while (
    end < oldKeys.length - start &&
    end < nowKeys.length - start &&
    oldKeys.at(-1 - end) === nowKeys.at(-1 - end)
  )
    end++
  const link = (i: number, j: number, count: number): void => {
    for (let k = 0; k < count; k++) {
      const from = old[i + k]
      const to = now[j + k]
      if (from !== undefined && to !== undefined) pair(from, to)
    }
  }
  link(0, 0, start)
  link(oldKeys.length - end, nowKeys.length - end, end)
  const gaps: Gap[] = []
  let i = start
  let j = start
  const hunks = diffIndices(
    oldKeys.slice(start, oldKeys.length - end),
    nowKeys.slice(start, nowKeys.length - end),
  )
  for (const { buffer1, buffer2 } of hunks) {
    const [from, removed] = buffer1
    link(i, j, start + from - i)
    i = start + from
    j = start + buffer2[0]
    gaps.push({ old: old.slice(i, i + removed), now: now.slice(j, j + buffer2[1]) })
    i += removed
    j += buffer2[1]
  }
  link(i, j, oldKeys.length - end - i)
  return gaps
}

/**
 * Pairs what is most alike within a stretch, in order (the heaviest common subsequence); then what stands alone between the same
 * neighbours, although less of it is left.
 */
function alike(
  before: readonly OldCell[],
  after: readonly NewCell[],
  { old, now }: Gap,
  pair: (old: number, now: number) => void,
): void {
  if (old.length === 0 || now.length === 0 || old.length * now.length > MOST_PAIRS) return
  const likeness = likenesses(before, after, old, now)
  const width = now.length
  const pairs = heaviest(likeness, old.length, width)
  let i = 0
  let j = 0
  for (const [nextI, nextJ] of [...pairs, [old.length, width] as const]) {
    const alone = nextI - i === 1 && nextJ - j === 1
    if (alone && (likeness[i * width + j] ?? 0) >= ALIKE_ALONE) pair(old[i] ?? -1, now[j] ?? -1)
    if (nextI < old.length) pair(old[nextI] ?? -1, now[nextJ] ?? -1)
    i = nextI + 1
    j = nextJ + 1
  }
}

/** One row for each old cell. */
function likenesses(
  before: readonly OldCell[],
  after: readonly NewCell[],
  old: readonly number[],
  now: readonly number[],
): Float64Array {
  const tokens = (cell: AlignedCell | undefined): Tokens => tokensOf(cell?.source ?? '')
  const oldTokens = old.map((index) => tokens(before[index]))
  const nowTokens = now.map((index) => tokens(after[index]))
  const likeness = new Float64Array(old.length * now.length)
  oldTokens.forEach((a, i) => {
    nowTokens.forEach((b, j) => {
      const sameType = before[old[i] ?? -1]?.cell_type === after[now[j] ?? -1]?.cell_type
      likeness[i * now.length + j] = similarity(a, b) * (sameType ? 1 : 0.7)
    })
  })
  return likeness
}

/** Pairs in order whose likeness is at least ALIKE and in sum the largest. */
function heaviest(likeness: Float64Array, rows: number, width: number): (readonly [number, number])[] {
  const weight = (i: number, j: number): number => {
    const value = likeness[i * width + j] ?? 0
    return value >= ALIKE ? value : 0
  }
  const best = new Float64Array((rows + 1) * (width + 1))
  const at = (i: number, j: number): number => best[i * (width + 1) + j] ?? 0
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = width - 1; j >= 0; j--) {
      const here = weight(i, j)
      const both = here === 0 ? 0 : here + at(i + 1, j + 1)
      best[i * (width + 1) + j] = Math.max(at(i + 1, j), at(i, j + 1), both)
    }
  }
  const pairs: (readonly [number, number])[] = []
  for (let i = 0, j = 0; i < rows && j < width; ) {
    const here = weight(i, j)
    if (here > 0 && at(i, j) === here + at(i + 1, j + 1)) pairs.push([i++, j++])
    else if (at(i, j) === at(i + 1, j)) i++
    else j++
  }
  return pairs
}

/** What is left and equal elsewhere was moved. Empty cells say nothing of where they come from. */
function moved(
  before: readonly OldCell[],
  after: readonly NewCell[],
  taken: ReadonlySet<number>,
  nowLeft: readonly number[],
  matched: readonly number[],
  pair: (old: number, now: number) => void,
): void {
  const places = new Map<string, number[]>()
  before.forEach((cell, index) => {
    if (taken.has(index) || cell.source.trim() === '') return
    const key = keyOf(cell)
    const list = places.get(key)
    if (list) list.push(index)
    else places.set(key, [index])
  })
  for (const now of nowLeft) {
    if (matched[now] !== -1) continue
    const old = places.get(keyOf(after[now]))?.shift()
    if (old !== undefined) pair(old, now)
  }
}
