/**
 * How long a child that was started is waited for. A machine that is busy starts it slowly, which is no fault of the child: as long as
 * it is at work it gets more time. One that does nothing and does not answer is deaf; one that works and never answers is broken, but
 * that takes long to tell.
 */
import type { Clock } from '../../protocol/clock.ts'
import type { SignOfLife } from './signs-of-life.ts'

/** For a child that does nothing. Five of them fit into the crash budget's window, so they end in a pause. */
export const DEAF_BOUND = 6_000
/** For one that is at work, or of which that cannot be known. */
export const SLOW_BOUND = 60_000
const LOOK_EVERY = 2_000
/** Looks in a row that find it idle. */
const IDLE_LOOKS = 2

export interface PatienceOptions {
  readonly clock: Clock
  readonly look: () => SignOfLife | null
  /** Called once, with what is wrong. */
  readonly over: (reason: string) => void
}

/** Begins to wait; the returned function ends it. */
export function waitPatiently({ clock, look, over }: PatienceOptions): () => void {
  const begun = clock.now()
  let cpu = 0
  let idle = 0
  let cancel = (): void => {}
  const again = (): void => {
    cancel = clock.after(LOOK_EVERY, () => {
      const waited = clock.now() - begun
      const sign = look()
      const works = sign === null || sign.busy || sign.cpu > cpu
      cpu = sign?.cpu ?? cpu
      idle = works ? 0 : idle + 1
      const seconds = Math.round(waited / 1000)
      if (waited >= SLOW_BOUND) over(`did not answer initialize within ${seconds} s`)
      else if (waited >= DEAF_BOUND && idle >= IDLE_LOOKS)
        over(`did not answer initialize within ${seconds} s, and did nothing`)
      else again()
    })
  }
  again()
  return () => cancel()
}
