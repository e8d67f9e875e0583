/**
 * Rooms that are being loaded or made: one flight for all who ask for the same room, by id or by path, and the first page of a large
 * one for those who can begin with it.
 *
 * Races: a flight by path may turn out to be that of an id, and the other way round; whoever shows a page first owns it and ends it.
 */
import type { Loading } from './loading.ts'
import type { Room } from './room.ts'

/** A room being loaded or made. `early`: what can be shown of it before; never settles where there is nothing. */
export interface Flight {
  readonly room: Promise<Room>
  readonly early: Promise<Loading>
}

/** What a flight tells of itself while it is under way. */
export interface InFlight {
  readonly show: (loading: Loading) => void
  /** Another key by which the same room may be asked for. */
  readonly isAlso: (key: string) => void
}

export interface OnItsWay {
  readonly loading: Loading
  readonly room: Promise<Room>
}

/** What is there first: the room, or its first page. */
export function firstOf({ room, early }: Flight): Promise<Room | OnItsWay> {
  return Promise.race([room, early.then((loading) => ({ loading, room }))])
}

export class Flights {
  /** By id or canonical path. */
  readonly #flights = new Map<string, Flight>()
  /** Large rooms that are shown and not yet there. */
  readonly #coming = new Set<Loading>()

  /** Peers of rooms that are not yet there. */
  get peers(): number {
    let peers = 0
    for (const loading of this.#coming) peers += loading.peers.size
    return peers
  }

  /** Ids and paths of what is under way. */
  get keys(): string[] {
    return [...this.#flights.keys()]
  }

  at(key: string): Flight | undefined {
    return this.#flights.get(key)
  }

  /**
   * The flight under way for this key, or the one that `run` begins. Those who came while it was loading become peers, or are told why not, in the turn in which
   * the flight ends.
   */
  join(key: string, run: (flying: InFlight) => Promise<Room>): Flight {
    const flying = this.#flights.get(key)
    if (flying) return flying
    const keys = [key]
    let shown: (loading: Loading) => void = () => {}
    const early = new Promise<Loading>((resolve) => {
      shown = resolve
    })
    let own: Loading | null = null
    const show = (loading: Loading): void => {
      // The flight by path shows that of the flight by id, which ends it.
      if (!this.#coming.has(loading)) {
        own = loading
        this.#coming.add(loading)
      }
      shown(loading)
    }
    const isAlso = (other: string): void => {
      keys.push(other)
      this.#flights.set(other, flight)
    }
    const end = (): void => {
      for (const one of keys) this.#flights.delete(one)
      if (own) this.#coming.delete(own)
    }
    // Behind this turn, in which the flight is not yet there.
    const begun = Promise.resolve().then(() => run({ show, isAlso }))
    const room = begun.then(
      (made) => {
        end()
        own?.finish(made)
        return made
      },
      (error: unknown) => {
        end()
        own?.fail(error)
        throw error
      },
    )
    const flight: Flight = { room, early }
    this.#flights.set(key, flight)
    return flight
  }
}
