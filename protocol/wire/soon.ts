/**
 * When a writer that gathers writes: not at the first value, but once everything that is ready to go on in this turn has gone on. An
 * answer comes several promises behind the events that belong to it, and a write of its own for each would wake the other side twice.
 */
const settled = Promise.resolve()

/** Node's; browsers and workers of theirs have none. */
const nextTick = (globalThis as { process?: { nextTick?: (run: () => void) => void } }).process?.nextTick

/**
 * Runs `run` soon, before the event loop goes on. In Node behind all promises that are settled by then, and those that they settle; elsewhere
 * behind those that are settled now. Costs less than `queueMicrotask`, which makes a resource for async hooks each time.
 */
export const soon: (run: () => void) => void = nextTick
  ? (run) => {
      // From a callback of the loop a tick would come before the promises; from a promise it comes behind all of them.
      settled.then(() => nextTick(run))
    }
  : (run) => {
      settled.then(run)
    }
