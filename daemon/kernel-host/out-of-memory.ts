/**
 * Whether a SIGKILL was the system's answer to a lack of memory. The cgroup counts such kills; a count that rose since this host
 * started says that it happened within our cgroup, which holds little but this kernel.
 */
import { readFileSync } from 'node:fs'

/** Kills so far, or null where the system does not tell. */
export function readOomKills(): number | null {
  if (process.platform !== 'linux') return null
  try {
    const group = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
    if (group === undefined) return null
    const events = readFileSync(`/sys/fs/cgroup${group}/memory.events`, 'utf8')
    const count = /^oom_kill (\d+)$/m.exec(events)?.[1]
    return count === undefined ? null : Number(count)
  } catch {
    // No cgroup v2, or no memory controller in this group: then nobody counts.
    return null
  }
}

export function outOfMemory(before: number | null): boolean {
  const now = readOomKills()
  return before !== null && now !== null && now > before
}
