/**
 * MessagePack as plain maps, without msgpackr's record extension, so that other languages can speak the protocol. Imported
 * from the pure JavaScript entries: the SDK loads no native module.
 */
import { Packr } from 'msgpackr/pack'
import { Unpackr } from 'msgpackr/unpack'

const settings = {
  useRecords: false,
  mapsAsObjects: true,
  int64AsType: 'number',
  encodeUndefinedAsNil: false,
} as const
const packr = new Packr({ ...settings, variableMapSize: true, skipValues: [undefined] } as never)
const unpackr = new Unpackr(settings as never)

/** Encodes a value; absent and `undefined` members are the same. The bytes are the caller's own. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(packr.pack(value))
}

/** Decodes one value. Throws on bytes that are no single MessagePack value. */
export function decode(bytes: Uint8Array): unknown {
  return unpackr.unpack(bytes)
}
