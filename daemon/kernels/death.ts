/** A kernel's death in words, for everybody who tells of it. */
import { RoomdError } from '../../protocol/errors.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'

export type Died = Extract<HostEvent, { kind: 'died' }>

/** Short, without the last words: `signal SIGKILL`. */
export function describeDeath(event: Died): string {
  if (event.reason !== undefined) return event.reason
  if (event.out_of_memory === true) return `out of memory${peak(event)}`
  if (event.signal !== null) return `signal ${event.signal}`
  return event.code === null ? 'exit code unknown' : `exit code ${event.code}`
}

/** A sentence with the kernel's last words. `cellId`: the cell that ran; null: code of no cell; undefined: nothing ran. */
export function deathInWords(event: Died, cellId?: string | null): string {
  if (event.reason !== undefined) return event.reason
  const stderr = event.stderr.trim()
  const words = stderr === '' ? '' : `; last lines of stderr:\n${stderr}`
  return `the kernel ${how(event)}${during(event, cellId)}${words}`
}

function how(event: Died): string {
  if (event.out_of_memory === true)
    return `ran out of memory and was ended by the system (${event.signal ?? 'SIGKILL'})${peak(event)}`
  if (event.signal !== null) return `was ended by ${event.signal}`
  return event.code === null ? 'ended (its exit code is not known)' : `exited with code ${event.code}`
}

function during(event: Died, cellId: string | null | undefined): string {
  if (event.out_of_memory !== true || cellId === undefined) return ''
  return cellId === null ? ' while it ran code of no cell' : ` while it ran cell ${cellId}`
}

function peak({ peak_memory: bytes }: Died): string {
  return bytes === undefined ? '' : `, having used at least ${(bytes / 2 ** 20).toFixed(0)} MiB`
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
