/**
 * What a blob is. A blob is bytes under their digest, without a type: the address may say one (`?type=text/html`), which whoever
 * has the output knows; else the bytes are looked at. Nothing a blob is declared as can run: see the policy in blob-route.ts.
 */

/** `type/subtype` with parameters, as RFC 9110 has it; nothing that could end a header. */
const MIME =
  /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}( *; *[a-z0-9-]+=[a-z0-9_.+-]+)*$/i
/** As much of a blob as is looked at. */
export const SNIFF_BYTES = 4096

const magic: readonly (readonly [type: string, offset: number, bytes: string])[] = [
  ['image/png', 0, '\x89PNG\r\n\x1a\n'],
  ['image/jpeg', 0, '\xff\xd8\xff'],
  ['image/gif', 0, 'GIF8'],
  ['image/webp', 8, 'WEBP'],
  ['image/bmp', 0, 'BM'],
  ['application/pdf', 0, '%PDF-'],
  ['audio/wav', 8, 'WAVE'],
  ['audio/ogg', 0, 'OggS'],
  ['audio/mpeg', 0, 'ID3'],
  ['video/webm', 0, '\x1a\x45\xdf\xa3'],
  ['video/mp4', 4, 'ftyp'],
]

/** Whether the text may be the type of a blob. */
export function isContentType(text: string): boolean {
  return text.length <= 255 && MIME.test(text)
}

/** The type as a header has it: text is UTF-8. */
export function declared(type: string): string {
  const textual = /^(text\/|application\/(json|javascript|xml)|[^;]*\+(json|xml))/i.test(type)
  return textual && !/charset=/i.test(type) ? `${type}; charset=utf-8` : type
}

/** The type of the bytes; `head` is the first SNIFF_BYTES of `size`. */
export function sniff(head: Uint8Array, size: number): string {
  const latin1 = Buffer.from(head.buffer, head.byteOffset, head.byteLength).toString('latin1')
  for (const [type, offset, bytes] of magic) if (latin1.startsWith(bytes, offset)) return type
  if (head.includes(0)) return 'application/octet-stream'
  const text = utf8(head, size > head.length)
  if (text === null) return 'application/octet-stream'
  return /^\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*|<!DOCTYPE svg[^>]*>\s*)*<svg[\s>]/is.test(text)
    ? 'image/svg+xml; charset=utf-8'
    : 'text/plain; charset=utf-8'
}

/** `cut`: the last character may be only a part of one. */
function utf8(head: Uint8Array, cut: boolean): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: cut })
  } catch {
    return null
  }
}
