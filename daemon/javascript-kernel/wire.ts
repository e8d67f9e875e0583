/**
 * Jupyter messages on ZeroMQ: `identities… <IDS|MSG> signature header parent metadata content buffers…`, JSON parts in UTF-8,
 * signed with HMAC over the four JSON parts (messaging protocol 5.4, "The Wire Protocol").
 */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'

const delimiter = Buffer.from('<IDS|MSG>')
export const protocolVersion = '5.4'

export type Json = Record<string, unknown>

export interface WireMessage {
  readonly identities: Buffer[]
  readonly header: Json
  readonly msgType: string
  readonly metadata: Json
  readonly content: Json
  readonly buffers: Buffer[]
}

/** Signs, packs and unpacks messages of one kernel process; one session id for its life. */
export class Wire {
  readonly session = randomUUID()
  readonly #key: string
  readonly #hash: string
  #count = 0

  constructor(key: string, hash: string) {
    this.#key = key
    this.#hash = hash
  }

  /** Throws when frames are not a message or the signature is wrong: such a message must not be obeyed. */
  unpack(frames: Buffer[]): WireMessage {
    const at = frames.findIndex((frame) => frame.equals(delimiter))
    const [signature, header, parent, metadata, content] = frames.slice(at + 1)
    if (at < 0 || !signature || !header || !parent || !metadata || !content)
      throw new Error('message with missing frames')
    if (this.#key !== '') {
      const expected = Buffer.from(this.#sign([header, parent, metadata, content]))
      if (expected.length !== signature.length || !timingSafeEqual(expected, signature)) {
        throw new Error('message with a wrong signature')
      }
    }
    const parsed = object(header)
    if (typeof parsed.msg_type !== 'string') throw new Error('message header without msg_type')
    return {
      identities: frames.slice(0, at),
      header: parsed,
      msgType: parsed.msg_type,
      metadata: object(metadata),
      content: object(content),
      buffers: frames.slice(at + 6),
    }
  }

  /** `prefix` is the routing identities, or the topic on iopub. */
  pack(prefix: Buffer[], msgType: string, parent: Json, content: Json, metadata: Json = {}): Buffer[] {
    this.#count += 1
    const header = {
      msg_id: `${this.session}_${this.#count}`,
      session: this.session,
      username: 'kernel',
      date: new Date().toISOString(),
      msg_type: msgType,
      version: protocolVersion,
    }
    const parts = [header, parent, metadata, content].map((part) => Buffer.from(JSON.stringify(part)))
    return [...prefix, delimiter, Buffer.from(this.#key === '' ? '' : this.#sign(parts)), ...parts]
  }

  #sign(parts: Buffer[]): string {
    const hmac = createHmac(this.#hash, this.#key)
    for (const part of parts) hmac.update(part)
    return hmac.digest('hex')
  }
}

function object(frame: Buffer): Json {
  const value: unknown = JSON.parse(frame.toString('utf8'))
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('message part is not an object')
  return value as Json
}
