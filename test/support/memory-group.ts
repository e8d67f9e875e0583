/** A control group with little memory, for tests in which the system ends a process that wants more. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { until } from './until.ts'

export interface MemoryGroup {
  /** Moves the process in; what it starts from now on is in too. */
  add(pid: number): void
}

/** Until the test is over; null where it is not allowed (it needs Linux and root) or there is no memory controller. */
export function memoryGroup(megabytes: number): MemoryGroup | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const first = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes')
  const root = first ? '/sys/fs/cgroup/memory' : '/sys/fs/cgroup'
  const path = join(root, `roomd-test-${process.pid}-${Date.now()}`)
  try {
    if (!first && !readFileSync(join(root, 'cgroup.subtree_control'), 'utf8').includes('memory')) return null
    mkdirSync(path)
    writeFileSync(join(path, first ? 'memory.limit_in_bytes' : 'memory.max'), `${megabytes * 2 ** 20}`)
  } catch {
    // Not ours to make: a container that may not.
    return null
  }
  onTestFinished(async () => {
    await until('the group to be empty', () => {
      rmdirSync(path)
      return true
    })
  })
  return { add: (pid) => writeFileSync(join(path, 'cgroup.procs'), `${pid}`) }
}
