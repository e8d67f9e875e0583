/**
 * A connection from its first byte to the end of its handshake: preamble, time limit, and exactly one outcome, on both sides.
 * States: `preamble` → `hello` → `over`. Until it is over the endpoint's values come here; when it is done the endpoint's handlers
 * are replaced in the same turn.
 */
import { type Clock, systemClock } from '../clock.ts'
import { RoomdError, toWireError } from '../errors.ts'
import { type FrameType, HANDSHAKE_MS, type Side } from '../frames.ts'
import { Endpoint } from './endpoint.ts'
import {
  chooseVersion,
  ourVersions,
  PREAMBLE_BYTES,
  preamble,
  readPreamble,
  type VersionRange,
} from './preamble.ts'
import type { Framing, Transport } from './transport.ts'
import type { WireEnd, WireHandlers } from './wire.ts'

/** What a side may do with the running handshake. */
export interface Running {
  readonly endpoint: Endpoint
  /** Hands the connection over. */
  readonly done: (handlers: () => WireHandlers) => void
  readonly over: () => boolean
}

/** In what the sides differ. */
export interface Part {
  /** The version is chosen. */
  version(endpoint: Endpoint): void
  /** A value arrived before the handshake was done. What it throws refuses the connection. */
  value(running: Running, type: FrameType, payload: Uint8Array): void | Promise<void>
  /** The other side's bytes are wrong. */
  broken(message: string): RoomdError
  late(): RoomdError
  lost(end: WireEnd): RoomdError
  /** At most once, and not after `done`. */
  failed(error: RoomdError): void
}

/** The other side said something that is no HELLO or WELCOME. */
export class BrokenHandshake extends Error {}

/** What both sides share: preamble, time limit, and one outcome. */
export class Opening {
  readonly #part: Part
  readonly #endpoint: Endpoint
  readonly #framing: Framing
  readonly #versions: VersionRange
  readonly #cancelTimeout: () => void
  #state: 'preamble' | 'hello' | 'over' = 'preamble'
  #start = new Uint8Array(0)

  constructor(
    transport: Transport,
    side: Side,
    options: { clock?: Clock; timeoutMs?: number; versions?: VersionRange },
    part: Part,
  ) {
    const clock = options.clock ?? systemClock
    this.#part = part
    this.#framing = transport.framing
    this.#versions = options.versions ?? ourVersions
    this.#endpoint = new Endpoint({
      transport,
      side,
      clock,
      handlers: {
        value: (type, _channel, payload) => this.#value(type, payload),
        closed: (end) => this.#closed(end),
      },
    })
    this.#cancelTimeout = clock.after(options.timeoutMs ?? HANDSHAKE_MS, () => this.#giveUp(part.late()))
    transport.open({
      data: (bytes) => this.#receive(bytes),
      drain: () => this.#endpoint.drained(),
      closed: (error) => this.#endpoint.transportClosed(error),
    })
    transport.write([preamble(this.#versions)])
  }

  /** Ends it without telling the other side. */
  abandon(error: RoomdError): void {
    if (this.#settle(error)) this.#endpoint.destroy(error.message)
  }

  #receive(bytes: Uint8Array): void {
    if (this.#state !== 'preamble') {
      this.#endpoint.receive(bytes)
      return
    }
    // Over messages the preamble is one message of its own.
    if (this.#framing === 'message' && bytes.length !== PREAMBLE_BYTES) {
      this.#giveUp(
        this.#part.broken(`the first message has ${bytes.length} bytes and not the 8 of a preamble`),
      )
      return
    }
    const start = this.#start.length === 0 ? bytes : joined(this.#start, bytes)
    const result = readPreamble(start)
    switch (result.kind) {
      case 'incomplete':
        this.#start = new Uint8Array(start)
        return
      case 'foreign':
        this.#giveUp(this.#part.broken(result.message))
        return
      case 'versions': {
        const choice = chooseVersion(this.#endpoint.side, this.#versions, result.versions)
        if (choice.kind === 'none') {
          this.#refuse(new RoomdError('unsupported', choice.message))
          return
        }
        this.#state = 'hello'
        this.#start = new Uint8Array(0)
        this.#part.version(this.#endpoint)
        const rest = start.subarray(PREAMBLE_BYTES)
        if (rest.length > 0) this.#endpoint.receive(rest)
      }
    }
  }

  #value(type: FrameType, payload: Uint8Array): void | Promise<void> {
    const running: Running = {
      endpoint: this.#endpoint,
      done: (handlers) => {
        this.#endpoint.handlers = handlers()
        this.#state = 'over'
        this.#cancelTimeout()
      },
      over: () => this.#state === 'over',
    }
    const refuse = (error: unknown): void =>
      this.#refuse(
        error instanceof BrokenHandshake
          ? this.#part.broken(error.message)
          : RoomdError.fromWire(toWireError(error)),
      )
    try {
      return this.#part.value(running, type, payload)?.catch(refuse)
    } catch (error) {
      refuse(error)
    }
  }

  /** A daemon tells whoever came what was wrong; a client that finds no daemon has nobody to tell. */
  #giveUp(error: RoomdError): void {
    if (this.#endpoint.side === 'daemon') this.#refuse(error)
    else this.abandon(error)
  }

  #refuse(error: RoomdError): void {
    if (!this.#settle(error)) return
    const code = error.code === 'client_protocol' ? 'invalid_argument' : error.toWire().code
    this.#endpoint.fail(code, error.message)
  }

  #closed(end: WireEnd): void {
    this.#settle(
      end.cause === 'error' && end.code !== undefined
        ? new RoomdError(end.code, end.message)
        : this.#part.lost(end),
    )
  }

  #settle(error: RoomdError): boolean {
    if (this.#state === 'over') return false
    this.#state = 'over'
    this.#cancelTimeout()
    this.#part.failed(error)
    return true
  }
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const whole = new Uint8Array(a.length + b.length)
  whole.set(a)
  whole.set(b, a.length)
  return whole
}
