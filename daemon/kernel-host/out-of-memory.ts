/**
 * Whether a SIGKILL was the system's answer to a lack of memory. The memory controller counts such kills in the group of the process
 * that was killed; where there is no controller, the system counts them for all. A count that rose since we looked last, together with
 * the kernel's own SIGKILL, says so. Looked at often, so that a kill of long ago is not taken for this one.
 */
import { readFileSync } from 'node:fs'

/** Counter's file → kills so far. Empty where nobody counts. */
export type OomKills = ReadonlyMap<string, number>

/** The counters that a kill of this process would raise. `root`: of the file system. */
export function readOomKills(pid: number, root = ''): OomKills {
  if (process.platform !== 'linux') return new Map()
  const groups = readText(`${root}/proc/${pid}/cgroup`) ?? ''
  const own = countsOf(counters(groups, root))
  return own.size > 0 ? own : countsOf([`${root}/proc/vmstat`])
}

/** A counter has risen since. Asks the same files again: the process need not be there any more. */
export function oomKillsRose(since: OomKills): boolean {
  const now = countsOf([...since.keys()])
  for (const [file, count] of since) if ((now.get(file) ?? count) > count) return true
  return false
}

function countsOf(files: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const file of files) {
    const count = /^oom_kill (\d+)$/m.exec(readText(file) ?? '')?.[1]
    if (count !== undefined) counts.set(file, Number(count))
  }
  return counts
}

/** Version 2 has one group a process, version 1 one for each controller. */
function counters(groups: string, root: string): string[] {
  const files: string[] = []
  for (const line of groups.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (controllers === undefined || path === undefined) continue
    if (controllers === '') files.push(`${root}/sys/fs/cgroup${path}/memory.events`)
    else if (controllers.split(',').includes('memory'))
      files.push(`${root}/sys/fs/cgroup/memory${path}/memory.oom_control`)
  }
  return files
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // No such group, no controller, or the process is gone: nobody counts there.
    return null
  }
}
