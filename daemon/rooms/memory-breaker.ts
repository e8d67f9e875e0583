/**
 * Keeps a room from starting kernels that run out of memory again and again: three within 300 seconds, and no other is started
 * before a person says so. Durable with the room: a daemon that starts anew does not begin the loop again. What happened is kept
 * as plain text in the room's row, and pure functions say what it means.
 */
import { z } from 'zod'
import { RoomdError } from '../../protocol/errors.ts'
import { lazily } from '../../protocol/lazily.ts'

export const BREAKER_DEATHS = 3
export const BREAKER_WINDOW_MS = 300_000

export const MemoryDeaths = lazily(() =>
  z.object({
    /** Epoch ms of the newest deaths, at most BREAKER_DEATHS. */
    at: z.array(z.number()),
    /** Set when it tripped; stays until it is reset. */
    tripped: z.boolean(),
    /** What the last one was, in words. */
    last: z.string(),
  }),
)
export type MemoryDeaths = z.output<typeof MemoryDeaths>

/** With one death more. `what`: that death in words. */
export function withDeath(before: MemoryDeaths | null, at: number, what: string): MemoryDeaths {
  const all = [...(before?.at ?? []), at].slice(-BREAKER_DEATHS)
  const first = all[0] ?? at
  const tripped = all.length === BREAKER_DEATHS && at - first <= BREAKER_WINDOW_MS
  return { at: all, tripped: tripped || (before?.tripped ?? false), last: what }
}

/** Why no kernel is started, and what does start one. */
export function breakerOpen(deaths: MemoryDeaths): RoomdError {
  const seconds = BREAKER_WINDOW_MS / 1000
  return new RoomdError(
    'kernel_start_failed',
    `kernels of this notebook ran out of memory ${BREAKER_DEATHS} times within ${seconds} s, so no other is started by itself (the last: ${deaths.last}). Make the cell need less; then a person starts a kernel again: "roomd restart-kernel ROOM --reset", or restart_kernel with reset: true`,
    {
      retryable: false,
      cause: { breaker: 'out_of_memory', deaths: deaths.at, window_s: seconds },
      next: { tool: 'restart_kernel', arguments: { reset: true } },
    },
  )
}
