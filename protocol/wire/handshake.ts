/**
 * Preamble, HELLO and WELCOME, on both sides, for whatever HELLO and WELCOME hold (daemon socket: protocol/channels.ts; kernel
 * host: protocol/kernel-host.ts). Five seconds for all of it. Values that follow the handshake in the same bytes are not
 * lost: `handlers` is called at the very moment the handshake is done, before the next value is looked at.
 *
 * Both sides send their preamble at once; the client waits for the daemon's before HELLO, because the version decides how HELLO
 * looks, and sends nothing more before WELCOME.
 */
import type { z } from 'zod'
import type { Clock } from '../clock.ts'
import { decode, encode } from '../codec.ts'
import { RoomdError } from '../errors.ts'
import { FrameType, frameRules } from '../frames.ts'
import { BrokenHandshake, Opening } from './opening.ts'
import type { VersionRange } from './preamble.ts'
import type { Transport } from './transport.ts'
import type { Wire, WireHandlers } from './wire.ts'

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
    const opening = new Opening(transport, 'client', options, {
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
    abort = () => opening.abandon(new RoomdError('client_aborted', 'connecting was aborted'))
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
    new Opening(transport, 'daemon', options, {
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
