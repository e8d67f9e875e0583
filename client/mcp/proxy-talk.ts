/**
 * What a child and its proxy say to each other beside the client's own traffic. In `_meta` of each tool call: `roomd/mutation`, the
 * base of the call's mutation ids, and `roomd/settled`, below which no id will be used again. From the child: how its rejoin went,
 * and that it makes room for a new version. Without a proxy nothing of this happens.
 */
import type { Readiness } from '../../protocol/notebook.ts'

export type ChildNews =
  | {
      readonly kind: 'rejoin'
      readonly outcome: 'succeeded' | 'failed' | 'none'
      readonly target?: string
      readonly readiness?: Readiness
      readonly reason?: string
    }
  | { readonly kind: 'handoff'; readonly target: string | null }

export const CHILD_NEWS = 'notifications/roomd/child'

export class ProxyTalk {
  #settled: number | null = null

  /** The base of a call's mutation ids; notes what is settled. */
  mutationBase(meta: Readonly<Record<string, unknown>>): number | undefined {
    const settled = meta['roomd/settled']
    if (isId(settled)) this.#settled = Math.max(this.#settled ?? 0, settled)
    const base = meta['roomd/mutation']
    return isId(base) ? base : undefined
  }

  /** For the SDK: the lowest id that may still be sent again. Until the proxy has said, that is any. */
  settledBelow(): number {
    return this.#settled ?? 0
  }
}

function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
}
