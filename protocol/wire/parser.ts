/**
 * One incremental parser per connection: bytes in, whole values out, the same result for every split of the bytes. A header is
 * judged before any memory is spent on its frame: physical size, type, cap of the whole value over all its fragments, and
 * whatever the sink asks. Unknown types are stepped over and never stored.
 *
 * A value that lies wholly inside one received chunk is handed out as a view of it: it stays valid, and keeps the chunk alive as
 * long as it is kept. Who keeps small values for long copies them.
 */
import { RoomdError } from '../errors.ts'
import { FLAG_MORE, type FrameType, frameRules, HEADER_BYTES, MAX_FRAME_PAYLOAD } from '../frames.ts'
import { Assembly } from './assembly.ts'
import { MESSAGE_HEADER_BYTES } from './frame-writer.ts'
import type { Framing } from './transport.ts'

/** Unfinished values one connection may have at a time; each may hold up to its type's cap. */
const MAX_UNFINISHED = 1024

export interface ParserSink {
  /**
   * A frame of a known type, by its header. `first`: a value begins. false: the frame is stepped over. Throws RoomdError to refuse
   * the connection.
   */
  frame(type: FrameType, channel: number, length: number, first: boolean): boolean
  /** A whole value. */
  value(type: FrameType, channel: number, payload: Uint8Array): void
}

interface Unfinished {
  readonly type: FrameType
  readonly channel: number
  readonly assembly: Assembly
}

/** The frame whose payload is being read; `value` null: stepped over. */
interface Current {
  value: Unfinished | null
  more: boolean
  left: number
}

export class Parser {
  readonly #framing: Framing
  readonly #sink: ParserSink
  /** The header that was cut by the end of a chunk, and how much of it came. */
  #header: Uint8Array | null = null
  #headerFilled = 0
  #current: Current | null = null
  /** Values of which more frames are to come; null: none. */
  #unfinished: Map<number, Unfinished> | null = null
  #stopped = false

  constructor(framing: Framing, sink: ParserSink) {
    this.#framing = framing
    this.#sink = sink
  }

  /** Whether the stream stands in the middle of a frame or value. */
  get midValue(): boolean {
    return this.#headerFilled > 0 || this.#current !== null || this.#unfinished !== null
  }

