/**
 * The news of a restart until the first tool result has carried it. Owns who carries it: taking the banner is one synchronous step,
 * so that of parallel calls exactly one does. What happens before it was taken is added to it.
 */
import type { Clock } from '../../protocol/clock.ts'
import { banner, type Rejoin, type Restarted } from './banner.ts'
import { isObject, type JsonObject } from './jsonrpc.ts'

/** How long after a restart a result waits to say how the rejoin went. */
export const REJOIN_WAIT = 1000

export class Announcement {
  readonly #clock: Clock
  #news: Restarted | null = null
  #rejoin: Rejoin = { outcome: 'none' }
  #waiters: Array<() => void> = []
  /** Until when waiting for the rejoin is worth it. */
  #deadline = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get rejoin(): Rejoin {
    return this.#rejoin
  }

  /** A child starts that was told to rejoin `target`. */
  starting(target: string | null): void {
    this.#rejoin = target === null ? { outcome: 'none' } : { outcome: 'pending', target }
  }

  /** A new child took the place of another. */
  restarted(news: Restarted): void {
    this.#deadline = this.#clock.now() + REJOIN_WAIT
    this.#news = this.#news === null ? news : joined(this.#news, news)
  }

  /** Who took the news could not tell it. */
  giveBack(news: Restarted): void {
    this.#news = this.#news === null ? news : joined(news, this.#news)
  }

  /** The new child's list lacks tools. */
  toolsGone(names: readonly string[]): void {
    if (this.#news !== null) this.#news = { ...this.#news, toolsGone: names }
  }

  /** The child told how its rejoin went. */
  settle(rejoin: Rejoin): void {
    this.#rejoin = rejoin
    const waiters = this.#waiters
    this.#waiters = []
    for (const resume of waiters) resume()
  }

  /** Takes the news: from now on nobody else tells it. */
  take(): Restarted | null {
    const news = this.#news
    this.#news = null
    return news
  }

  /** Resolves when the rejoin's outcome is known, at the latest REJOIN_WAIT after the restart. */
  known(): Promise<void> {
    const ms = this.#deadline - this.#clock.now()
    if (this.#rejoin.outcome !== 'pending' || ms <= 0) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, resolve)
      this.#waiters.push(() => {
        cancel()
        resolve()
      })
    })
  }

  /** The result with the banner before its other blocks. */
  prepend(result: JsonObject, news: Restarted): JsonObject {
    const content = Array.isArray(result.content) ? result.content : []
    return { ...result, content: [{ type: 'text', text: banner(news, this.#rejoin) }, ...content] }
  }
}

function joined(first: Restarted, second: Restarted): Restarted {
  return {
    ends: [...first.ends, ...second.ends],
    before: first.before,
    after: second.after,
    parked: [...first.parked, ...second.parked],
    toolsGone: second.toolsGone,
  }
}

/** The child's `{kind: "rejoin", outcome, target?, readiness?, reason?}`; null when it says nothing that is known here. */
export function parseRejoin(params: JsonObject, expected: string | null): Rejoin | null {
  const target = typeof params.target === 'string' ? params.target : (expected ?? '')
  switch (params.outcome) {
    case 'succeeded':
      return { outcome: 'succeeded', target, readiness: isObject(params.readiness) ? params.readiness : null }
    case 'failed': {
      const reason = typeof params.reason === 'string' ? params.reason : 'the child did not say why'
      return { outcome: 'failed', target, reason }
    }
    case 'none':
      return { outcome: 'none' }
    default:
      return null
  }
}
