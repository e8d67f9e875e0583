/**
 * Which mime types are binary. In a mime bundle a binary value is base64 text (Jupyter's way); moved to a blob it is the bytes
 * themselves, so that `/blob/…` serves an image as an image. All other values are UTF-8 text there, JSON values as JSON.
 */

/** Whether a blob of this mime type holds raw bytes. `image/svg+xml` and everything `+xml`, `+json` or `text/…` is text. */
export function isBinaryMime(mime: string): boolean {
  const type = mime.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (type.startsWith('text/') || /[+/](xml|json|javascript|ecmascript|latex)$/.test(type)) return false
  return (
    /^(image|audio|video|font)\//.test(type) ||
    ['application/pdf', 'application/octet-stream', 'application/zip', 'application/gzip'].includes(type)
  )
}

/** Whether a mime bundle's value of this type is a JSON value rather than text (nbformat: `application/json` and `…+json`). */
export function isJsonMime(mime: string): boolean {
  const type = mime.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  return type === 'application/json' || type.endsWith('+json')
}
