/**
 * The y-websocket protocol: `varUint kind`, then what the kind has. 0 sync (a y-protocols sync message, the very bytes of our
 * DOC frames), 1 awareness (`varUint8Array update`), 2 auth (`varUint 0 | varString reason`: denied), 3 query awareness.
 */
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { EPHEMERAL_AWARENESS } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'

const SYNC = 0
const AWARENESS = 1
const AUTH = 2
const QUERY_AWARENESS = 3
const DENIED = 0

export type YjsMessage =
  /** `payload`: as a DOC frame has it. */
  | { readonly kind: 'sync'; readonly payload: Uint8Array }
  /** `payload`: as an EPHEMERAL frame has it. */
  | { readonly kind: 'awareness'; readonly payload: Uint8Array }
  | { readonly kind: 'query_awareness' }
  /** Of no meaning to a server. */
  | { readonly kind: 'other' }

/** Throws `invalid_argument`. */
export function readYjsMessage(bytes: Uint8Array): YjsMessage {
  try {
    const decoder = decoding.createDecoder(bytes)
    switch (decoding.readVarUint(decoder)) {
      case SYNC:
        return { kind: 'sync', payload: bytes }
      case AWARENESS: {
        const update = decoding.readVarUint8Array(decoder)
        const payload = new Uint8Array(update.length + 1)
        payload[0] = EPHEMERAL_AWARENESS
        payload.set(update, 1)
        return { kind: 'awareness', payload }
      }
      case QUERY_AWARENESS:
        return { kind: 'query_awareness' }
      default:
        return { kind: 'other' }
    }
  } catch (thrown) {
    throw new RoomdError('invalid_argument', `not a message of the y-websocket protocol: ${String(thrown)}`)
  }
}

/** `payload`: of an EPHEMERAL frame. */
export function writeAwareness(payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, AWARENESS)
  encoding.writeVarUint8Array(encoder, payload.subarray(1))
  return encoding.toUint8Array(encoder)
}

export function writeDenied(reason: string): Uint8Array<ArrayBuffer> {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, AUTH)
  encoding.writeVarUint(encoder, DENIED)
  encoding.writeVarString(encoder, reason)
  return encoding.toUint8Array(encoder)
}
