/**
 * Turns frames into what a transport writes. Small frames of one turn are copied together into one piece, so that they leave in
 * one system call; large payloads are passed on as they are, never copied. For message transports every frame becomes one
 * message of its own. Payloads are only read: one encoded event may be on its way to many peers.
 */
import { FLAG_MORE, HEADER_BYTES } from '../frames.ts'
import type { Framing } from './transport.ts'

/** Payloads up to this many bytes are copied behind their header; a piece of its own costs more than the copy. */
const COPY_MAX = 8 * 1024
const BLOCK_BYTES = 64 * 1024
/** Header of a message: type, flags, channel; the length is the message's own. */
export const MESSAGE_HEADER_BYTES = 6

/**
 * Where headers and small payloads are written: one block for all connections, filled from front to back, so that idle
 * connections own none. What was handed out of it is never written again.
 */
const slab = { block: new Uint8Array(0), view: new DataView(new ArrayBuffer(0)), at: 0 }

/** From the first `add` to `take` everything happens in one go: no other writer may come between. */
export class FrameWriter {
  readonly #framing: Framing
  #pieces: Uint8Array[] = []
  #bytes = 0
  /** Where this batch's part of the slab begins. */
  #start = 0

  constructor(framing: Framing) {
    this.#framing = framing
  }

  /** Bytes of the frames added since the last `take`, headers included. */
  get bytes(): number {
    return this.#bytes
  }

  add(type: number, more: boolean, channel: number, payload: Uint8Array): void {
    const flags = more ? FLAG_MORE : 0
    const length = payload.length
    if (this.#framing === 'message') {
      const message = new Uint8Array(MESSAGE_HEADER_BYTES + length)
      message[0] = type
      message[1] = flags
      new DataView(message.buffer).setUint32(2, channel)
      message.set(payload, MESSAGE_HEADER_BYTES)
      this.#pieces.push(message)
      this.#bytes += message.length
      return
    }
    const copied = length <= COPY_MAX
    this.#reserve(copied ? HEADER_BYTES + length : HEADER_BYTES)
    const { block, view, at } = slab
    view.setUint32(at, length)
    block[at + 4] = type
    block[at + 5] = flags
    view.setUint32(at + 6, channel)
    slab.at = at + HEADER_BYTES
    if (copied) {
      block.set(payload, slab.at)
      slab.at += length
    } else {
      this.#cut()
      this.#pieces.push(payload)
    }
    this.#bytes += HEADER_BYTES + length
  }

  /** Everything added so far, in order; the writer is empty afterwards. */
  take(): Uint8Array[] {
    if (this.#framing === 'stream' && this.#bytes > 0) this.#cut()
    const pieces = this.#pieces
    this.#pieces = []
    this.#bytes = 0
    return pieces
  }

  #cut(): void {
    if (slab.at > this.#start) this.#pieces.push(slab.block.subarray(this.#start, slab.at))
    this.#start = slab.at
  }

  #reserve(bytes: number): void {
    if (this.#bytes === 0) this.#start = slab.at
    if (slab.block.length - slab.at >= bytes) return
    this.#cut()
    slab.block = new Uint8Array(BLOCK_BYTES)
    slab.view = new DataView(slab.block.buffer)
    slab.at = 0
    this.#start = 0
  }
}
