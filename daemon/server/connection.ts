/**
 * One client's connection after HELLO: its channels, its requests on channel 0, its end. Everything a client sends is read here
 * and nowhere else; whatever ends the connection ends every channel through the same code.
 */
import type { Logger } from 'pino'
import type { GoAway } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { encode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType, MAX_QUEUED_CONNECTION } from '../../protocol/frames.ts'
import type { Wire, WireEnd, WireHandlers } from '../../protocol/wire/wire.ts'
import type { PeerIdentity } from '../rooms/seam.ts'
import { Channel, type ChannelPort } from './channel.ts'
import { ChannelNumbers } from './channel-numbers.ts'
import type { ConnectionMethods } from './connection-methods.ts'
import { RequestBudget } from './request-budget.ts'
import { Requests } from './requests.ts'
import type { RoomsGate } from './rooms-gate.ts'

/** Channels of one connection that are open at once. */
export const MAX_CHANNELS = 16_384

export interface ConnectionOptions {
  readonly wire: Wire
  readonly identity: PeerIdentity
  readonly gate: RoomsGate
  readonly methods: ConnectionMethods
  readonly clock: Clock
  readonly log: Logger
  /** Told of what happens beyond its rooms. */
  readonly wantsEvents: boolean
  stopping(): boolean
  /** Called once, after every channel was ended. */
  ended(connection: Connection, end: WireEnd): void
}

export class Connection {
  readonly identity: PeerIdentity
  readonly #options: ConnectionOptions
  readonly #wire: Wire
  readonly #budget = new RequestBudget()
  readonly #numbers = new ChannelNumbers()
  readonly #channels = new Map<number, Channel>()
  readonly #requests: Requests

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#wire = options.wire
    this.identity = options.identity
    const port = this.#port(0)
    this.#requests = new Requests('connection', port, (call) => options.methods.perform(call, port))
  }

  get handlers(): WireHandlers {
    return {
      value: (type, channel, payload) => this.#value(type, channel, payload),
      writable: (channel) => this.#guard(() => this.#channels.get(channel)?.writable()),
      closed: (end) => this.#closed(end),
    }
  }

  /** Milliseconds since something was read. */
  get idle(): number {
    return this.#wire.idle()
  }

  goAway(goAway: GoAway): void {
    this.#wire.send(FrameType.GOAWAY, 0, encode(goAway))
  }

  /** An EVENT on channel 0, unless so much waits for the client that it would be late anyway. */
  tell(payload: Uint8Array): void {
    if (!this.#options.wantsEvents || this.#wire.queued() >= MAX_QUEUED_CONNECTION) return
    this.#wire.send(FrameType.EVENT, 0, payload)
  }

  /** Tells every peer of this connection that its client lives. */
  touch(): void {
    for (const channel of this.#channels.values()) channel.touch()
  }

  /** Sends what is queued, for at most `drainMs`, and closes. */
  end(drainMs: number): void {
    this.#wire.end(drainMs)
  }

  destroy(reason: string): void {
    this.#wire.destroy(reason)
  }

  /** Tells the client why, and ends the connection. */
  refuse(error: RoomdError): void {
    this.#wire.fail(error.toWire().code, error.message)
  }

  #value(type: FrameType, number: number, payload: Uint8Array): void | Promise<void> {
    return this.#guard(() => {
      if (type === FrameType.OPEN) return this.#open(number, payload)
      // A channel that is gone may still be written to by a client that has not read its CLOSE yet.
      if (number !== 0) return this.#channels.get(number)?.receive(type, payload)
      switch (type) {
        case FrameType.REQUEST:
          return this.#requests.receive(payload)
        case FrameType.CANCEL:
          return this.#requests.cancel(payload)
        default:
          this.#wire.fail(
            'invalid_argument',
            `frames of type 0x${type.toString(16)} have no meaning on channel 0`,
          )
      }
    })
  }

  #open(number: number, payload: Uint8Array): void {
    if (!this.#numbers.take(number)) {
      this.#wire.fail(
        'invalid_argument',
        `OPEN on channel ${number}: a client opens each odd number once, and no other`,
      )
      return
    }
    if (this.#channels.size >= MAX_CHANNELS) {
      const reason = `this connection has ${MAX_CHANNELS} channels open; close some, or use another connection`
      const error = new RoomdError('overloaded', reason).toWire()
      this.#wire.send(FrameType.CLOSE, number, encode({ code: error.code, reason, error }))
      return
    }
    this.#wire.openChannel(number)
    this.#channels.set(number, new Channel(this.#port(number), payload))
  }

  #port(number: number): Port {
    return new Port(number, this.#options, this.#budget, () => this.#forget(number))
  }

  #forget(number: number): void {
    this.#channels.delete(number)
    this.#wire.closeChannel(number)
  }

  #closed(end: WireEnd): void {
    const reason = `connection ended: ${end.message}`
    this.#requests.end(reason)
    for (const channel of [...this.#channels.values()]) this.#guard(() => channel.connectionEnded(reason))
    this.#options.ended(this, end)
  }

  /** A defect while handling one client's bytes ends that client's connection, never the daemon. */
  #guard<T>(run: () => T): T | undefined {
    try {
      return run()
    } catch (error) {
      this.#options.log.error({ err: error, connection: this.identity.connectionId }, 'unexpected failure')
      this.#wire.fail('internal', 'unexpected failure in the daemon; its log tells more')
      return undefined
    }
  }
}

/** A channel's way to its connection. A class, so that ten thousand idle channels share its methods. */
class Port implements ChannelPort {
  readonly budget: RequestBudget
  readonly forget: () => void
  readonly #number: number
  readonly #options: ConnectionOptions

  constructor(number: number, options: ConnectionOptions, budget: RequestBudget, forget: () => void) {
    this.#number = number
    this.#options = options
    this.budget = budget
    this.forget = forget
  }

  get identity(): PeerIdentity {
    return this.#options.identity
  }

  get gate(): RoomsGate {
    return this.#options.gate
  }

  get clock(): Clock {
    return this.#options.clock
  }

  stopping(): boolean {
    return this.#options.stopping()
  }

  queued(): number {
    return this.#options.wire.queued()
  }

  send(type: FrameType, payload: Uint8Array): void {
    this.#options.wire.send(type, this.#number, payload)
  }

  offer(type: FrameType, payload: Uint8Array): boolean {
    return this.#options.wire.offer(type, this.#number, payload)
  }

  fail(message: string): void {
    this.#options.wire.fail('invalid_argument', message)
  }

  defect(method: string, error: unknown): void {
    this.#options.log.error({ err: error, method, channel: this.#number }, 'unexpected failure')
  }
}
