/**
 * Bringing a session back in the background: which one, and how it ended. Yields to whatever the user asks for meanwhile. A room that
 * is gone and a saved path that no longer exists are not tried again; a path never falls back to an id. At most one is under way: the
 * newest.
 */
import { existsSync } from 'node:fs'
import type { Clock } from '../../../protocol/clock.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import { type DropReason, reasonOf } from './drop.ts'
import type { Target } from './target.ts'

export type RejoinOutcome<S> =
  | { readonly outcome: 'succeeded'; readonly session: S }
  | { readonly outcome: 'failed'; readonly reason: string }
  /** Somebody asked for something else meanwhile. */
  | { readonly outcome: 'none' }

export interface RejoiningHooks<S> {
  readonly clock: Clock
  /** Advanced by everything the user asks for: a rejoin of before is over then. */
  epoch(): number
  /** Resolves when the target's daemon can be asked, however long that takes. */
  reachable(target: Target): Promise<unknown>
  /** Attaches and installs; null: something else is there or under way. */
  attempt(target: Target): Promise<S | null>
  failed(target: Target, reason: DropReason, message: string): void
}

const ATTEMPTS = 4
/** Milliseconds between two attempts. */
const PAUSE = 1_000

export class Rejoining<S> {
  readonly #hooks: RejoiningHooks<S>
  #present: { readonly target: Target; readonly done: Promise<RejoinOutcome<S>> } | null = null

  constructor(hooks: RejoiningHooks<S>) {
    this.#hooks = hooks
  }

  /** What is being rejoined now. */
  get target(): Target | null {
    return this.#present?.target ?? null
  }

  /** The end of the one that is under way. */
  get done(): Promise<RejoinOutcome<S>> | null {
    return this.#present?.done ?? null
  }

  start(target: Target): Promise<RejoinOutcome<S>> {
    const done = this.#run(target).finally(() => {
      if (this.#present?.done === done) this.#present = null
    })
    this.#present = { target, done }
    return done
  }

  /** Forgets the one that is under way; the intent that called it off has advanced the epoch. */
  callOff(): void {
    this.#present = null
  }

  async #run(target: Target): Promise<RejoinOutcome<S>> {
    const { clock, epoch, reachable, attempt, failed } = this.#hooks
    const begun = epoch()
    // Yields first, so that the caller has noted that this is under way.
    await Promise.resolve()
    await reachable(target)
    for (let count = 1; ; count++) {
      if (epoch() !== begun) return { outcome: 'none' }
      if (target.kind === 'path' && !existsSync(target.path)) {
        const reason = `there is no file ${target.path} any more`
        failed(target, 'evicted', reason)
        return { outcome: 'failed', reason }
      }
      try {
        const session = await attempt(target)
        return session ? { outcome: 'succeeded', session } : { outcome: 'none' }
      } catch (error) {
        if (!(error instanceof RoomdError)) throw error
        if (epoch() !== begun) return { outcome: 'none' }
        if (!error.retryable || count === ATTEMPTS) {
          failed(target, reasonOf(error), error.message)
          return { outcome: 'failed', reason: error.message }
        }
      }
      await new Promise<void>((resolve) => clock.after(PAUSE, resolve))
    }
  }
}
