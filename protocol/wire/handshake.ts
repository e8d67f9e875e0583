/**
 * Preamble, HELLO and WELCOME, on both sides, for whatever HELLO and WELCOME hold (daemon socket: protocol/channels.ts; kernel
 * host: protocol/kernel-host.ts). Five seconds for all of it. Values that follow the handshake in the same bytes are not
 * lost: `handlers` is called at the very moment the handshake is done, before the next value is looked at.
 *
 * Both sides send their preamble at once; the client waits for the daemon's before HELLO, because the version decides how HELLO
 * looks, and sends nothing more before WELCOME.
 */
import type { z } from 'zod'
import { type Clock, systemClock } from '../clock.ts'
import { decode, encode } from '../codec.ts'
import { RoomdError, toWireError } from '../errors.ts'
import { FrameType, frameRules, HANDSHAKE_MS, type Side } from '../frames.ts'
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
import type { Wire, WireEnd, WireHandlers } from './wire.ts'

export interface OfferOptions<W extends z.ZodType> {
  /** Schema of the WELCOME payload, e.g. `Welcome` or `HostWelcome`. */
  readonly welcome: W
  /** Called once, synchronously, when WELCOME was read; its result receives everything that follows. */
  handlers(wire: Wire, welcome: z.output<W>): WireHandlers
  readonly clock?: Clock
  /** Aborting destroys the transport and rejects with `client_aborted`. No effect once resolved. */
  readonly signal?: AbortSignal | undefined
  /** Milliseconds for the whole handshake; 5000. */
  readonly timeoutMs?: number
  /** Other versions than ours; for tests. */
  readonly versions?: VersionRange
}

/**
 * The client's side. Rejects with a RoomdError and leaves a closed transport: the code of an ERROR frame (`unsupported` for
 * versions, `unauthorized`, …), `client_protocol` for bytes that are not ours, `client_timeout`, `daemon_lost` when the
 * transport closed, `client_aborted`.
 */
export function offer<W extends z.ZodType>(
  transport: Transport,
  hello: object,
  options: OfferOptions<W>,
): Promise<{ wire: Wire; welcome: z.output<W> }> {
  const { signal } = options
  return new Promise((resolve, reject) => {
    let abort = (): void => {}
    const forget = (): void => signal?.removeEventListener('abort', abort)
    const shake = new Handshake(transport, 'client', options, {
      version: (endpoint) => endpoint.send(FrameType.HELLO, 0, encode(hello)),
      value: ({ endpoint, done }, type, payload) => {
        const welcome = expect(FrameType.WELCOME, options.welcome, type, payload)
        done(() => options.handlers(endpoint, welcome))
        forget()
        resolve({ wire: endpoint, welcome })
      },
      broken: (message) => new RoomdError('client_protocol', message),
      late: () =>
        new RoomdError(
          'client_timeout',
          'the daemon did not answer the handshake in time; see "roomd status" and "roomd doctor"',
        ),
      lost: (end) =>
        new RoomdError('daemon_lost', `the connection ended during the handshake: ${end.message}`),
      failed: (error) => {
        forget()
        reject(error)
      },
    })
    abort = () => shake.abandon(new RoomdError('client_aborted', 'connecting was aborted'))
    if (signal?.aborted) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })
}

export interface AcceptOptions<H extends z.ZodType> {
  /** Schema of the HELLO payload, e.g. `Hello` or `HostHello`. */
  readonly hello: H
  /** Returns the WELCOME payload, or throws RoomdError to refuse: it travels as an ERROR frame. */
  onHello(hello: z.output<H>): object | Promise<object>
  /** Called once, synchronously, when WELCOME was queued; its result receives everything that follows. */
  handlers(wire: Wire, hello: z.output<H>): WireHandlers
  readonly clock?: Clock
  /** Milliseconds for the whole handshake; 5000. */
  readonly timeoutMs?: number
  /** Other versions than ours; for tests. */
  readonly versions?: VersionRange
}

/**
 * The daemon's (or kernel host's) side. Rejects with a RoomdError and leaves a closed transport; the other side was told in an
 * ERROR frame where it could be. `client_closed`: it went away by itself. The caller logs it, nothing more.
 */
export function accept<H extends z.ZodType>(
  transport: Transport,
  options: AcceptOptions<H>,
): Promise<{ wire: Wire; hello: z.output<H> }> {
  return new Promise((resolve, reject) => {
    let greeted = false
    new Handshake(transport, 'daemon', options, {
      version: () => {},
      value: ({ endpoint, done, over }, type, payload) => {
        if (greeted) throw new RoomdError('invalid_argument', 'nothing may be sent between HELLO and WELCOME')
        greeted = true
        const hello = expect(FrameType.HELLO, options.hello, type, payload)
        const welcomed = (welcome: object): void => {
          if (over()) return
          endpoint.send(FrameType.WELCOME, 0, encode(welcome))
          done(() => options.handlers(endpoint, hello))
          resolve({ wire: endpoint, hello })
        }
        const answer = options.onHello(hello)
        if (answer instanceof Promise) return answer.then(welcomed)
        welcomed(answer)
      },
      broken: (message) => new RoomdError('invalid_argument', message),
      late: () => new RoomdError('invalid_argument', 'the handshake was not finished in time; connect again'),
      lost: (end) => new RoomdError('client_closed', `the client left during the handshake: ${end.message}`),
      failed: reject,
    })
  })
}

/** What a side may do with the running handshake. */
interface Shaking {
  readonly endpoint: Endpoint
  /** Hands the connection over. */
  readonly done: (handlers: () => WireHandlers) => void
  readonly over: () => boolean
}

/** In what the sides differ. */
interface Part {
  /** The version is chosen. */
  version(endpoint: Endpoint): void
  /** A value arrived before the handshake was done. What it throws refuses the connection. */
  value(shaking: Shaking, type: FrameType, payload: Uint8Array): void | Promise<void>
  /** The other side's bytes are wrong. */
  broken(message: string): RoomdError
  late(): RoomdError
  lost(end: WireEnd): RoomdError
  /** At most once, and not after `done`. */
  failed(error: RoomdError): void
}

class BrokenHandshake extends Error {}

/** What both sides share: preamble, time limit, and one outcome. */
class Handshake {
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
    const shaking: Shaking = {
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
      return this.#part.value(shaking, type, payload)?.catch(refuse)
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

function expect<S extends z.ZodType>(
  wanted: typeof FrameType.HELLO | typeof FrameType.WELCOME,
  schema: S,
  type: FrameType,
  payload: Uint8Array,
): z.output<S> {
  const { name } = frameRules[wanted]
  if (type !== wanted) throw new BrokenHandshake(`expected ${name} and got ${frameRules[type].name}`)
  const parsed = schema.safeParse(decode(payload))
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  throw new BrokenHandshake(
    `${name} is wrong at "${issue?.path.map(String).join('.') ?? ''}": ${issue?.message ?? 'invalid'}`,
  )
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const whole = new Uint8Array(a.length + b.length)
  whole.set(a)
  whole.set(b, a.length)
  return whole
}
