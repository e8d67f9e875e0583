/** Waiting on conditions with a deadline, so that tests need no sleeps and say what they were waiting for when they fail. */

/** Milliseconds that a wait has. Only a bound for a broken run, far above what a slow and busy machine needs: no test asserts a time. */
export const PATIENCE_MS = 40_000

export interface UntilOptions {
  /** Milliseconds until it gives up; PATIENCE_MS unless told otherwise. */
  readonly timeout?: number
  /** Milliseconds between two looks. */
  readonly every?: number
  /** Added to the error; called only then. */
  readonly detail?: () => string
}

/**
 * Asks `condition` until it gives something other than undefined, null or false, and resolves with that. A condition that
 * throws is asked again; its last error becomes the cause of the failure.
 */
export async function until<T>(
  what: string,
  condition: () => T | undefined | null | false | Promise<T | undefined | null | false>,
  options: UntilOptions = {},
): Promise<T> {
  const { timeout = PATIENCE_MS, every = 15 } = options
  const end = Date.now() + timeout
  let thrown: unknown
  for (;;) {
    try {
      const value = await condition()
      if (value !== undefined && value !== null && value !== false) return value
      thrown = undefined
    } catch (error) {
      thrown = error
    }
    if (Date.now() >= end) {
      const detail = options.detail ? `\n${options.detail()}` : ''
      throw new Error(`waited ${timeout} ms for: ${what}${detail}`, { cause: thrown })
    }
    await new Promise((resolve) => setTimeout(resolve, every))
  }
}

/** `promise`, or an error that names what was awaited after `timeout` ms. Leaves no timer behind. */
export async function within<T>(what: string, promise: Promise<T>, timeout = PATIENCE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${timeout} ms for: ${what}`)), timeout)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
