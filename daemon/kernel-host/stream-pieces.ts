/**
 * Cuts a giant `stream` message into pieces without ever holding its text as one string: a kernel that prints 100 MB at once
 * sends one message, and parsing it whole would cost several times its size in every process it passes. A piece is a
 * `stream` content of its own; together they are the same text in the same order.
 */
import { isAscii } from 'node:buffer'

/** Contents above this are cut. */
export const GIANT_BYTES = 1024 * 1024
/** About the size of a piece in bytes of JSON: small enough for the young generation, where what is passed on at once is free. */
const PIECE_BYTES = 96 * 1024

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75

/**
 * The pieces of a giant stream's content, or null when the message is small, no stream, or not laid out as
 * `{"name": …, "text": …}`: then it is to be parsed whole.
 */
export function giantStream(
  msgType: string,
  content: Buffer,
): Iterable<{ name: string; text: string }> | null {
  if (msgType !== 'stream' || content.length <= GIANT_BYTES) return null
  const frame = findText(content)
  return frame === null ? null : pieces(content, frame)
}

function* pieces(content: Buffer, frame: Frame): Generator<{ name: string; text: string }> {
  let from = frame.start
  while (from < frame.end) {
    const to = safeCut(content, from, Math.min(from + PIECE_BYTES, frame.end), frame.end)
    yield { name: frame.name, text: textOf(content, from, to) }
    from = to
  }
}

/** The text of a slice of a JSON string's inside. The bytes around it are changed for a moment. */
function textOf(content: Buffer, from: number, to: number): string {
  const slice = content.subarray(from, to)
  const encoding = isAscii(slice) ? 'latin1' : 'utf8'
  if (!slice.includes(BACKSLASH)) return slice.toString(encoding)
  // In quotes it is a JSON string. They are put into the buffer: joining strings would copy the slice once more.
  const before = content[from - 1] ?? QUOTE
  const after = content[to] ?? QUOTE
  content[from - 1] = QUOTE
  content[to] = QUOTE
  try {
    return JSON.parse(content.toString(encoding, from - 1, to + 1)) as string
  } finally {
    content[from - 1] = before
    content[to] = after
  }
}

interface Frame {
  readonly name: string
  /** Offsets of the text's inside. */
  readonly start: number
  readonly end: number
}

/** Both orders of the two members occur: Python writes name first, R sorts otherwise. */
function findText(content: Buffer): Frame | null {
  const head = /^\s*\{\s*(?:"name"\s*:\s*"(\w+)"\s*,\s*)?"text"\s*:\s*"/.exec(
    content.toString('latin1', 0, 200),
  )
  if (head === null) return null
  const tail = /"\s*(?:,\s*"name"\s*:\s*"(\w+)"\s*)?\}\s*$/.exec(
    content.toString('latin1', Math.max(head[0].length, content.length - 200)),
  )
  const name = head[1] ?? tail?.[1]
  if (tail === null || name === undefined || (head[1] !== undefined && tail[1] !== undefined)) return null
  const start = head[0].length
  const end = content.length - tail[0].length
  // The closing quote must close the text: an even number of backslashes before it, and no bare quote in the text itself.
  if (backslashesBefore(content, end) % 2 !== 0) return null
  for (let at = content.indexOf(QUOTE, start); at !== -1 && at < end; at = content.indexOf(QUOTE, at + 1))
    if (backslashesBefore(content, at) % 2 === 0) return null
  return { name, start, end }
}

function backslashesBefore(content: Buffer, at: number, floor = 0): number {
  let count = 0
  while (at - 1 - count >= floor && content[at - 1 - count] === BACKSLASH) count++
  return count
}

/** The last place at or before `to` that cuts no character, no escape and no surrogate pair. `from` is such a place. */
function safeCut(content: Buffer, from: number, to: number, end: number): number {
  if (to === end) return end
  let cut = to
  // UTF-8 continuation bytes belong to the character before.
  while (cut > from && ((content[cut] ?? 0) & 0xc0) === 0x80) cut--
  // An escape is at most 6 bytes (\uXXXX), a pair 12: one that reaches over the cut begins in the last 12 bytes.
  let at = Math.max(from, cut - 12)
  at += backslashesBefore(content, at, from) % 2
  while (at < cut) {
    if (content[at] !== BACKSLASH) {
      at++
      continue
    }
    const length = content[at + 1] === LETTER_U ? 6 : 2
    const high = length === 6 && /^[dD][89abAB]$/.test(content.toString('latin1', at + 2, at + 4))
    const paired = high && content[at + 6] === BACKSLASH && content[at + 7] === LETTER_U
    const whole = paired ? 12 : length
    if (at + whole > cut) return at > from ? at : end
    at += whole
  }
  return cut > from ? cut : end
}
