/**
 * Rooms that single calls name with `notebook`: each through a peer of its own, without becoming the active session. A peer stays
 * for a moment after its last call, so that a row of calls does not attach anew each time; at most 8 idle ones are kept.
 */
import type { Clock } from '../../../protocol/clock.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import type { Client } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import { unlessAborted } from '../../sdk/unless-aborted.ts'

/** Milliseconds a guest stays after its last use. */
const LINGER = 5_000
const MAX_IDLE = 8

export interface Opened {
  readonly room: Room
  readonly client: Client
}

/** Use of a room; released once, by whoever got it. */
export interface Lease extends Opened {
  release(): void
}

interface Guest {
  readonly opening: Promise<Opened>
  room: Room | null
  uses: number
  stopTimer: () => void
}

export class Guests {
  readonly #clock: Clock
  readonly #guests = new Map<string, Guest>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Opens the room of this key, or shares the one that is open. */
  async lease(key: string, open: () => Promise<Opened>, signal?: AbortSignal): Promise<Lease> {
    const guest = this.#guests.get(key) ?? this.#open(key, open)
    guest.uses++
    guest.stopTimer()
    try {
      const opened = await unlessAborted(guest.opening, signal, 'opening the notebook')
      let released = false
      return {
        ...opened,
        release: () => {
          if (released) return
          released = true
          this.#release(key, guest)
        },
      }
    } catch (error) {
      this.#release(key, guest)
      throw error
    }
  }

  /** The room became the active session: its calls go through that one's peer from now on. */
  endIdle(notebookId: string): void {
    for (const [key, guest] of this.#guests)
      if (guest.uses === 0 && guest.room?.id === notebookId) this.#end(key, guest)
  }

  dispose(): void {
    for (const [key, guest] of this.#guests) this.#end(key, guest)
  }

  #open(key: string, open: () => Promise<Opened>): Guest {
    const guest: Guest = {
      opening: open().then((opened) => {
        guest.room = opened.room
        const forget = (): void => {
          if (this.#guests.get(key) === guest) this.#guests.delete(key)
        }
        opened.room.on('lost', forget)
        return opened
      }),
      room: null,
      uses: 0,
      stopTimer: () => {},
    }
    this.#guests.set(key, guest)
    guest.opening.catch(() => {
      if (this.#guests.get(key) === guest) this.#guests.delete(key)
    })
    return guest
  }

  #release(key: string, guest: Guest): void {
    guest.uses--
    if (guest.uses > 0 || this.#guests.get(key) !== guest) return
    guest.stopTimer = this.#clock.after(LINGER, () => this.#end(key, guest))
    // The newest use goes to the end; the first idle ones make room.
    this.#guests.delete(key)
    this.#guests.set(key, guest)
    const idle = [...this.#guests].filter(([, other]) => other.uses === 0)
    for (const [oldest, other] of idle.slice(0, Math.max(0, idle.length - MAX_IDLE))) this.#end(oldest, other)
  }

  #end(key: string, guest: Guest): void {
    guest.stopTimer()
    if (this.#guests.get(key) === guest) this.#guests.delete(key)
    const close = (room: Room): void => room.end(new RoomdError('client_closed', 'no longer used'))
    if (guest.room) close(guest.room)
    else
      guest.opening.then(
        ({ room }) => close(room),
        () => {},
      )
  }
}
