/**
 * Ending what a test started, by process id. Daemons and kernel hosts are detached, so a test's children are not a tree:
 * what belongs to a home is found by `ROOMD_HOME` in its environment and by the descendants of those. Linux reads /proc;
 * elsewhere `ps` gives the tree and the environment is not looked at.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { PATIENCE_MS, until } from './until.ts'

/** Whether a process with this id exists and is no zombie. */
export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  if (process.platform !== 'linux') return true
  return statusOf(pid)?.state !== 'Z'
}

/** Resolves when the process is gone. */
export async function gone(pid: number, timeout = PATIENCE_MS): Promise<void> {
  await until(`process ${pid} to end`, () => !alive(pid), { timeout })
}

/** Sends a signal; a process that is gone already is no error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  // 0 and below mean whole groups, our own among them.
  if (!(pid > 0)) throw new Error(`there is no process ${pid} to send ${name} to`)
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** All living descendants of the process, itself not included. */
export function descendants(pid: number): number[] {
  return below([pid])
}

/** All living descendants of the processes, by one look at the whole machine. */
function below(roots: readonly number[]): number[] {
  const children = new Map<number, number[]>()
  for (const [id, parent] of parents()) {
    const known = children.get(parent)
    if (known) known.push(id)
    else children.set(parent, [id])
  }
  const found: number[] = []
  const visit = (id: number) => {
    for (const child of children.get(id) ?? []) {
      found.push(child)
      visit(child)
    }
  }
  for (const root of roots) visit(root)
  return found
}

/** Living processes that carry `ROOMD_HOME=<home>`, and their descendants. Never this process. */
export function processesOf(home: string): number[] {
  const own = new Set<number>()
  if (process.platform === 'linux') {
    for (const pid of pids()) {
      if (pid === process.pid) continue
      const environment = readProc(pid, 'environ')
      if (environment?.split('\0').includes(`ROOMD_HOME=${home}`) && alive(pid)) own.add(pid)
    }
  }
  if (own.size > 0) for (const child of below([...own])) own.add(child)
  own.delete(process.pid)
  return [...own]
}

/** Kills everything that belongs to the home, until nothing is left. */
export async function endProcessesOf(home: string): Promise<void> {
  await until(
    `all processes of ${home} to end`,
    () => {
      const left = processesOf(home)
      for (const pid of left) signal(pid, 'SIGKILL')
      return left.length === 0
    },
    { every: 30 },
  )
}

/** Kills the process and its descendants. */
export async function endTree(pid: number): Promise<void> {
  const tree = [pid, ...descendants(pid)]
  for (const id of tree) signal(id, 'SIGKILL')
  for (const id of tree) await gone(id)
}

function pids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

function parents(): Array<[pid: number, parent: number]> {
  if (process.platform === 'linux') {
    return pids().flatMap((pid): Array<[number, number]> => {
      const status = statusOf(pid)
      return status && status.state !== 'Z' ? [[pid, status.parent]] : []
    })
  }
  return execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(
      ([pid, parent]): Array<[number, number]> =>
        pid !== undefined && parent !== undefined ? [[pid, parent]] : [],
    )
}

function statusOf(pid: number): { state: string; parent: number } | undefined {
  const text = readProc(pid, 'stat')
  if (text === undefined) return undefined
  // The name in parentheses may hold spaces and parentheses; the fields start behind the last one.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0] ?? '?', parent: Number(fields[1]) }
}

/** undefined: the process ended meanwhile, or is not ours to read. */
function readProc(pid: number, name: 'stat' | 'environ'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return undefined
  }
}
