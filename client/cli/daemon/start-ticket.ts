/**
 * Keeps a crowd of starters from starting a crowd of daemons: who holds the ticket starts one, the others wait for it to answer. Only
 * an economy: the daemon's lock decides who lives, so the races left here (two who find the same stale ticket) cost one more
 * process that ends by itself.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Places } from '../../../protocol/places.ts'
import { identify, isAlive } from './process-identity.ts'

export interface StartTicket {
  release(): void
}

/** null: another living process is starting a daemon. */
export function takeStartTicket(places: Places): StartTicket | null {
  const file = join(places.state, 'starting')
  const own = JSON.stringify(identify(process.pid))
  mkdirSync(places.state, { recursive: true, mode: 0o700 })
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      writeFileSync(file, own, { flag: 'wx', mode: 0o600 })
      return {
        release() {
          if (readTicket(file) === own) rmSync(file, { force: true })
        },
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (holderLives(readTicket(file))) return null
    // Its holder died, or was cut off while writing.
    rmSync(file, { force: true })
  }
  return null
}

function holderLives(ticket: string | null): boolean {
  if (ticket === null) return false
  try {
    const { pid, startTime } = JSON.parse(ticket) as { pid: number; startTime: string }
    return isAlive({ pid, startTime })
  } catch {
    // Empty or half-written: the holder is between creating and writing it, for a moment.
    return false
  }
}

function readTicket(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
