/** How commands reach the daemon: connected for the length of one piece of work, closed whatever happens. */
import { RoomdError } from '../../protocol/errors.ts'
import type { Client } from '../sdk/client.ts'
import { connect } from '../sdk/connect.ts'
import type { Incarnation } from '../sdk/connection.ts'
import type { CommandContext } from './command.ts'
import { ensureDaemon, launchDaemon } from './daemon/launch.ts'

/** How often a start may meet a daemon that is just leaving. */
const MEETINGS = 3

/** Work with a daemon, which is started if there is none and that is allowed. */
export async function withDaemon<T>(
  context: CommandContext,
  use: (client: Client) => Promise<T>,
): Promise<T> {
  const { places, env } = context
  await ensureDaemon(places, env)
  return using(
    await connect({
      ...identity,
      env,
      autostart: () =>
        ensureDaemon(places, env).catch((error: Error) => {
          throw new RoomdError('daemon_lost', error.message)
        }),
    }),
    use,
  )
}

/** Work with the daemon that answers now; one attempt, and none is started. */
export async function withRunningDaemon<T>(
  { env }: CommandContext,
  use: (client: Client, incarnation: Incarnation) => Promise<T>,
): Promise<T> {
  const client = await connect({ ...identity, env, autostart: false, waitMs: 0 })
  return using(client, () => {
    if (client.daemon === null) throw new RoomdError('client_protocol', 'connected to no daemon')
    return use(client, client.daemon)
  })
}

/** Starts a daemon if none runs and asks it who it is. One that answers and is leaving is waited out by starting again. */
export async function launchAndMeet(
  context: CommandContext,
): Promise<{ started: boolean; daemon: Incarnation }> {
  for (let meeting = 1; ; meeting++) {
    const { started } = await launchDaemon(context.places)
    try {
      return { started, daemon: await withRunningDaemon(context, async (_client, daemon) => daemon) }
    } catch (error) {
      const leaving = error instanceof RoomdError && error.code === 'daemon_lost'
      if (!leaving || meeting === MEETINGS) throw error
    }
  }
}

const identity = { kind: 'cli', name: 'roomd', label: 'roomd' } as const

async function using<T>(client: Client, use: (client: Client) => Promise<T>): Promise<T> {
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}
