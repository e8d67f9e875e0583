/** A kernel's death in words. */
import { RoomdError } from '../../protocol/errors.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'

export type Died = Extract<HostEvent, { kind: 'died' }>

export function describeDeath(event: Died): string {
  if (event.reason !== undefined) return event.reason
  if (event.signal !== null)
    return event.out_of_memory === true ? 'out of memory (SIGKILL)' : `signal ${event.signal}`
  return event.code === null ? 'exit code unknown' : `exit code ${event.code}`
}

/** `kernel_start_failed` with the last lines of the kernel's stderr. */
export function startFailed(name: string, event: Died): RoomdError {
  if (event.reason !== undefined)
    return new RoomdError('kernel_start_failed', `the kernel "${name}" did not start: ${event.reason}`)
  const lines = event.stderr === '' ? 'it printed nothing' : `its last lines:\n${event.stderr}`
  return new RoomdError(
    'kernel_start_failed',
    `the kernel "${name}" ended before it was ready (${describeDeath(event)}); ${lines}`,
    { cause: { code: event.code, signal: event.signal, stderr: event.stderr } },
  )
}
