/**
 * The y-protocols sync messages inside DOC frames: first byte DOC_SYNC, then `varUint kind | varUint8Array body`. Kinds: 0 step 1
 * (a state vector: "send me what I lack"), 1 step 2 (the answer), 2 update.
 */
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { DOC_SYNC } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'

const STEP_1 = 0
const STEP_2 = 1
const UPDATE = 2

export type SyncMessage =
  | { readonly kind: 'wants'; readonly stateVector: Uint8Array }
  | { readonly kind: 'brings'; readonly update: Uint8Array }

/** Parses a DOC payload, or throws `invalid_argument`. */
export function readSync(payload: Uint8Array): SyncMessage {
  try {
    const decoder = decoding.createDecoder(payload)
    const channel = decoding.readVarUint(decoder)
    const kind = decoding.readVarUint(decoder)
    const body = decoding.readVarUint8Array(decoder)
    if (channel === DOC_SYNC && kind === STEP_1) return { kind: 'wants', stateVector: body }
    if (channel === DOC_SYNC && (kind === STEP_2 || kind === UPDATE)) return { kind: 'brings', update: body }
  } catch (thrown) {
    throw new RoomdError('invalid_argument', `DOC frame: truncated sync message (${String(thrown)})`)
  }
  throw new RoomdError(
    'invalid_argument',
    'DOC frame: expected a y-protocols sync message behind a zero byte',
  )
}

export const writeWants = (stateVector: Uint8Array): Uint8Array => write(STEP_1, stateVector)
export const writeAnswer = (update: Uint8Array): Uint8Array => write(STEP_2, update)
export const writeUpdate = (update: Uint8Array): Uint8Array => write(UPDATE, update)

function write(kind: number, body: Uint8Array): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, DOC_SYNC)
  encoding.writeVarUint(encoder, kind)
  encoding.writeVarUint8Array(encoder, body)
  return encoding.toUint8Array(encoder)
}
