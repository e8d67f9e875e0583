/**
 * The claim file of the reference's writers: who has made `<file>.caslock` may replace the file. Tried every 5 ms; a claim that is
 * older than 30 s is of a dead writer and is taken over. Blocks its thread, which is the ledger's own.
 */
import { closeSync, openSync, rmSync, statSync } from 'node:fs'

const EVERY_MS = 5
const STALE_MS = 30_000

export class ClaimTimeout extends Error {
  constructor(file: string, ms: number) {
    super(`another program holds ${file}.caslock for more than ${ms} ms; ${file} was not replaced`)
    this.name = 'ClaimTimeout'
  }
}

/** Runs `replace` under the claim. Throws ClaimTimeout when it is not to be had within `waitMs`; then nothing was done. */
export function withClaim(file: string, waitMs: number, replace: () => void): void {
  const claim = `${file}.caslock`
  const end = Date.now() + waitMs
  while (!tryClaim(claim)) {
    if (Date.now() >= end) throw new ClaimTimeout(file, waitMs)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, EVERY_MS)
  }
  try {
    replace()
  } finally {
    rmSync(claim, { force: true })
  }
}

function tryClaim(claim: string): boolean {
  try {
    closeSync(openSync(claim, 'wx', 0o600))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    const age = Date.now() - (statSync(claim, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    if (age > STALE_MS) rmSync(claim, { force: true })
    return false
  }
}
