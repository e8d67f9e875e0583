/**
 * A process named so that a reused pid is not taken for it: its id and start time. Linux reads /proc; elsewhere `ps` tells the
 * start time to the second.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export interface ProcessIdentity {
  readonly pid: number
  /** In the platform's own form; only compared. */
  readonly startTime: string
}

/** null: no such process, or a zombie. */
export function identify(pid: number): ProcessIdentity | null {
  if (process.platform === 'linux') {
    const fields = statFields(pid)
    return fields === null || fields.state === 'Z' ? null : { pid, startTime: fields.startTime }
  }
  try {
    const said = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
    return said === '' ? null : { pid, startTime: said }
  } catch {
    // `ps` ends with 1 for a pid that does not exist.
    return null
  }
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime
}

/** Whether the process was stopped by a signal (SIGSTOP, Ctrl-Z). false where the platform does not tell. */
export function isStopped(pid: number): boolean {
  if (process.platform !== 'linux') return false
  const state = statFields(pid)?.state
  return state === 'T' || state === 't'
}

function statFields(pid: number): { state: string; startTime: string } | null {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return null
  }
  // The name in parentheses may hold anything; the fields start behind the last one. Start time is field 22.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0] ?? '?', startTime: fields[19] ?? '?' }
}
