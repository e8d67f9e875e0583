/** Opening rooms for activations and for single calls: the daemon of a target, its generation, its other names. */
import type { Client, RoomTarget } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import type { DaemonLink } from '../daemon-link.ts'
import type { Flight } from './activations.ts'
import { openBound, roomTarget } from './attaching.ts'
import type { Opened } from './guests.ts'
import { canonicalPath, idKey, pathKey, type Target } from './target.ts'

export type CreateWanted = Extract<RoomTarget, { create: unknown }>['create']

/** A room that an activation opened. */
export interface Attached {
  readonly room: Room
  readonly client: Client
  readonly target: Target
  readonly generation: number
  readonly bootId: string
}

export class Opener {
  readonly #daemon: DaemonLink
  readonly #raise: (generation: number) => void

  /** `raise`: the daemon knows generations of this client instance up to here. */
  constructor(daemon: DaemonLink, raise: (generation: number) => void) {
    this.#daemon = daemon
    this.#raise = raise
  }

  /** `scope`: only to look, for a file that another daemon writes; absent: all that the connection has. */
  async attach(target: Target, flight: Flight, scope?: 'viewer'): Promise<Attached> {
    const client = await this.#daemon.for(target)
    const opened = await this.#bound(client, roomTarget(target), flight, { scope })
    return { ...opened, client, target }
  }

  /** Upgrades the file of a room from an old notebook format; one of format 4 stays as it is. No activation. */
  async convert(target: Target, signal: AbortSignal | undefined): Promise<void> {
    const client = await this.#daemon.for(target)
    const path =
      target.kind === 'path' ? target.path : (await client.call('find_room', { room: target.id })).room.path
    // A notebook without a file has no format.
    if (path === null) return
    const room = await client.openRoom({ path, convert: true }, { signal })
    await room.close()
  }

  async attachNew(create: CreateWanted, flight: Flight, mutationId: number | undefined): Promise<Attached> {
    const client = await this.#daemon.local()
    const opened = await this.#bound(client, { create }, flight, { mutationId })
    return { ...opened, client, target: { kind: 'id', id: opened.room.id } }
  }

  /** For a single call: no activation. */
  async guest(target: Target): Promise<Opened> {
    const client = await this.#daemon.for(target)
    const { room } = await openBound(client, roomTarget(target), {})
    return { room, client }
  }

  /** Other keys of a target, as the daemon knows them now. Rejects with `not_found` for what it does not know. */
  async aliases(target: Target): Promise<readonly string[]> {
    if (target.kind === 'remote') return []
    const client = await this.#daemon.local()
    const name = target.kind === 'path' ? target.path : target.id
    const { room } = await client.call('find_room', { room: name })
    return [idKey(room.notebook_id), ...(room.path === null ? [] : [pathKey(canonicalPath(room.path))])]
  }

  async #bound(
    client: Client,
    target: RoomTarget,
    flight: Flight,
    options: { mutationId?: number | undefined; scope?: 'viewer' | undefined },
  ) {
    this.#raise(client.welcome?.activation_generation ?? 0)
    const generation = flight.takeGeneration()
    const opened = await openBound(client, target, { ...options, generation, signal: flight.signal })
    flight.alias(idKey(opened.room.id))
    return { ...opened, generation }
  }
}
