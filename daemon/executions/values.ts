/**
 * Values of mime bundles on their way into rows and back. Above INLINE_LIMIT bytes a value becomes a blob: binary types as the bytes
 * themselves, text as UTF-8, JSON as its text. A reference in a row says `as` where the bytes are not what the type implies (an
 * image that was no base64, say), so that reading gives back exactly what came.
 */
import { z } from 'zod'
import { RoomdError } from '../../protocol/errors.ts'
import { isBinaryMime, isJsonMime } from '../../protocol/mime.ts'
import { BlobRef, INLINE_LIMIT } from '../../protocol/notebook.ts'
import type { Blobs } from './blobs.ts'

/** A mime bundle as rows and views have it. */
export type Bundle = Record<string, unknown>

const StoredRef = BlobRef.extend({ as: z.enum(['bytes', 'text', 'json']).optional() })

/** The reference in a bundle's value, if it is one. */
export function blobRefOf(value: unknown): z.output<typeof StoredRef> | null {
  if (typeof value !== 'object' || value === null || !('blob' in value) || !('size' in value)) return null
  const parsed = StoredRef.safeParse(value)
  return parsed.success ? parsed.data : null
}

/** Whether some value must become a blob first; cheap for small bundles. */
export function needsBlobs(bundle: Bundle): boolean {
  return Object.values(bundle).some((value) => isLarge(value))
}

/** The bundle with large values moved to blobs, which are durable when this resolves. */
export async function storeBundle(bundle: Bundle, blobs: Blobs): Promise<Bundle> {
  const entries = Object.entries(bundle).map(async ([mime, value]): Promise<[string, unknown]> => {
    if (!isLarge(value)) return [mime, value]
    const { bytes, as } = toBytes(mime, value)
    const ref = await blobs.put(bytes)
    return [mime, as === usual(mime) ? ref : { ...ref, as }]
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** The value as Jupyter has it: text, base64 text or JSON. Rejects `not_found` when its blob is gone. */
export async function readValue(mime: string, value: unknown, blobs: Blobs): Promise<unknown> {
  const ref = blobRefOf(value)
  if (!ref) return value
  const bytes = await blobs.read(ref.blob)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  switch (ref.as ?? usual(mime)) {
    case 'bytes':
      return buffer.toString('base64')
    case 'text':
      return buffer.toString('utf8')
    case 'json':
      return parseJson(buffer.toString('utf8'), mime)
  }
}

export async function readBundle(bundle: Bundle, blobs: Blobs): Promise<Bundle> {
  const entries = Object.entries(bundle).map(
    async ([mime, value]): Promise<[string, unknown]> => [mime, await readValue(mime, value, blobs)],
  )
  return Object.fromEntries(await Promise.all(entries))
}

/** Bytes that a bundle counts against an execution's limit; what is in blobs counts too. */
export function bundleBytes(bundle: Bundle): number {
  let bytes = 0
  for (const value of Object.values(bundle)) {
    bytes +=
      blobRefOf(value)?.size ?? (typeof value === 'string' ? Buffer.byteLength(value) : jsonBytes(value))
  }
  return bytes
}

export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '')
}

function isLarge(value: unknown): boolean {
  if (typeof value === 'string')
    return (
      value.length > INLINE_LIMIT ||
      (value.length * 3 > INLINE_LIMIT && Buffer.byteLength(value) > INLINE_LIMIT)
    )
  if (typeof value !== 'object' || value === null) return false
  // A JSON value that looks like a reference must not be taken for one.
  return blobRefOf(value) !== null || jsonBytes(value) > INLINE_LIMIT
}

type Form = 'bytes' | 'text' | 'json'

function usual(mime: string): Form {
  return isBinaryMime(mime) ? 'bytes' : isJsonMime(mime) ? 'json' : 'text'
}

function toBytes(mime: string, value: unknown): { bytes: Uint8Array; as: Form } {
  if (typeof value !== 'string') return { bytes: Buffer.from(JSON.stringify(value)), as: 'json' }
  if (isBinaryMime(mime)) {
    // Kernels break base64 into lines or end it with a newline; the bytes are what it says.
    const base64 = /\s/.test(value) ? value.replace(/\s+/g, '') : value
    const bytes = Buffer.from(base64, 'base64')
    if (bytes.toString('base64') === base64) return { bytes, as: 'bytes' }
  }
  return { bytes: Buffer.from(value), as: 'text' }
}

function parseJson(text: string, mime: string): unknown {
  try {
    return JSON.parse(text)
  } catch (thrown) {
    throw new RoomdError('storage_failed', `a stored ${mime} value is not JSON any more: ${String(thrown)}`)
  }
}
