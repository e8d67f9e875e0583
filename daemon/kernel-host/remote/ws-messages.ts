/**
 * Jupyter messages in a kernel's WebSocket. Two forms: `v1.kernel.websocket.jupyter.org`, which is the four dictionaries and the
 * buffers as they are with a table of offsets (little endian) before them, and the older one, JSON with the dictionaries inside,
 * with a table of offsets (big endian) only where there are buffers. Signing is the gateway's business.
 */
import type { Channel } from '../connection-file.ts'
import {
  dictionaries,
  dictionary,
  type OutgoingMessage,
  type RawMessage,
  rawMessage,
} from '../jupyter-message.ts'

/** Offered as the WebSocket's subprotocol; a gateway that does not know it uses the older form. */
export const V1_PROTOCOL = 'v1.kernel.websocket.jupyter.org'

export interface FramedMessage {
  readonly channel: Channel
  readonly raw: RawMessage
}

export interface WsFormat {
  encode(channel: Channel, message: OutgoingMessage, session: string): string | Buffer
  /** Throws with the reason when the frame holds no message. */
  decode(frame: Buffer, binary: boolean): FramedMessage
}

export const v1Format: WsFormat = {
  encode(channel, message, session) {
    const parts = [Buffer.from(channel), ...dictionaries(message, session), ...(message.buffers ?? [])]
    // One offset more than there are parts: where the last one ends.
    const table = Buffer.alloc(8 * (parts.length + 2))
    table.writeBigUInt64LE(BigInt(parts.length + 1), 0)
    let offset = table.length
    for (const [index, part] of [...parts, Buffer.alloc(0)].entries()) {
      table.writeBigUInt64LE(BigInt(offset), 8 * (index + 1))
      offset += part.length
    }
    return Buffer.concat([table, ...parts])
  },
  decode(frame, binary) {
    if (!binary) throw new Error('a text frame is no message of this protocol')
    const count = frame.length < 8 ? 0 : Number(frame.readBigUInt64LE(0))
    if (count < 6 || frame.length < 8 * (count + 1))
      throw new Error(`a frame of ${frame.length} bytes is no message`)
    const parts = slices(frame, count, (index) => Number(frame.readBigUInt64LE(8 * (index + 1))))
    const [channel, header, parent, metadata, content, ...buffers] = parts
    if (!channel || !header || !parent || !metadata || !content) throw new Error('a message lacks a part')
    return {
      channel: channelOf(channel.toString('latin1')),
      raw: rawMessage(header, parent, metadata, content, buffers as Uint8Array<ArrayBuffer>[]),
    }
  },
}

export const jsonFormat: WsFormat = {
  encode(channel, message, session) {
    const [header, parent, metadata, content] = dictionaries(message, session)
    const json = `{"channel":${JSON.stringify(channel)},"header":${header},"parent_header":${parent},"metadata":${metadata},"content":${content},"buffers":[]}`
    const buffers = message.buffers ?? []
    if (buffers.length === 0) return json
    const parts = [Buffer.from(json), ...buffers]
    const table = Buffer.alloc(4 * (parts.length + 1))
    table.writeUInt32BE(parts.length, 0)
    let offset = table.length
    for (const [index, part] of parts.entries()) {
      table.writeUInt32BE(offset, 4 * (index + 1))
      offset += part.length
    }
    return Buffer.concat([table, ...parts])
  },
  decode(frame, binary) {
    if (!binary) return fromJson(frame, [])
    const count = frame.length < 4 ? 0 : frame.readUInt32BE(0)
    if (count < 1 || frame.length < 4 * (count + 1))
      throw new Error(`a frame of ${frame.length} bytes is no message`)
    const [json, ...buffers] = slices(frame, count + 1, (index) =>
      index < count ? frame.readUInt32BE(4 * (index + 1)) : frame.length,
    )
    return fromJson(json ?? frame, buffers as Uint8Array<ArrayBuffer>[])
  },
}

function fromJson(json: Buffer, buffers: Uint8Array<ArrayBuffer>[]): FramedMessage {
  const { channel, header, parent_header, metadata, content } = dictionary(json)
  return {
    channel: channelOf(channel),
    raw: rawMessage(bytes(header), bytes(parent_header), bytes(metadata), bytes(content), buffers),
  }
}

/** The dictionary as its own JSON, so that both forms go on alike (a giant stream is cut without parsing it). */
function bytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value ?? {}))
}

function slices(frame: Buffer, count: number, offset: (index: number) => number): Buffer[] {
  const parts: Buffer[] = []
  for (let index = 0; index + 1 < count; index++) {
    const [from, to] = [offset(index), offset(index + 1)]
    if (!(from >= 0 && from <= to && to <= frame.length))
      throw new Error("a frame's offsets lie outside of it")
    parts.push(frame.subarray(from, to))
  }
  return parts
}

function channelOf(name: unknown): Channel {
  if (name === 'shell' || name === 'iopub' || name === 'stdin' || name === 'control') return name
  throw new Error(`a message on an unknown channel ${JSON.stringify(name)}`)
}
