/**
 * One live connection to one daemon incarnation: hands frames to the channels they belong to and gives channels their numbers.
 * Ends once; every channel is told, in the order they were opened. A new connection is a new Link.
 */
import type { GoAway, Welcome } from '../../protocol/channels.ts'
import { GoAway as GoAwaySchema } from '../../protocol/channels.ts'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Wire, WireEnd, WireHandlers } from '../../protocol/wire/wire.ts'

export interface ChannelHandlers {
  /** A value for this channel. Throwing ends the connection: the bytes were not understood. */
  value(type: FrameType, payload: Uint8Array): void
  /** A refused `offer` may be repeated. */
  writable?(): void
  /** The connection is gone; nothing follows. */
  ended(end: WireEnd): void
}

/** One side of one channel, for whoever speaks on it. */
export interface Channel {
  send(type: FrameType, payload: Uint8Array): void
  /** false: over the bound; wait for `writable`. */
  offer(type: FrameType, payload: Uint8Array): boolean
  /** Stops receiving. Sends nothing by itself. */
  release(): void
}

export class Link {
  readonly welcome: Welcome
  readonly #wire: Wire
  readonly #channels = new Map<number, ChannelHandlers>()
  readonly #onEnd: (end: WireEnd) => void
  readonly #onGoAway: (goAway: GoAway) => void
  #next = 1
  #end: WireEnd | null = null
  #goingAway = false

  constructor(
    wire: Wire,
    welcome: Welcome,
    handlers: { goAway(goAway: GoAway): void; ended(end: WireEnd): void },
  ) {
    this.#wire = wire
    this.welcome = welcome
    this.#onGoAway = handlers.goAway
    this.#onEnd = handlers.ended
  }

  /** What the wire calls. */
  handlers(): WireHandlers {
    return {
      value: (type, channel, payload) => this.#value(type, channel, payload),
      writable: (channel) => this.#channels.get(channel)?.writable?.(),
      closed: (end) => this.#closed(end),
    }
  }

  get ended(): boolean {
    return this.#end !== null
  }

  /** The daemon has said that it will end. */
  get goingAway(): boolean {
    return this.#goingAway
  }

  /** Channel 0, the connection's own. One owner. */
  connectionChannel(handlers: ChannelHandlers): Channel {
    return this.#open(0, handlers)
  }

  /** A new channel with the next odd number. */
  openChannel(handlers: ChannelHandlers): Channel {
    const number = this.#next
    this.#next += 2
    this.#wire.openChannel(number)
    return this.#open(number, handlers)
  }

  /** Sends what is queued, then closes. */
  close(drainMs: number): void {
    this.#wire.end(drainMs)
  }

  destroy(message: string): void {
    this.#wire.destroy(message)
  }

  #open(number: number, handlers: ChannelHandlers): Channel {
    this.#channels.set(number, handlers)
    return {
      send: (type, payload) => {
        if (!this.#end) this.#wire.send(type, number, payload)
      },
      offer: (type, payload) => this.#end !== null || this.#wire.offer(type, number, payload),
      release: () => {
        if (this.#channels.get(number) !== handlers) return
        this.#channels.delete(number)
        if (number !== 0 && !this.#end) this.#wire.closeChannel(number)
      },
    }
  }

  #value(type: FrameType, channel: number, payload: Uint8Array): void {
    try {
      if (type === FrameType.GOAWAY) {
        this.#goingAway = true
        const goAway = GoAwaySchema.safeParse(decode(payload))
        // An unknown reason of a newer daemon is a going away all the same; the connection's end will tell.
        if (goAway.success) this.#onGoAway(goAway.data)
        return
      }
      this.#channels.get(channel)?.value(type, payload)
    } catch (error) {
      // Frames of a daemon that this client cannot read: the connection is of no use any more.
      const message = error instanceof Error ? error.message : String(error)
      this.#wire.fail(
        error instanceof RoomdError && error.code === 'too_large' ? 'too_large' : 'invalid_argument',
        `the client could not handle a frame of type ${type} on channel ${channel}: ${message}`,
      )
    }
  }

  #closed(end: WireEnd): void {
    if (this.#end) return
    this.#end = end
    const channels = [...this.#channels.values()]
    this.#channels.clear()
    // The connection hears first, so that whoever asks it already knows that this link is gone.
    this.#onEnd(end)
    for (const handlers of channels) handlers.ended(end)
  }
}
