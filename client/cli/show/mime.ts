/** What a terminal shows of a mime bundle: the best text there is, and a line for what it cannot show. */
import type { MimeBundle } from '../../../protocol/notebook.ts'
import { size } from './readable.ts'

/** Text forms a terminal can show, best first. */
const texts = ['text/plain', 'text/markdown', 'text/latex', 'application/json', 'image/svg+xml', 'text/html']

export interface Shown {
  /** Mime type whose text is to be printed; null where there is none. */
  readonly mime: string | null
  /** Its text, or undefined where it is a blob to be read. */
  readonly text: string | undefined
  /** What else there is, e.g. `image/png 12.3 KiB`. */
  readonly besides: string[]
}

export function showBundle(data: MimeBundle): Shown {
  const mime = texts.find((name) => name in data) ?? null
  const besides = Object.entries(data)
    .filter(([name]) => name !== mime && (name.startsWith('image/') || mime === null))
    .map(([name, value]) => `${name} ${size(sizeOf(name, value))}`)
  return { mime, text: mime === null ? undefined : textOf(data[mime]), besides }
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (isBlobRef(value)) return undefined
  return JSON.stringify(value, null, 2)
}

function sizeOf(mime: string, value: unknown): number {
  if (isBlobRef(value)) return value.size
  const text = textOf(value) ?? ''
  // Binary values travel as base64.
  const binary = mime.startsWith('image/') && mime !== 'image/svg+xml'
  return binary ? Math.floor((text.length * 3) / 4) : Buffer.byteLength(text)
}

function isBlobRef(value: unknown): value is { blob: string; size: number } {
  return typeof value === 'object' && value !== null && 'blob' in value && 'size' in value
}
