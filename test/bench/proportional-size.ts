/** Memory of a process as the kernel shares it out: pages that several processes have count for each by its part. Linux only. */
import { readFileSync } from 'node:fs'

export const MIB = 1024 * 1024

/** Bytes (PSS) of a process now. */
export function proportionalSize(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1]) * 1024
}

/** Bytes once the process has given back what it does not need, which it does some seconds after it was busy: the smallest of them. */
export async function settledSize(pid: number, seconds = 20): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < seconds * 2; i++) {
    await new Promise((resolve) => setTimeout(resolve, 500))
    least = Math.min(least, proportionalSize(pid))
  }
  return least
}
