/** Waiting within a time, by the clock that tests drive. */
import type { Clock } from '../../../protocol/clock.ts'

/** What `work` resolves with, or null when it takes longer than `ms`; rejects as it does within that time. */
export async function unlessLate<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | null> {
  let stop = (): void => {}
  const late = new Promise<null>((resolve) => {
    stop = clock.after(Math.max(0, ms), () => resolve(null))
  })
  try {
    return await Promise.race([work, late])
  } finally {
    stop()
    // Should it fail later, nobody asks any more.
    work.catch(() => {})
  }
}
