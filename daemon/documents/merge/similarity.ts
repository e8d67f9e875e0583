/** How alike two sources are: what tells an edited cell from another one where the file has no ids. */

/** Tokens that are compared; the rest of a huge cell tells nothing more. */
const MOST_TOKENS = 2_000

/** A source taken apart once, to be compared with many. */
export interface Tokens {
  readonly counts: ReadonlyMap<string, number>
  readonly total: number
}

export function tokensOf(source: string): Tokens {
  const counts = new Map<string, number>()
  let total = 0
  for (const [token] of source.matchAll(/\w+|[^\s\w]/gu)) {
    counts.set(token, (counts.get(token) ?? 0) + 1)
    if (++total === MOST_TOKENS) break
  }
  return { counts, total }
}

/** 0 (nothing in common) to 1 (the same words, in whatever order). Two empty sources are alike. */
export function similarity(a: Tokens, b: Tokens): number {
  if (a.total + b.total === 0) return 1
  const [few, many] = a.counts.size <= b.counts.size ? [a, b] : [b, a]
  let common = 0
  for (const [token, count] of few.counts) common += Math.min(count, many.counts.get(token) ?? 0)
  return (2 * common) / (a.total + b.total)
}
