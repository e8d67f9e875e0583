/**
 * Jupyter messages on the wire (messaging protocol 5.x): `[ids…, <IDS|MSG>, signature, header, parent header, metadata, content,
 * buffers…]`, signed with HMAC-SHA256 over the four dictionaries. Encoded once, decoded once.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface JupyterMessage {
  readonly msgType: string
  readonly msgId: string
  /** The parent header's msg_id. */
  readonly parentId: string | null
  /** Session id in its header: the kernel's own, or, with kernels that have none, that of whom it answers. */
  readonly session: string | null
  /** Session id of whom it answers. */
  readonly parentSession: string | null
  readonly metadata: Record<string, unknown>
  readonly content: Record<string, unknown>
  readonly buffers: Uint8Array<ArrayBuffer>[]
}

/** Message whose content was not parsed yet: giant streams are cut without ever being one string. */
export interface RawMessage extends Omit<JupyterMessage, 'content'> {
  readonly rawContent: Buffer
}

export interface OutgoingMessage {
  readonly msgId: string
  readonly msgType: string
  readonly content: Record<string, unknown>
  readonly metadata?: Record<string, unknown> | undefined
  readonly parentId?: string | null | undefined
  readonly buffers?: readonly Uint8Array[] | undefined
}

const DELIMITER = Buffer.from('<IDS|MSG>')
const EMPTY = Buffer.from('{}')
const PROTOCOL = '5.3'

/** Header, parent header, metadata, content as JSON. `session` names the client and stays the same for the kernel's whole life. */
export function dictionaries(message: OutgoingMessage, session: string): [Buffer, Buffer, Buffer, Buffer] {
  const header = Buffer.from(
    JSON.stringify({
      msg_id: message.msgId,
      session,
      username: 'roomd',
      date: new Date().toISOString(),
      msg_type: message.msgType,
      version: PROTOCOL,
    }),
  )
  const parent = message.parentId
    ? Buffer.from(JSON.stringify({ msg_id: message.parentId, session, username: 'roomd', version: PROTOCOL }))
    : EMPTY
  const metadata = message.metadata === undefined ? EMPTY : Buffer.from(JSON.stringify(message.metadata))
  return [header, parent, metadata, Buffer.from(JSON.stringify(message.content))]
}

/** Parts to send over ZeroMQ. */
export function encodeMessage(message: OutgoingMessage, key: string, session: string): Uint8Array[] {
  const [header, parent, metadata, content] = dictionaries(message, session)
  const signature = createHmac('sha256', key)
    .update(header)
    .update(parent)
    .update(metadata)
    .update(content)
    .digest('hex')
  return [DELIMITER, Buffer.from(signature), header, parent, metadata, content, ...(message.buffers ?? [])]
}

/** Checks the signature and parses all but the content. Throws with the reason when the parts are no message of our kernel. */
export function decodeMessage(parts: readonly Buffer[], key: string): RawMessage {
  const start = parts.findIndex((part) => part.length === DELIMITER.length && part.equals(DELIMITER))
  const [signature, header, parent, metadata, content] = parts.slice(start + 1, start + 6)
  if (start < 0 || !signature || !header || !parent || !metadata || !content)
    throw new Error(`a message of ${parts.length} parts is no Jupyter message`)
  if (key !== '') {
    const expected = createHmac('sha256', key)
      .update(header)
      .update(parent)
      .update(metadata)
      .update(content)
      .digest('hex')
    const told = Buffer.from(expected)
    if (signature.length !== told.length || !timingSafeEqual(signature, told))
      throw new Error('a message with a wrong signature was ignored')
  }
  // zeromq gives Buffers over plain memory, never over shared.
  return rawMessage(header, parent, metadata, content, parts.slice(start + 6) as Uint8Array<ArrayBuffer>[])
}

/** Parses all but the content. Throws when the dictionaries are none, or it has no id or type. */
export function rawMessage(
  header: Buffer,
  parent: Buffer,
  metadata: Buffer,
  content: Buffer,
  buffers: Uint8Array<ArrayBuffer>[],
): RawMessage {
  const head = dictionary(header)
  const above = parent.length <= 2 ? {} : dictionary(parent)
  if (typeof head.msg_id !== 'string' || typeof head.msg_type !== 'string')
    throw new Error('a message without msg_id or msg_type was ignored')
  return {
    msgType: head.msg_type,
    msgId: head.msg_id,
    parentId: typeof above.msg_id === 'string' ? above.msg_id : null,
    session: typeof head.session === 'string' ? head.session : null,
    parentSession: typeof above.session === 'string' ? above.session : null,
    metadata: metadata.length <= 2 ? {} : dictionary(metadata),
    rawContent: content,
    buffers,
  }
}

/** Parses a JSON object. Throws for anything else. */
export function dictionary(bytes: Buffer): Record<string, unknown> {
  const value: unknown = JSON.parse(bytes.toString('utf8'))
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('a dictionary was expected in a kernel message')
  return value as Record<string, unknown>
}
