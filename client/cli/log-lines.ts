/** Reading the end of a log file, and showing pino's JSON lines as text. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Style } from './terminal.ts'

/** The last `count` lines of the first `end` bytes of a file; none where there is no file. Reads backwards, so a long log costs nothing. */
export function lastLines(file: string, count: number, end = Number.POSITIVE_INFINITY): string[] {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  try {
    const pieces: Buffer[] = []
    let position = Math.min(end, fstatSync(descriptor).size)
    let newlines = 0
    while (position > 0 && newlines <= count) {
      const length = Math.min(64 * 1024, position)
      position -= length
      const piece = Buffer.alloc(length)
      readSync(descriptor, piece, 0, length, position)
      for (const byte of piece) if (byte === 0x0a) newlines++
      pieces.unshift(piece)
    }
    const lines = Buffer.concat(pieces).toString('utf8').split('\n')
    if (lines.at(-1) === '') lines.pop()
    return count === 0 ? [] : lines.slice(-count)
  } finally {
    closeSync(descriptor)
  }
}

const styles: Record<string, Style> = {
  trace: 'dim',
  debug: 'dim',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
}

/** Fields that say nothing to a reader of one daemon's log. */
const unsaid = new Set(['level', 'time', 'msg', 'pid', 'hostname', 'v'])

/** `12:04:31.220 WARN  message  field=value`. A line that is no JSON object stays as it is. */
export function readableLogLine(line: string, paint: (style: Style, text: string) => string): string {
  let entry: Record<string, unknown>
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return line
    entry = value as Record<string, unknown>
  } catch {
    return line
  }
  const level = String(entry.level ?? '')
  const fields = Object.entries(entry)
    .filter(([name]) => !unsaid.has(name))
    .map(([name, value]) => `${name}=${fieldText(value)}`)
  const parts = [
    paint('dim', timeOf(entry.time)),
    paint(styles[level] ?? 'dim', level.toUpperCase().padEnd(5)),
    String(entry.msg ?? ''),
    fields.length === 0 ? '' : paint('dim', fields.join(' ')),
  ]
  return parts.filter((part) => part !== '').join(' ')
}

/** An error's stack is for reading: its lines follow as they are. */
function fieldText(value: unknown): string {
  if (typeof value === 'string') return value
  const stack = (value as { stack?: unknown } | null)?.stack
  return typeof stack === 'string' ? stack : JSON.stringify(value)
}

function timeOf(time: unknown): string {
  const date = new Date(typeof time === 'number' || typeof time === 'string' ? time : Number.NaN)
  if (Number.isNaN(date.getTime())) return ''
  const pad = (value: number, digits: number) => String(value).padStart(digits, '0')
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1, 2)}-${pad(date.getDate(), 2)}`
  const clock = `${pad(date.getHours(), 2)}:${pad(date.getMinutes(), 2)}:${pad(date.getSeconds(), 2)}`
  return `${day} ${clock}.${pad(date.getMilliseconds(), 3)}`
}
