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

export class FrameWriter {
  readonly #framing: Framing
  #pieces: Uint8Array[] = []
  #bytes = 0
  // A block is filled from front to back over many turns. What was handed out of it is never written again.
  #block = new Uint8Array(0)
  #view = new DataView(this.#block.buffer)
  #start = 0
  #at = 0

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
    const at = this.#at
    this.#view.setUint32(at, length)
    this.#block[at + 4] = type
    this.#block[at + 5] = flags
    this.#view.setUint32(at + 6, channel)
    this.#at = at + HEADER_BYTES
    if (copied) {
      this.#block.set(payload, this.#at)
      this.#at += length
    } else {
      this.#cut()
      this.#pieces.push(payload)
    }
    this.#bytes += HEADER_BYTES + length
  }

  /** Everything added so far, in order; the writer is empty afterwards. */
  take(): Uint8Array[] {
    this.#cut()
    const pieces = this.#pieces
    this.#pieces = []
    this.#bytes = 0
    return pieces
  }

  #cut(): void {
    if (this.#at > this.#start) this.#pieces.push(this.#block.subarray(this.#start, this.#at))
    this.#start = this.#at
  }

  #reserve(bytes: number): void {
    if (this.#block.length - this.#at >= bytes) return
    this.#cut()
    // The first block of a connection is small: most connections are idle.
    this.#block = new Uint8Array(this.#block.length === 0 ? Math.max(bytes, 1024) : BLOCK_BYTES)
    this.#view = new DataView(this.#block.buffer)
    this.#start = 0
    this.#at = 0
  }
}
