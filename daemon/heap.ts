/**
 * How long the garbage collector stops a thread. A collection of V8's young space copies what survives in it; while a large document is
 * built everything survives, the space grows to 16 MB, and each collection of it takes longer than other rooms should wait. A space
 * that stays small is collected more often, a few milliseconds each time, and costs no more in sum.
 *
 * Flags of V8 are the process's, and are read when a space grows: threads that work meanwhile are kept from growing theirs too.
 */
import { setFlagsFromString } from 'node:v8'

/** V8's own. */
const GROWTH_FACTOR = 2
let holders = 0

/** Keeps young spaces as large as they are until the returned function is called. */
export function keepPausesShort(): () => void {
  if (holders++ === 0) setFlagsFromString('--semi-space-growth-factor=1')
  let held = true
  return () => {
    if (!held) return
    held = false
    if (--holders === 0) setFlagsFromString(`--semi-space-growth-factor=${GROWTH_FACTOR}`)
  }
}
