/**
 * Who is the daemon of a home. A process that does not get the lock looks whether the holder answers: if it does, there is
 * nothing to do; if it does not, it is starting, leaving or stuck, and the lock is asked for again until it is free.
 */
import { randomBytes } from 'node:crypto'
import { Welcome } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { Places } from '../../protocol/places.ts'
import { VERSION } from '../../protocol/version.ts'
import { dial } from '../../protocol/wire/dial.ts'
import { offer } from '../../protocol/wire/handshake.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import { type Lock, takeLock } from './lock.ts'

/** A leaving daemon drains its connections and checkpoints its store in this time, or something is wrong with it. */
const PATIENCE_MS = 30_000
const AGAIN_MS = 50

/** What a daemon that answers says of itself. */
export type Served = Pick<Welcome, 'pid' | 'boot_id' | 'version'>

export type Turn =
  | { readonly kind: 'ours'; readonly lock: Lock }
  /** Another daemon serves this home and answers. */
  | { readonly kind: 'served'; readonly by: Served }

/** Takes the lock or finds the daemon that holds it. Throws `conflict` when the holder neither answers nor goes. */
export async function takeTurn(places: Pick<Places, 'lock' | 'socket'>, clock: Clock): Promise<Turn> {
  const end = clock.now() + PATIENCE_MS
  for (;;) {
    const lock = takeLock(places.lock)
    if (lock) return { kind: 'ours', lock }
    const by = await whoAnswers(places.socket)
    if (by) return { kind: 'served', by }
    if (clock.now() >= end) {
      throw new RoomdError(
        'conflict',
        `another process holds ${places.lock} but does not answer at ${places.socket}; look for a hanging daemon with "roomd doctor"`,
      )
    }
    // Nothing tells when a lock is given up; only a starting daemon waits here.
    await new Promise<void>((resolve) => setTimeout(resolve, AGAIN_MS))
  }
}

/** What the daemon at the socket says of itself; null when none answers, or one that is shutting down. */
async function whoAnswers(socket: string): Promise<Served | null> {
  try {
    const transport = socketTransport(await dial(socket))
    const { wire, welcome } = await offer(
      transport,
      {
        client_instance: `start-${randomBytes(8).toString('hex')}`,
        client: { name: 'roomd daemon', version: VERSION, pid: process.pid },
        label: 'a second daemon',
        kind: 'cli',
      },
      { welcome: Welcome, handlers: () => ({ value: () => undefined, closed: () => undefined }) },
    )
    wire.destroy('only asked whether a daemon answers')
    return welcome
  } catch {
    // No socket, nobody there, or no answer: all the same to the one who asks.
    return null
  }
}
