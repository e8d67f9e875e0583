/** Whether a process is at work, as the operating system sees it. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export interface SignOfLife {
  /** Processor time used so far, in whatever unit the system counts. */
  readonly cpu: number
  /** It runs, waits for a processor, or waits for a disk. */
  readonly busy: boolean
}

/** null: it is gone, or this system does not tell. */
export function signOfLife(pid: number): SignOfLife | null {
  switch (process.platform) {
    case 'linux':
      return fromProc(pid)
    case 'win32':
      return null
    default:
      return fromPs(pid)
  }
}

function fromProc(pid: number): SignOfLife | null {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return null
  }
  // The name in parentheses may hold anything; behind it: state, then 10 fields, then user and system time.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = ''] = fields
  return { cpu: Number(fields[11]) + Number(fields[12]), busy: state === 'R' || state === 'D' }
}

/** `ps` says `[[dd-]hh:]mm:ss.ss` and a state whose first letter tells. */
function fromPs(pid: number): SignOfLife | null {
  const { stdout, status } = spawnSync('ps', ['-o', 'time=,state=', '-p', String(pid)], {
    encoding: 'utf8',
    timeout: 1000,
  })
  const found = /^\s*(\S+)\s+(\S)/.exec(stdout ?? '')
  if (status !== 0 || found === null) return null
  const cpu = (found[1] ?? '').split(/[-:]/).reduce((total, part) => total * 60 + Number(part), 0)
  return { cpu, busy: /[RDU]/.test(found[2] ?? '') }
}
