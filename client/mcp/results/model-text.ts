/**
 * Text as a model should see it: no terminal control sequences, carriage returns as a terminal would show them, no base64, and no
 * more than it asked for, with the beginning, the end and a line that says what is missing between them.
 */
import { stripVTControlCharacters } from 'node:util'
import type { TextValue } from '../../../protocol/notebook.ts'

/** Bytes of text of one output that a model gets unasked. */
export const OUTPUT_TEXT = 8 * 1024

/** Cleaned of what only a terminal needs. */
export function plain(text: string): string {
  return withoutBase64(resolveCarriageReturns(stripVTControlCharacters(text)))
}

/** Each line as it stands after its carriage returns and backspaces; other control characters are dropped. */
export function resolveCarriageReturns(text: string): string {
  const lines = /[\r\b]/.test(text) ? text.split('\n').map(resolveLine).join('\n') : text
  return lines.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '')
}

function resolveLine(line: string): string {
  const whole = line.endsWith('\r') ? line.slice(0, -1) : line
  if (!/[\r\b]/.test(whole)) return whole
  const shown: string[] = []
  let at = 0
  for (const character of whole) {
    if (character === '\r') at = 0
    else if (character === '\b') at = Math.max(0, at - 1)
    else shown[at++] = character
  }
  return shown.join('')
}

/** Embedded data (images in HTML, say) by its size only. */
function withoutBase64(text: string): string {
  return text.replace(/;base64,([A-Za-z0-9+/=\s]{64,})/g, (_whole, data: string) => {
    return `;base64,[${sizeOf(Math.floor((data.length * 3) / 4))} left out]`
  })
}

export interface Shortened {
  readonly text: string
  /** Characters that are not in it. */
  readonly omitted: number
}

/** Head and tail within `limit` bytes, with `note(omitted)` on a line between them. */
export function shorten(
  value: TextValue,
  note: (omittedChars: number) => string,
  limit = OUTPUT_TEXT,
): Shortened {
  if (typeof value === 'string') {
    const clean = plain(value)
    if (Buffer.byteLength(clean) <= limit) return { text: clean, omitted: 0 }
    return join(clean, clean, clean.length, note, limit)
  }
  const head = plain(value.head)
  const tail = plain(value.tail)
  // Cleaning both ends takes away from what they stand for; what is between them is only known raw.
  const between = Math.max(0, value.chars - value.head.length - value.tail.length)
  if (between === 0 && Buffer.byteLength(head) + Buffer.byteLength(tail) <= limit)
    return { text: head + tail, omitted: 0 }
  return join(head, tail, between + head.length + tail.length, note, limit)
}

function join(
  head: string,
  tail: string,
  total: number,
  note: (omitted: number) => string,
  limit: number,
): Shortened {
  const first = lineEnd(cutToBytes(head, Math.floor(limit / 2)))
  const last = lineStart(lastBytes(tail, Math.floor(limit / 2)))
  const omitted = Math.max(0, total - first.length - last.length)
  return { text: `${first.replace(/\n$/, '')}\n… ${note(omitted)} …\n${last}`, omitted }
}

/** Ends with a whole line where that costs little. */
function lineEnd(text: string): string {
  const end = text.lastIndexOf('\n')
  return end > text.length * 0.75 ? text.slice(0, end + 1) : text
}

function lineStart(text: string): string {
  const start = text.indexOf('\n')
  return start >= 0 && start < text.length * 0.25 ? text.slice(start + 1) : text
}

/** The longest beginning within `bytes` of UTF-8; never half a surrogate pair. */
export function cutToBytes(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text
  const buffer = Buffer.from(text)
  if (buffer.length <= bytes) return text
  let end = bytes
  while (end > 0 && ((buffer[end] ?? 0) & 0xc0) === 0x80) end--
  return buffer.toString('utf8', 0, end)
}

/** The longest end within `bytes` of UTF-8. */
export function lastBytes(text: string, bytes: number): string {
  const buffer = Buffer.from(text)
  if (buffer.length <= bytes) return text
  let start = buffer.length - bytes
  while (start < buffer.length && ((buffer[start] ?? 0) & 0xc0) === 0x80) start++
  return buffer.toString('utf8', start)
}

/** One line of at most `width` characters. */
export function oneLine(text: string, width: number): string {
  const line = plain(text).replace(/\s+/g, ' ').trim()
  return line.length <= width ? line : `${[...line].slice(0, width - 1).join('')}…`
}

/** `512 B`, `12.3 KiB`, `4.0 MiB`. */
export function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}

/** `12,345`. */
export function count(value: number): string {
  return value.toLocaleString('en-US')
}

/** `1 cell`, `3 cells`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`
}
