/**
 * Preamble, HELLO and WELCOME, on both sides, for whatever HELLO and WELCOME hold (daemon socket: protocol/channels.ts; kernel
 * host: protocol/kernel-host.ts). Five seconds for all of it. Values that follow the handshake in the same bytes are not
 * lost: `handlers` is called at the very moment the handshake is done, before the next value is looked at.
 */
import type { z } from 'zod'
import type { Clock } from '../clock.ts'
import type { Transport } from './transport.ts'
import type { Wire, WireHandlers } from './wire.ts'

export interface VersionRange {
  readonly lowest: number
  readonly highest: number
}

export interface OfferOptions<W extends z.ZodType> {
  /** Schema of the WELCOME payload, e.g. `Welcome` or `HostWelcome`. */
  readonly welcome: W
  /** Called once, synchronously, when WELCOME was read; its result receives everything that follows. */
  handlers(wire: Wire, welcome: z.output<W>): WireHandlers
  readonly clock?: Clock
  /** Aborting destroys the transport and rejects with `client_aborted`. No effect once resolved. */
  readonly signal?: AbortSignal
  /** Milliseconds for the whole handshake; 5000. */
  readonly timeoutMs?: number
  readonly versions?: VersionRange
}

/**
 * The client's side. Rejects with a RoomdError and leaves a closed transport: the code of an ERROR frame (`unsupported` for
 * versions, `unauthorized`, …), `client_protocol` for bytes that are not ours, `client_timeout`, `daemon_lost` when the
 * transport closed, `client_aborted`.
 */
export async function offer<W extends z.ZodType>(
  transport: Transport,
  hello: object,
  options: OfferOptions<W>,
): Promise<{ wire: Wire; welcome: z.output<W> }> {
  throw new Error(`not built yet ${transport.framing} ${typeof hello} ${options.timeoutMs}`)
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
  readonly versions?: VersionRange
}

/**
 * The daemon's (or kernel host's) side. Rejects with a RoomdError and leaves a closed transport; the other side was told in an
 * ERROR frame where it could be. The caller logs it, nothing more.
 */
export async function accept<H extends z.ZodType>(
  transport: Transport,
  options: AcceptOptions<H>,
): Promise<{ wire: Wire; hello: z.output<H> }> {
  throw new Error(`not built yet ${transport.framing} ${options.timeoutMs}`)
}
