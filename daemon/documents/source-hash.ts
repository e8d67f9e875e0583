/** The hash that names a cell's source in expectations. */
import { createHash } from 'node:crypto'

/** First 16 hex digits of SHA-256 of the UTF-8 text. */
export function sourceHash(source: string): string {
  return createHash('sha256').update(source, 'utf8').digest('hex').slice(0, 16)
}
