/**
 * One connection's endpoint: parser and credit on the way in, lanes on the way out, PINGs, and one ending. States: `open` →
 * `ending` (sends the rest, delivers nothing more) → `closed`; or straight to `closed`. `handlers.closed` is called exactly once,
 * never from inside a call into the wire, and no value is delivered once it is due.
 *
 * Races: a handler may end the wire from inside `value`; the parser stops at once. A value's promise may settle after its
 * channel was closed; its credit is then nobody's. The transport may close while ERROR is on its way; the first ending wins.
 */
import { Fatal } from '../channels.ts'
import { type Clock, systemClock } from '../clock.ts'
import { decode, encode } from '../codec.ts'
import { RoomdError, toWireError, type WireCode } from '../errors.ts'
import { FrameType, frameRules, laneOf, MAX_QUEUED_CONNECTION, type Side } from '../frames.ts'
import { Egress } from './egress.ts'
import { Intake } from './intake.ts'
import { Liveness } from './liveness.ts'
import { Parser } from './parser.ts'
import type { Transport } from './transport.ts'
import type { Wire, WireEnd, WireHandlers } from './wire.ts'

/** After ERROR the other side has this long to read it and close. */
const FAREWELL_MS = 1_000
/** `end` without a time. */
const DRAIN_MS = 1_000
/** Keeps an ERROR frame under its cap in any script. */
const MESSAGE_MAX_CHARS = 900

export interface WireOptions {
  /** Not yet opened; the preamble does not pass through here. Callers other than tests want `offer` or `accept` of handshake.ts. */
  readonly transport: Transport
  readonly side: Side
  readonly handlers: WireHandlers
  readonly clock?: Clock
}

/** Makes an endpoint that starts with frames at once. */
export function createWire(options: WireOptions): Wire {
  const endpoint = new Endpoint(options)
  options.transport.open({
    data: (bytes) => endpoint.receive(bytes),
    drain: () => endpoint.drained(),
    closed: (error) => endpoint.transportClosed(error),
  })
  return endpoint
}

export class Endpoint implements Wire {
  readonly side: Side
  /** Replaced once, when the handshake is done. */
  handlers: WireHandlers
  readonly #transport: Transport
  readonly #clock: Clock
  readonly #parser: Parser
  readonly #egress: Egress
  readonly #intake: Intake
  readonly #liveness: Liveness
  #state: 'open' | 'ending' | 'closed' = 'open'
  #pings = 0
  #cancelDrain = () => {}

