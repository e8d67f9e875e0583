/** Frames made and read by hand, independent of the code under test. */
import { FLAG_MORE, type FrameType } from '../../protocol/frames.ts'
import type { Framing } from '../../protocol/wire/transport.ts'

export interface RawFrame {
  type: number
  flags: number
  channel: number
  payload: Uint8Array
}

export function raw(
  framing: Framing,
  type: number,
  channel: number,
  payload: Uint8Array = new Uint8Array(0),
  flags = 0,
): Uint8Array {
  const header = Buffer.alloc(10)
  header.writeUInt32BE(payload.length, 0)
  header.writeUInt8(type, 4)
  header.writeUInt8(flags, 5)
  header.writeUInt32BE(channel, 6)
  return Buffer.concat([framing === 'stream' ? header : header.subarray(4), payload])
}

export function more(framing: Framing, type: FrameType, channel: number, payload: Uint8Array): Uint8Array {
  return raw(framing, type, channel, payload, FLAG_MORE)
}

/** Reads a stream that holds whole frames only. */
export function readFrames(bytes: Buffer): RawFrame[] {
  const frames: RawFrame[] = []
  let at = 0
  while (at < bytes.length) {
    const length = bytes.readUInt32BE(at)
    frames.push({
      type: bytes.readUInt8(at + 4),
      flags: bytes.readUInt8(at + 5),
      channel: bytes.readUInt32BE(at + 6),
      payload: bytes.subarray(at + 10, at + 10 + length),
    })
    at += 10 + length
  }
  if (at !== bytes.length) throw new Error('the stream ends in the middle of a frame')
  return frames
}

/** Bytes that differ by place, so that a wrong offset shows. */
export function pattern(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length)
  let x = (seed * 2654435761) >>> 0 || 1
  for (let at = 0; at < length; at++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0
    bytes[at] = x >>> 24
  }
  return bytes
}
