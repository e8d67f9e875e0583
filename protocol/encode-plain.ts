/**
 * MessagePack of plain data: maps, lists, texts, numbers, booleans, nil, bytes. Nearly all that is sent is that, in small values, and
 * for these msgpackr takes two to three times as long, since it can do much more. What is not plain is left to it: `encodePlain`
 * then returns null and nothing has happened. The bytes mean the same as msgpackr's; a test compares them.
 */

const START = 8 * 1024
/** The scratch buffer grows with the largest value; above this it is given back at once. */
const KEPT = 1024 * 1024
/** Texts up to so many characters are written here; longer ones by the platform, which is faster for them. */
const SHORT = 64

let bytes = new Uint8Array(START)
let view = new DataView(bytes.buffer)
let at = 0

const encoder = new TextEncoder()

/** The bytes are the caller's own. null: it holds something that is not plain. */
export function encodePlain(value: unknown): Uint8Array<ArrayBuffer> | null {
  at = 0
  const plain = write(value)
  const encoded = plain ? bytes.slice(0, at) : null
  if (bytes.length > KEPT) {
    bytes = new Uint8Array(START)
    view = new DataView(bytes.buffer)
  }
  return encoded
}

function room(count: number): void {
  if (at + count <= bytes.length) return
  const grown = new Uint8Array(Math.max(bytes.length * 2, at + count))
  grown.set(bytes.subarray(0, at))
  bytes = grown
  view = new DataView(bytes.buffer)
}

function write(value: unknown): boolean {
  switch (typeof value) {
    case 'string':
      text(value)
      return true
    case 'number':
      number(value)
      return true
    case 'boolean':
      room(1)
      bytes[at++] = value ? 0xc3 : 0xc2
      return true
    case 'undefined':
      nil()
      return true
    case 'object':
      if (value === null) {
        nil()
        return true
      }
      if (Array.isArray(value)) return list(value)
      if (value.constructor === Object) return map(value as Record<string, unknown>)
      if (value instanceof Uint8Array) {
        binary(value)
        return true
      }
      return false
    default:
      return false
  }
}

function nil(): void {
  room(1)
  bytes[at++] = 0xc0
}

function list(values: readonly unknown[]): boolean {
  counted(values.length, 0x90, 0xdc)
  for (let i = 0; i < values.length; i++) if (!write(values[i])) return false
  return true
}

/** Members that are undefined are absent; their number shows behind the others only. */
function map(value: Record<string, unknown>): boolean {
  const names = Object.keys(value)
  const start = at
  counted(names.length, 0x80, 0xde)
  let absent = 0
  for (const name of names) {
    const member = value[name]
    if (member === undefined) {
      absent++
      continue
    }
    text(name)
    if (!write(member)) return false
  }
  if (absent === 0) return true
  const count = names.length - absent
  // The header keeps its length: a longer one than needed means the same.
  if (names.length < 16) bytes[start] = 0x80 | count
  else if (names.length < 0x10000) view.setUint16(start + 1, count)
  else view.setUint32(start + 1, count)
  return true
}

/** Header of a list or map: `fix` for less than 16, `wide` with 16 bits, the next one with 32. */
function counted(count: number, fix: number, wide: number): void {
  room(5)
  if (count < 16) bytes[at++] = fix | count
  else if (count < 0x10000) tagged16(wide, count)
  else tagged32(wide + 1, count)
}

/** A number from 0 behind `tag` with 8 bits, the next one with 16, the one behind with 32. */
function sized(tag: number, value: number): void {
  if (value < 0x100) tagged8(tag, value)
  else if (value < 0x10000) tagged16(tag + 1, value)
  else tagged32(tag + 2, value)
}

/** These keep the low bits of a number, so that they serve for negative ones too. */
function tagged8(tag: number, value: number): void {
  bytes[at] = tag
  bytes[at + 1] = value
  at += 2
}

function tagged16(tag: number, value: number): void {
  bytes[at] = tag
  view.setUint16(at + 1, value)
  at += 3
}

function tagged32(tag: number, value: number): void {
  bytes[at] = tag
  view.setUint32(at + 1, value)
  at += 5
}

/** Whole numbers up to 32 bits as such, all others as float64. */
function number(value: number): void {
  room(9)
  if (value >>> 0 === value) {
    if (value < 0x80) bytes[at++] = value
    else sized(0xcc, value)
  } else if (value >> 0 === value) {
    if (value >= -0x20) bytes[at++] = value
    else if (value >= -0x80) tagged8(0xd0, value)
    else if (value >= -0x8000) tagged16(0xd1, value)
    else tagged32(0xd2, value)
  } else {
    bytes[at] = 0xcb
    view.setFloat64(at + 1, value)
    at += 9
  }
}

function binary(value: Uint8Array): void {
  room(5 + value.length)
  sized(0xc4, value.length)
  bytes.set(value, at)
  at += value.length
}

function text(value: string): void {
  const { length } = value
  room(5 + length * 3)
  // How long the header is, is known behind the text only: ASCII is the rule, so that nearly always nothing moves.
  const guess = headerOf(length)
  const from = at + guess
  const end = length < SHORT ? short(value, from) : from + long(value, from)
  const written = end - from
  const header = headerOf(written)
  if (header !== guess) bytes.copyWithin(at + header, from, end)
  if (header === 1) bytes[at++] = 0xa0 | written
  else sized(0xd9, written)
  at += written
}

function headerOf(length: number): number {
  return length < 0x20 ? 1 : length < 0x100 ? 2 : length < 0x10000 ? 3 : 5
}

/** UTF-8; half a surrogate pair becomes U+FFFD, as everywhere in the platform. Returns the end. */
function short(value: string, from: number): number {
  let to = from
  for (let i = 0; i < value.length; i++) {
    let code = value.charCodeAt(i)
    if (code < 0x80) {
      bytes[to++] = code
      continue
    }
    if (code < 0x800) {
      bytes[to++] = (code >> 6) | 0xc0
      bytes[to++] = (code & 0x3f) | 0x80
      continue
    }
    const next = i + 1 < value.length ? value.charCodeAt(i + 1) : 0
    if ((code & 0xfc00) === 0xd800 && (next & 0xfc00) === 0xdc00) {
      i++
      code = 0x10000 + ((code & 0x3ff) << 10) + (next & 0x3ff)
      bytes[to++] = (code >> 18) | 0xf0
      bytes[to++] = ((code >> 12) & 0x3f) | 0x80
    } else {
      if ((code & 0xf800) === 0xd800) code = 0xfffd
      bytes[to++] = (code >> 12) | 0xe0
    }
    bytes[to++] = ((code >> 6) & 0x3f) | 0x80
    bytes[to++] = (code & 0x3f) | 0x80
  }
  return to
}

function long(value: string, from: number): number {
  return encoder.encodeInto(value, bytes.subarray(from)).written
}
