/**
 * When the process has to end: the client closed stdin, nobody reads stdout, the parent is another process than before, or a
 * signal says so.
 */
import type { Readable, Writable } from 'node:stream'

const LOOK_EVERY = 1_000

/** Resolves with why, once. `dispose` stops watching. */
export function lifetime(stdin: Readable, stdout: Writable): { ended: Promise<string>; dispose: () => void } {
  const stops: Array<() => void> = []
  const ended = new Promise<string>((resolve) => {
    const on = (stream: Readable | Writable, event: string, why: string): void => {
      const listener = (): void => resolve(why)
      stream.on(event, listener)
      stops.push(() => stream.off(event, listener))
    }
    on(stdin, 'end', 'stdin ended')
    on(stdin, 'close', 'stdin was closed')
    on(stdin, 'error', 'stdin failed')
    on(stdout, 'error', 'nobody reads stdout')
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      const listener = (): void => resolve(signal)
      process.on(signal, listener)
      stops.push(() => process.off(signal, listener))
    }
    const parent = process.ppid
    const timer = setInterval(() => {
      if (process.ppid !== parent) resolve('the parent process is gone')
    }, LOOK_EVERY)
    stops.push(() => clearInterval(timer))
  })
  return {
    ended,
    dispose: () => {
      for (const stop of stops) stop()
    },
  }
}
