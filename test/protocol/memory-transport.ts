/**
 * Two connected transports in memory, for what real sockets cannot show on demand: a receiver that reads nothing, a split at a
 * chosen byte, and the exact order and identity of what was written.
 */
import type { Framing, Transport, TransportHandlers } from '../../protocol/wire/transport.ts'

export class MemoryTransport implements Transport {
  readonly framing: Framing
  /** Everything written and not yet delivered, piece by piece. */
  readonly written: Uint8Array[] = []
  /** Writes so far. */
  writes = 0
  /** False: `write` says wait. */
  room = true
  ended = false
  destroyed = false
  #handlers: TransportHandlers | undefined

  constructor(framing: Framing) {
    this.framing = framing
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers
  }

  write(pieces: readonly Uint8Array[]): boolean {
    if (this.ended || this.destroyed) return true
    this.writes++
    this.written.push(...pieces)
    return this.room
  }

  end(): void {
    this.ended = true
  }

  destroy(): void {
    if (this.destroyed) return
    this.destroyed = true
    queueMicrotask(() => this.#handlers?.closed())
  }

  /** The other side's bytes arrive. */
  deliver(bytes: Uint8Array): void {
    if (!this.destroyed) this.#handlers?.data(bytes)
  }

  /** The other side closes. */
  closeByOther(error?: Error): void {
    this.destroyed = true
    this.#handlers?.closed(error)
  }

  drain(): void {
    this.room = true
    this.#handlers?.drain()
  }

  /** Takes what was written, as one run of bytes. */
  take(): Buffer {
    return Buffer.concat(this.written.splice(0))
  }
}

/** Moves what each side wrote to the other until both are silent. */
export async function exchange(a: MemoryTransport, b: MemoryTransport): Promise<void> {
  for (;;) {
    await turns()
    const [fromA, fromB] = [a.written.splice(0), b.written.splice(0)]
    if (fromA.length === 0 && fromB.length === 0) return
    for (const piece of fromA) b.deliver(piece)
    for (const piece of fromB) a.deliver(piece)
  }
}

/** Lets everything that was queued as a microtask run. */
export function turns(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
