/**
 * Which process is meant: a pid alone may have been given to another process since, so a process is named by pid and start
 * time. Nothing here signals a process whose start time is not the one that was recorded.
 *
 * Race: between the check and the signal the process may end and its pid be reused. For that the system would have to go
 * through all pids within microseconds; nothing short of pidfd closes it, and Node has none.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export interface ProcessIdentity {
  readonly pid: number
  /** Linux: clock ticks since boot; else epoch ms; null: not known, then the pid alone counts. */
  readonly started: number | null
}

export interface ProcessRow {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  readonly started: number | null
  /** One letter: R, S, D, T (stopped), Z (zombie), X (dead) … */
  readonly state: string
}

/** What the system knows of a process; undefined when there is none. Zombies are rows. */
export function processRow(pid: number): ProcessRow | undefined {
  if (process.platform === 'linux') {
    try {
      return parseStat(pid, readFileSync(`/proc/${pid}/stat`, 'latin1'))
    } catch {
      // Gone, or going away while we read: both mean that there is no such process.
      return undefined
    }
  }
  if (process.platform === 'win32') return bareRow(pid)
  return listed(['-o', `${PS_COLUMNS}`, '-p', String(pid)])[0]
}

function parseStat(pid: number, text: string): ProcessRow {
  // The command's name stands in parentheses and may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return {
    pid,
    state: fields[0] ?? '?',
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    started: Number(fields[19]),
  }
}

const PS_COLUMNS = 'pid=,ppid=,pgid=,stat=,lstart='

/** Rows of `ps` (macOS, BSD), which shows no usable session id: the group stands for it. */
export function listed(args: readonly string[]): ProcessRow[] {
  let text: string
  try {
    text = execFileSync('ps', args, { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' } })
  } catch {
    // ps ends with 1 when no process matches.
    return []
  }
  return text
    .split('\n')
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+)$/.exec(line))
    .filter((match) => match !== null)
    .map((match) => ({
      pid: Number(match[1]),
      parent: Number(match[2]),
      group: Number(match[3]),
      session: Number(match[3]),
      state: match[4]?.[0] ?? '?',
      started: Date.parse(match[5] ?? '') || null,
    }))
}

export const PS_ALL = ['-axo', PS_COLUMNS]

function bareRow(pid: number): ProcessRow | undefined {
  try {
    process.kill(pid, 0)
  } catch {
    return undefined
  }
  return { pid, parent: 0, group: pid, session: pid, started: null, state: 'S' }
}

export function identify(pid: number): ProcessIdentity {
  return { pid, started: processRow(pid)?.started ?? null }
}

/** True while this very process runs; a zombie does not. */
export function isAlive(identity: ProcessIdentity): boolean {
  const row = processRow(identity.pid)
  if (row === undefined || row.state === 'Z' || row.state === 'X') return false
  return identity.started === null || row.started === null || row.started === identity.started
}

/** Signals this very process. false: it is gone (or its pid is another's now) and nothing was signalled. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false
  return kill(identity.pid, signal)
}

/** `kill(2)`; false when there is no such process. A negative pid means the group. */
export function kill(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Whether a process carries this `NAME=value` in the environment it was started with. false where it cannot be told. */
export function carries(pid: number, variable: string): boolean {
  if (process.platform !== 'linux') return false
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(variable)
  } catch {
    // Gone, or another user's.
    return false
  }
}

/** Names this boot of the machine: pids and start times of another boot mean nothing. */
export function machineBoot(): string {
  if (process.platform === 'linux') return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  if (process.platform === 'win32') return 'windows'
  return execFileSync('sysctl', ['-n', 'kern.boottime'], { encoding: 'utf8' }).trim()
}

/** The most resident memory the process ever had, in bytes; null where it cannot be told. */
export function peakMemory(pid: number): number | null {
  if (process.platform !== 'linux') return null
  try {
    const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return peak === undefined ? null : Number(peak) * 1024
  } catch {
    // The process has just ended.
    return null
  }
}

/** Resident bytes; null where it cannot be told. */
export function residentMemory(pid: number): number | null {
  if (process.platform !== 'linux') return null
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]) * 4096
  } catch {
    // The process has just ended.
    return null
  }
}
