/** Starts a daemon on behalf of an SDK client that found none; refuses in the SDK's own terms. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Places } from '../../../protocol/places.ts'
import { CommandFailure } from '../exit-codes.ts'
import { ensureDaemon } from './launch.ts'

/** Rejects with `daemon_lost`: what hinders it and which command helps. */
export async function startDaemonFor(
  places: Places,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  try {
    await ensureDaemon(places, env)
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    const next = error.next === undefined ? '' : ` Next: ${error.next}`
    throw new RoomdError('daemon_lost', `${error.message}${next}`)
  }
}
