/** One connection's endpoint. */
import type { Clock } from '../clock.ts'
import type { Side } from '../frames.ts'
import type { Transport } from './transport.ts'
import type { Wire, WireHandlers } from './wire.ts'

export interface WireOptions {
  /** Opened transport; the preamble is done. Most callers want `offer` or `accept` of handshake.ts instead. */
  readonly transport: Transport
  readonly side: Side
  readonly clock?: Clock
  readonly handlers: WireHandlers
}

export function createWire(options: WireOptions): Wire {
  throw new Error(`not built yet: ${options.side}`)
}
