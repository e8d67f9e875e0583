/**
 * Ends a daemon in good order. The intent file comes first, so that nobody's autostart brings a daemon back between the old one's
 * end and our return; then the request, which names the incarnation it means. A daemon that does not answer is never killed.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { CommandContext } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { withRunningDaemon } from '../session.ts'
import { notServing } from './described.ts'
import { probe } from './probe.ts'
import { identify, isAlive } from './process-identity.ts'

/** Milliseconds for the process to go once it has answered that everything is durable. */
const EXIT_BOUND = 15_000

export interface StopOutcome {
  /** null: none was running. */
  readonly stopped: { readonly pid: number; readonly rooms: number; readonly kernels_kept: number } | null
}

export async function stopDaemon(
  context: CommandContext,
  options: { reason: 'stop' | 'restart'; kernels: boolean },
): Promise<StopOutcome> {
  const { places } = context
  const intended = existsSync(places.stopped)
  mkdirSync(dirname(places.stopped), { recursive: true, mode: 0o700 })
  writeFileSync(places.stopped, `${new Date().toISOString()} by roomd ${options.reason}\n`, { mode: 0o600 })
  const presence = await probe(places.socket)
  if (presence.state === 'absent') return { stopped: null }
  // The intent stays: whoever ends that daemon now wants it to stay away.
  if (presence.state !== 'answers') throw notServing(presence, places)
  try {
    return await withRunningDaemon(context, async (client, { pid, boot_id }) => {
      const identity = identify(pid)
      const settled = await client.call('shutdown', { boot_id, ...options })
      await client.close()
      if (identity !== null) await ended(identity)
      return { stopped: { pid, ...settled } }
    })
  } catch (thrown) {
    // It refused and goes on, so it is not "stopped".
    if (!intended && (await probe(places.socket)).state === 'answers') rmSync(places.stopped, { force: true })
    throw thrown
  }
}

/** A process that is not our child tells nobody of its end: looked at, each time a little later. */
async function ended(identity: { pid: number; startTime: string }): Promise<void> {
  const end = Date.now() + EXIT_BOUND
  for (let pause = 5; isAlive(identity); pause = Math.min(100, pause * 2)) {
    if (Date.now() >= end) {
      throw new CommandFailure(
        ExitCode.failed,
        'internal',
        `the daemon (pid ${identity.pid}) has made everything durable but is still there after ${EXIT_BOUND / 1000} s.`,
        `kill ${identity.pid}`,
      )
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}