  constructor({ transport, side, handlers, clock = systemClock }: WireOptions) {
    this.side = side
    this.handlers = handlers
    this.#transport = transport
    this.#clock = clock
    this.#parser = new Parser(transport.framing, {
      frame: (type, channel, length, first) => this.#frame(type, channel, length, first),
      value: (type, channel, payload) => this.#value(type, channel, payload),
    })
    this.#egress = new Egress({
      framing: transport.framing,
      write: (pieces) => transport.write(pieces),
      writable: (channel) => this.#writable(channel),
      emptied: () => {
        if (this.#state === 'ending') transport.end()
      },
    })
    this.#intake = new Intake((channel, bytes) => this.#giveBack(channel, bytes))
    this.#liveness = new Liveness(clock, {
      ping: () => this.#ping(),
      dead: () => this.#close({ cause: 'lost', message: 'the other side did not answer two PINGs' }),
    })
  }

  send(type: FrameType, channel: number, payload: Uint8Array): void {
    this.#checkSend(type)
    if (this.#state === 'open') this.#egress.push(type, channel, payload)
  }

  offer(type: FrameType, channel: number, payload: Uint8Array): boolean {
    this.#checkSend(type)
    if (this.#state !== 'open') return false
    return this.#egress.offer(type, channel, payload)
  }

  queued(channel?: number): number {
    return this.#egress.queued(channel)
  }

  openChannel(channel: number): void {
    this.#intake.open(channel)
    this.#egress.open(channel)
  }

  closeChannel(channel: number): void {
    if (channel === 0) return
    this.#intake.close(channel)
    this.#egress.close(channel)
    this.#parser.drop(channel)
  }

  idle(): number {
    return this.#liveness.idle()
  }

  fail(code: WireCode, message: string): void {
    if (this.#state === 'closed') return
    const fatal: Fatal = { code, message: message.slice(0, MESSAGE_MAX_CHARS) }
    this.#settle({ cause: 'error', code, message })
    this.#egress.clear()
    this.#egress.push(FrameType.ERROR, 0, encode(fatal))
    this.#egress.drained()
    this.#egress.stop()
    this.#transport.end()
    this.#clock.after(FAREWELL_MS, () => this.#transport.destroy())
  }

  end(drainMs: number = DRAIN_MS): void {
    if (this.#state !== 'open') return
    this.#state = 'ending'
    this.#cancelDrain = this.#clock.after(drainMs, () => this.#close({ cause: 'local', message: 'ended' }))
    // What is queued may still wait for its turn or for credit; `emptied` then ends the transport.
    if (this.#egress.queued() === 0) this.#transport.end()
  }

  destroy(message = 'ended at once'): void {
    this.#close({ cause: 'local', message })
  }

  /** Bytes of the transport, behind the preamble. */
  receive(bytes: Uint8Array): void {
    if (this.#state === 'closed') return
    this.#liveness.read()
    try {
      this.#parser.push(bytes)
    } catch (error) {
      this.#refuse(error)
    }
  }

  drained(): void {
    if (this.#state !== 'closed') this.#egress.drained()
  }

  transportClosed(error?: Error): void {
    if (this.#state === 'ending') this.#close({ cause: 'local', message: 'ended' })
    else if (error !== undefined)
      this.#close({ cause: 'lost', message: `the connection broke: ${error.message}` })
    else if (this.#parser.midValue)
      this.#close({ cause: 'lost', message: 'the other side closed in the middle of a value' })
    else this.#close({ cause: 'remote', message: 'the other side closed the connection' })
  }

  #frame(type: FrameType, channel: number, length: number, first: boolean): boolean {
    const rule = frameRules[type]
    if (rule.from === this.side)
      throw new RoomdError(
        'invalid_argument',
        `${rule.name} is sent by the ${this.side} alone and was received by it`,
      )
    if (!this.#intake.isOpen(channel)) {
      // These make and end channels, so they come before one is open and after it is closed.
      return type === FrameType.OPEN || type === FrameType.OPENED || type === FrameType.CLOSE
    }
    const lane = laneOf(type, length)
    // A REQUEST in fragments is charged when it is whole: only then its lane is known.
    if (type !== FrameType.REQUEST && (lane === 'reliable' || lane === 'bulk'))
      this.#intake.take(channel, length, first)
    return true
  }

  #value(type: FrameType, channel: number, payload: Uint8Array): void {
    switch (type) {
      case FrameType.WINDOW:
        if (payload.length < 4) throw new RoomdError('invalid_argument', 'WINDOW holds less than 4 bytes')
        this.#egress.grant(channel, new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0))
        return
      case FrameType.PING:
        // One who pings without reading gets no more answers than fit the bound.
        if (this.#state === 'open' && this.#egress.queued() < MAX_QUEUED_CONNECTION)
          this.#egress.push(FrameType.PONG, channel, payload)
        return
      case FrameType.PONG:
        return
      case FrameType.ERROR:
        this.#remoteError(payload)
        return
      default:
        if (this.#state === 'open') this.#deliver(type, channel, payload)
    }
  }

  #deliver(type: FrameType, channel: number, payload: Uint8Array): void {
    const lane = laneOf(type, payload.length)
    const charged = lane === 'reliable' || lane === 'bulk'
    if (charged && type === FrameType.REQUEST) this.#intake.take(channel, payload.length, true)
    let outcome: void | Promise<void>
    try {
      outcome = this.handlers.value(type, channel, payload)
    } catch (error) {
      this.#refuse(error)
      return
    }
    if (outcome === undefined) {
      if (charged) this.#intake.consumed(channel, payload.length)
      return
    }
    outcome.then(
      () => {
        if (charged) this.#intake.consumed(channel, payload.length)
      },
      (error: unknown) => this.#refuse(error),
    )
  }

  #remoteError(payload: Uint8Array): void {
    const parsed = Fatal.safeParse(decode(payload))
    if (!parsed.success) throw new RoomdError('invalid_argument', 'an ERROR frame holds no {code, message}')
    this.#close({ cause: 'error', code: parsed.data.code, message: parsed.data.message })
  }

  #refuse(error: unknown): void {
    const { code, message } = toWireError(error)
    this.fail(code, message)
  }

  #checkSend(type: FrameType): void {
    const { from, name } = frameRules[type]
    if (from !== 'both' && from !== this.side) throw new Error(`a ${this.side} does not send ${name}`)
    if (
      type === FrameType.WINDOW ||
      type === FrameType.PING ||
      type === FrameType.PONG ||
      type === FrameType.ERROR
    )
      throw new Error(`${name} is sent by the wire itself`)
  }

  #giveBack(channel: number, bytes: number): void {
    if (this.#state === 'closed') return
    const payload = new Uint8Array(4)
    new DataView(payload.buffer).setUint32(0, bytes)
    this.#egress.push(FrameType.WINDOW, channel, payload)
  }

  #ping(): void {
    if (this.#state === 'closed') return
    const payload = new Uint8Array(8)
    new DataView(payload.buffer).setUint32(4, ++this.#pings)
    this.#egress.push(FrameType.PING, 0, payload)
  }

  #writable(channel: number): void {
    if (this.#state !== 'open') return
    try {
      this.handlers.writable?.(channel)
    } catch (error) {
      this.#refuse(error)
    }
  }

  #close(end: WireEnd): void {
    if (this.#state === 'closed') return
    // First the state: a transport may say `closed` from inside `destroy`.
    this.#settle(end)
    this.#egress.stop()
    this.#transport.destroy()
  }

  #settle(end: WireEnd): void {
    this.#state = 'closed'
    this.#cancelDrain()
    this.#liveness.dispose()
    this.#parser.stop()
    queueMicrotask(() => this.handlers.closed(end))
  }
}