  /** Takes the next bytes, or one message. Throws RoomdError for what must end the connection; nothing is parsed after that. */
  push(chunk: Uint8Array): void {
    if (this.#stopped) return
    try {
      if (this.#framing === 'message') this.#message(chunk)
      else this.#stream(chunk)
    } catch (error) {
      this.stop()
      throw error
    }
  }

  /** Nothing more comes out; may be called from inside the sink. */
  stop(): void {
    this.#stopped = true
    this.#current = null
    this.#unfinished = null
  }

  /** Forgets unfinished values of a channel; what is still coming of them is stepped over. */
  drop(channel: number): void {
    for (const value of [...(this.#unfinished?.values() ?? [])]) {
      if (value.channel === channel) this.#forget(value)
    }
    const current = this.#current
    if (current?.value?.channel === channel) current.value = null
  }

  #stream(chunk: Uint8Array): void {
    let at = 0
    while (at < chunk.length && !this.#stopped) {
      const current = this.#current
      if (current !== null) {
        const piece = view(chunk, at, Math.min(current.left, chunk.length - at))
        current.value?.assembly.add(piece, current.left)
        current.left -= piece.length
        at += piece.length
        if (current.left === 0) this.#frameDone(current)
        continue
      }
      if (this.#headerFilled === 0 && chunk.length - at >= HEADER_BYTES) {
        at = this.#begin(chunk, at, at + HEADER_BYTES, chunk)
        continue
      }
      const part = chunk.subarray(at, at + HEADER_BYTES - this.#headerFilled)
      this.#header ??= new Uint8Array(HEADER_BYTES)
      const header = this.#header
      header.set(part, this.#headerFilled)
      this.#headerFilled += part.length
      at += part.length
      if (this.#headerFilled === HEADER_BYTES) {
        this.#header = null
        this.#headerFilled = 0
        at = this.#begin(header, 0, at, chunk)
      }
    }
  }

  /** Judges the stream header at `from` of `bytes`; its payload starts at `at` of `chunk`. Returns where to go on. */
  #begin(bytes: Uint8Array, from: number, at: number, chunk: Uint8Array): number {
    const length = u32(bytes, from)
    return this.#frame(length, byte(bytes, from + 4), byte(bytes, from + 5), u32(bytes, from + 6), at, chunk)
  }

  #message(message: Uint8Array): void {
    const at = MESSAGE_HEADER_BYTES
    if (message.length < at)
      throw new RoomdError(
        'invalid_argument',
        `a message of ${message.length} bytes is no frame: it needs ${at}`,
      )
    this.#frame(message.length - at, byte(message, 0), byte(message, 1), u32(message, 2), at, message)
  }

  #frame(
    length: number,
    typeByte: number,
    flags: number,
    channel: number,
    at: number,
    chunk: Uint8Array,
  ): number {
    if (length > MAX_FRAME_PAYLOAD)
      throw new RoomdError(
        'too_large',
        `a frame of ${length} bytes is over the limit of ${MAX_FRAME_PAYLOAD}; send it as a run of smaller frames`,
      )
    const rule = frameRules[typeByte as FrameType]
    if (rule === undefined) return this.#enter({ value: null, more: false, left: length }, at, chunk)
    const type = typeByte as FrameType
    if ((flags & ~FLAG_MORE) !== 0)
      throw new RoomdError('invalid_argument', `${rule.name} with unknown flags 0x${flags.toString(16)}`)
    const more = (flags & FLAG_MORE) !== 0
    const key = channel * 256 + type
    const before = this.#unfinished?.get(key)
    const total = (before?.assembly.total ?? 0) + length
    if (total > rule.cap)
      throw new RoomdError(
        'too_large',
        `${rule.name} of ${total} bytes${more ? ' and more' : ''} is over its limit of ${rule.cap}; send less at a time`,
      )
    if (before === undefined && this.#unfinished !== null) this.#checkOrder(this.#unfinished, type, channel)
    if (!this.#sink.frame(type, channel, length, before === undefined))
      return this.#enter({ value: null, more: false, left: length }, at, chunk)
    if (before === undefined && !more && chunk.length - at >= length) {
      this.#sink.value(type, channel, view(chunk, at, length))
      return at + length
    }
    const value = before ?? { type, channel, assembly: new Assembly() }
    if (before === undefined && more) {
      this.#unfinished ??= new Map()
      if (this.#unfinished.size >= MAX_UNFINISHED)
        throw new RoomdError('overloaded', `more than ${MAX_UNFINISHED} unfinished values; finish some first`)
      this.#unfinished.set(key, value)
    }
    return this.#enter({ value, more, left: length }, at, chunk)
  }

  /** Starts on a frame's payload; an empty one is over at once. */
  #enter(current: Current, at: number, chunk: Uint8Array): number {
    const piece = view(chunk, at, Math.min(current.left, chunk.length - at))
    if (piece.length > 0) current.value?.assembly.add(piece, current.left)
    current.left -= piece.length
    this.#current = current
    if (current.left === 0) this.#frameDone(current)
    return at + piece.length
  }

  #frameDone({ value, more }: Current): void {
    this.#current = null
    if (value === null || more) return
    this.#forget(value)
    this.#sink.value(value.type, value.channel, value.assembly.take())
  }

  #forget(value: Unfinished): void {
    this.#unfinished?.delete(value.channel * 256 + value.type)
    if (this.#unfinished?.size === 0) this.#unfinished = null
  }

  /** Inside one lane of one channel values never interleave. A REQUEST's lane is known only when it is whole. */
  #checkOrder(unfinished: Map<number, Unfinished>, type: FrameType, channel: number): void {
    const { lane, name } = frameRules[type]
    for (const value of unfinished.values()) {
      const other = frameRules[value.type]
      if (value.channel === channel && other.lane === lane && lane !== 'control')
        throw new RoomdError(
          'invalid_argument',
          `${name} on channel ${channel} while ${other.name} of the same lane is unfinished; finish one value first`,
        )
    }
  }
}

/** A plain Uint8Array also where the chunk is a Node Buffer: cheaper to make, and the same type in every environment. */
function view(bytes: Uint8Array, at: number, length: number): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset + at, length)
}

function byte(bytes: Uint8Array, at: number): number {
  return bytes[at] as number
}

function u32(bytes: Uint8Array, at: number): number {
  return (
    (byte(bytes, at) * 0x1000000 +
      (byte(bytes, at + 1) << 16) +
      (byte(bytes, at + 2) << 8) +
      byte(bytes, at + 3)) >>>
    0
  )
}
