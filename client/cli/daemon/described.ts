/**
 * What `daemon.json` says, and the messages for a daemon that is there and does not serve. `daemon.json` is information, never
 * a lock: its pid is believed only as far as a process with that id exists.
 */
import { readFileSync } from 'node:fs'
import type { Places } from '../../../protocol/places.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import type { Presence } from './probe.ts'
import { identify, isStopped } from './process-identity.ts'

/** The pid in `daemon.json` if such a process lives, else null. */
export function writtenPid(places: Places): number | null {
  let pid: unknown
  try {
    pid = (JSON.parse(readFileSync(places.daemonJson, 'utf8')) as { pid?: unknown }).pid
  } catch {
    // No daemon ran here, or the file is being replaced: nothing to tell.
    return null
  }
  return typeof pid === 'number' && Number.isInteger(pid) && identify(pid) !== null ? pid : null
}

/** For a socket that accepts without answering, or may not be used. */
export function notServing(
  presence: Exclude<Presence, { state: 'answers' | 'absent' }>,
  places: Places,
): CommandFailure {
  if (presence.state === 'refused') {
    return new CommandFailure(
      ExitCode.unreachable,
      'daemon_lost',
      `the socket ${places.socket} cannot be used: ${presence.reason}`,
      `ls -l ${places.socket}`,
    )
  }
  const pid = writtenPid(places)
  const who = pid === null ? 'the daemon' : `the daemon (pid ${pid})`
  if (pid !== null && isStopped(pid)) {
    return new CommandFailure(
      ExitCode.unreachable,
      'daemon_lost',
      `${who} is stopped by a signal (SIGSTOP) and answers nobody. It was left alone: kernels and everything acknowledged are safe.`,
      `kill -CONT ${pid}`,
    )
  }
  return new CommandFailure(
    ExitCode.unreachable,
    'daemon_lost',
    `${who} accepts connections but does not answer. It was left alone. Its log may say why; ending it (kill -9${pid === null ? '' : ` ${pid}`}) loses nothing acknowledged, and kernels go on.`,
    'roomd logs -n 50',
  )
}
