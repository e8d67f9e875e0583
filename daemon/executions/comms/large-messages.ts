/** Messages too large for their events (frames of a moving picture, say): the newest are kept in memory for whoever reads them in time. */
import type { CommContent } from '../../../protocol/comms.ts'

const KEPT_BYTES = 32 * 1024 * 1024

export class LargeMessages {
  readonly #kept = new Map<string, { content: CommContent; bytes: number }>()
  #bytes = 0

  add(messageId: string, content: CommContent, bytes: number): void {
    this.#kept.set(messageId, { content, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: size }] of this.#kept) {
      // The newest stays, however large.
      if (this.#bytes <= KEPT_BYTES || oldest === messageId) break
      this.#kept.delete(oldest)
      this.#bytes -= size
    }
  }

  get empty(): boolean {
    return this.#kept.size === 0
  }

  get(messageId: string): CommContent | undefined {
    return this.#kept.get(messageId)?.content
  }

  clear(): void {
    this.#kept.clear()
    this.#bytes = 0
  }
}
