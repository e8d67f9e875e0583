/**
 * MessagePack in the part that every language has: nil, booleans, numbers, strings, binary, arrays, maps. No extension types
 * are written or read (msgpackr's records, dates, sets, references, …), so that other languages can speak the protocol and
 * outside bytes cannot make anything but plain data. Imported from the pure JavaScript entries: no native module is loaded.
 *
 * As JSON does it: an `undefined` member is absent, `undefined` in an array is nil, a Date is its ISO text. Integers beyond 32
 * bits are written as float64. Any typed array is binary.
 */
import { addExtension, Packr, RESET_BUFFER_MODE } from 'msgpackr/pack'
import { Unpackr } from 'msgpackr/unpack'
import { encodePlain } from './encode-plain.ts'
import { RoomdError } from './errors.ts'

/** The scratch buffer grows with the largest value; above this it is given back at once. */
const SCRATCH_MAX = 1024 * 1024
const SCRATCH_START = 8 * 1024

// msgpackr keeps extensions for the whole module; nothing else in our processes uses it. Type numbers are those it knows.
for (const type of [0x00, 0x42, 0x62, 0x65, 0x69, 0x70, 0x72, 0x73, 0x74, 0x78, 0xff]) {
  addExtension({
    type,
    unpack: () => {
      throw new Error(`extension type ${type} is not part of the protocol`)
    },
  })
}
addExtension({ Class: Date, write: (date: Date) => date.toJSON() } as never)

const packr = new Packr({
  useRecords: false,
  variableMapSize: true,
  skipValues: [undefined],
  encodeUndefinedAsNil: true,
  writeFunction: () => {
    throw new TypeError('a function cannot travel')
  },
} as never)

const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'number' } as never)
// Record definitions are read before extensions are looked up; with nowhere to keep them they fail.
Object.assign(unpackr, { structures: Object.freeze([]) })

/** Encodes a value with one copy. The bytes are the caller's own. Throws TypeError for functions and symbols. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return encodePlain(value) ?? encodeAny(value)
}

/** As `encode`, by msgpackr alone. */
export function encodeAny(value: unknown): Uint8Array<ArrayBuffer> {
  const scratch = packr.pack(value, RESET_BUFFER_MODE)
  const bytes = new Uint8Array(scratch)
  if (scratch.buffer.byteLength > SCRATCH_MAX) {
    // In Node msgpackr writes strings with Buffer's own methods.
    packr.useBuffer(
      typeof Buffer === 'undefined' ? new Uint8Array(SCRATCH_START) : Buffer.allocUnsafeSlow(SCRATCH_START),
    )
  }
  return bytes
}

/**
 * Decodes exactly one value. Binary members are views of `bytes`. Throws `invalid_argument` for anything else: truncated or
 * trailing bytes, extension types.
 */
export function decode(bytes: Uint8Array): unknown {
  try {
    return unpackr.unpack(bytes)
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : String(error)
    throw new RoomdError('invalid_argument', `not one MessagePack value: ${why}`)
  }
}
