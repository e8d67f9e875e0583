/**
 * The end of an output that is longer than its limit: the newest outputs, of which the oldest is left out first, and how many bytes are
 * missing before them. Its rows count on from that of the marker. While the run goes on peers see one preview of it, now and then.
 */
import type { Output } from '../../protocol/notebook.ts'
import { type Entry, entryBytes, OVERHEAD } from './output-entry.ts'
import { longText, SHOWN_UNITS } from './reading.ts'

/** Milliseconds between two previews. */
const PREVIEW_MS = 1000

export class OutputTail {
  /** `output_index` of the marker's row. */
  readonly index: number
  readonly entries: Entry[] = []
  /** Bytes kept of it. */
  bytes = 0
  missing: number
  /** Something came since the preview was last told. */
  #stale = true
  /** When the preview was last told (clock time); 0: never. */
  #previewAt = 0

  constructor(index: number, missing: number) {
    this.index = index
    this.missing = missing
  }

  /** Peers have been told the preview. */
  get previewed(): boolean {
    return this.#previewAt > 0
  }

  add(entry: Entry): void {
    this.entries.push(entry)
    this.bytes += entryBytes(entry)
  }

  /** An entry became so many bytes longer. */
  grew(bytes: number): void {
    this.bytes += bytes
    this.#stale = true
  }

  /** Leaves out the oldest until at most `limit` bytes are kept: entries that went, and one that lost its beginning. */
  trim(limit: number): { readonly removed: readonly Entry[]; readonly cut: Entry | null } {
    const removed: Entry[] = []
    while (this.bytes > limit) {
      const [oldest] = this.entries
      if (!oldest) break
      const over = this.bytes - limit
      const alone = this.entries.length === 1
      if (oldest.content.kind === 'stream' && (alone || oldest.content.stream.bytes > over)) {
        const cut = oldest.content.stream.cutFront(over)
        this.bytes -= cut
        this.missing += cut
        // The last piece stays: it may be over the limit by less than its own length.
        if (cut >= over || alone) return { removed, cut: cut > 0 ? oldest : null }
      }
      this.entries.shift()
      this.bytes -= entryBytes(oldest)
      this.missing += entryBytes(oldest) - OVERHEAD
      removed.push(oldest)
    }
    return { removed, cut: null }
  }

  /** Whether the preview is to be told at `now`; else when it is (clock time), or null when it is up to date. */
  previewDue(now: number): true | number | null {
    if (!this.#stale) return null
    if (now - this.#previewAt < PREVIEW_MS) return this.#previewAt + PREVIEW_MS
    this.#previewAt = now
    this.#stale = false
    return true
  }

  preview(): Output {
    const last = this.entries.at(-1)?.content
    const end = last?.kind === 'stream' ? last.stream.snapshot().text : ''
    const shownEnd = typeof end === 'string' ? end.slice(-SHOWN_UNITS) : end.tail
    const bytes = this.bytes + this.missing
    const head = `[roomd: ${bytes} more bytes so far; they are shown when the run has ended; this is their end]\n`
    return {
      output_type: 'stream',
      name: last?.kind === 'stream' ? last.stream.name : 'stderr',
      text: longText(bytes, bytes, head, shownEnd),
    }
  }

  /** Stands for what is missing. `limit`: bytes of an execution that are kept. */
  marker(limit: number): Output {
    const text = `[roomd: ${this.missing} bytes of output are missing here; ${limit} bytes of an execution are kept]\n`
    return { output_type: 'stream', name: 'stderr', text }
  }
}
