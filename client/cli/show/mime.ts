/** What a terminal shows of a mime bundle: the best text there is, and a line for what it cannot show. */
import type { MimeBundle } from '../../../protocol/notebook.ts'
import { size } from './readable.ts'

/** Text forms a terminal can show, best first. */
const texts = ['text/plain', 'text/markdown', 'text/latex', 'application/json', 'image/svg+xml', 'text/html']

export interface Shown {
  /** The text to print; '' where there is none, or where it has to be read. */
  readonly shown: string
  /** Hash of the blob that is the text to print, or null. */
  readonly blob: string | null
  /** What else there is, e.g. `image/png 12.3 KiB`. */
  readonly besides: string[]
}

export function showBundle(data: MimeBundle): Shown {
  const mime = texts.find((name) => name in data)
  const value = mime === undefined ? undefined : data[mime]
  const besides = Object.entries(data)
    .filter(([name]) => name !== mime && (name.startsWith('image/') || mime === undefined))
    .map(([name, other]) => `${name} ${size(sizeOf(name, other))}`)
  if (value === undefined) return { shown: '', blob: null, besides }
  return isBlobRef(value)
    ? { shown: '', blob: value.blob, besides }
    : { shown: textOf(value), blob: null, besides }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2)
}

function sizeOf(mime: string, value: unknown): number {
  if (isBlobRef(value)) return value.size
  const text = textOf(value)
  // Binary values travel as base64.
  const binary = mime.startsWith('image/') && mime !== 'image/svg+xml'
  return binary ? Math.floor((text.length * 3) / 4) : Buffer.byteLength(text)
}

function isBlobRef(value: unknown): value is { blob: string; size: number } {
  return typeof value === 'object' && value !== null && 'blob' in value && 'size' in value
}
