/** Time as a dependency, so that tests drive it. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number
  /** Runs `task` once after `ms`; the returned function cancels it. Never keeps a process alive by itself. */
  after(ms: number, task: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms)
    // Browsers return a number; in Node a pending timer must not hold the process.
    if (typeof timer === 'object' && 'unref' in timer) timer.unref()
    return () => clearTimeout(timer)
  },
}
