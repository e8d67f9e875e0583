/**
 * The numbered events of one room: rows for the store, bytes for the wire (the same bytes, encoded once), and the window that
 * resuming clients can be given. Newest 20,000 events or 16 MiB, 7 days; what is older is pruned with the events that push it out.
 */
import { encode } from '../../protocol/codec.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'

export const KEPT_EVENTS = 20_000
export const KEPT_BYTES = 16 * 1024 * 1024
export const KEPT_MS = 7 * 86_400_000

/** Pruning works in blocks of this many events, so that it costs one statement a block. */
const BLOCK = 256

interface Block {
  /** First number of the block. */
  readonly from: number
  bytes: number
  /** Time of its newest event. */
  at: number
}

export interface NumberedEvents {
  readonly statements: Statement[]
  /** Payloads of EVENT frames, in order. */
  readonly frames: Uint8Array[]
}

export class EventLog {
  readonly #store: Store
  readonly #notebookId: NotebookId
  #last: number
  /** Events with numbers up to it are pruned. */
  #pruned: number
  readonly #blocks: Block[]

  constructor(store: Store, notebookId: NotebookId, last: number) {
    this.#store = store
    this.#notebookId = notebookId
    this.#last = last
    const rows = store.all<{ block: number; bytes: number; at: number; low: number }>(
      `SELECT event_seq / ${BLOCK} AS block, sum(length(body)) AS bytes, max(at) AS at, min(event_seq) AS low
       FROM events WHERE notebook_id = ? GROUP BY block ORDER BY block`,
      notebookId,
    )
    this.#blocks = rows.map((row) => ({ from: row.block * BLOCK, bytes: row.bytes, at: row.at }))
    this.#pruned = (rows[0]?.low ?? last + 1) - 1
  }

  /** Number of the newest event, committed or pending. */
  get last(): number {
    return this.#last
  }

  /** Numbers events; the rows belong into the unit of the change that made them. */
  number(events: readonly DurableEvent[], at: number): NumberedEvents {
    const statements: Statement[] = []
    const frames: Uint8Array[] = []
    for (const event of events) {
      const eventSeq = ++this.#last
      const frame = encode({ event_seq: eventSeq, at, event })
      frames.push(frame)
      statements.push({
        sql: 'INSERT INTO events (notebook_id, event_seq, at, body) VALUES (?, ?, ?, ?)',
        values: [this.#notebookId, eventSeq, at, frame],
      })
      this.#account(eventSeq, frame.length, at)
    }
    const prune = this.#prune(at)
    if (prune) statements.push(prune)
    return { statements, frames }
  }

  /**
   * A reader of the events after `since` up to now, or null when some of them are not kept any more. It may be called once the
   * events that are pending now are committed.
   */
  readable(since: number): (() => Uint8Array[]) | null {
    const until = this.#last
    if (since < this.#pruned || since > until) return null
    return () =>
      this.#store
        .all<{ body: Uint8Array }>(
          'SELECT body FROM events WHERE notebook_id = ? AND event_seq > ? AND event_seq <= ? ORDER BY event_seq',
          this.#notebookId,
          since,
          until,
        )
        .map((row) => row.body)
  }

  #account(eventSeq: number, bytes: number, at: number): void {
    const from = Math.floor(eventSeq / BLOCK) * BLOCK
    const newest = this.#blocks.at(-1)
    if (newest?.from === from) {
      newest.bytes += bytes
      newest.at = at
    } else {
      this.#blocks.push({ from, bytes, at })
    }
  }

  #prune(now: number): Statement | null {
    let bytes = 0
    for (const block of this.#blocks) bytes += block.bytes
    let dropped = false
    // The newest block always stays.
    while (this.#blocks.length > 1) {
      const oldest = this.#blocks[0]
      if (!oldest) break
      const tooMany = this.#last - oldest.from - BLOCK > KEPT_EVENTS
      if (!tooMany && bytes <= KEPT_BYTES && oldest.at > now - KEPT_MS) break
      bytes -= oldest.bytes
      this.#pruned = oldest.from + BLOCK - 1
      this.#blocks.shift()
      dropped = true
    }
    if (!dropped) return null
    return {
      sql: 'DELETE FROM events WHERE notebook_id = ? AND event_seq <= ?',
      values: [this.#notebookId, this.#pruned],
    }
  }
}
