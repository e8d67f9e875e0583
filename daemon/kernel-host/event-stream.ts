/**
 * The kernel's numbered events: to disk first, then to the subscriber. What somebody waits for (`settled`, a question, a death)
 * leaves in the turn of the loop that brought it, and with it all before it; the rest within three milliseconds. So a short cell's
 * six events are one write to disk and one to the daemon, which wakes up once for them: on a busy machine waking up is what costs.
 *
 * Invariants: seq rises by one; an event is given to the subscriber only in order; what is not acknowledged is on disk, or, while
 * the disk refuses, in memory (the kernel is stopped meanwhile). The subscriber gets events straight from memory while it keeps
 * up; as soon as its connection refuses one, from the spool, however far behind it falls.
 */
import type { Clock } from '../../protocol/clock.ts'
import { encode } from '../../protocol/codec.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { Spool, SpoolRecord } from './spool.ts'

/** Where events go: one connection. */
export interface Subscriber {
  /** false: no room; `writable` of the stream is called when there is. */
  offer(payload: Uint8Array, seq: number): boolean
  /** Events are about to leave: what else there is for it may go with them. */
  flushing(): void
}

/** HostEvent without what the stream adds and without unknown fields; distributes over the union. */
type Unnumbered<E> = E extends HostEvent
  ? { [P in keyof E as string extends P ? never : P extends 'seq' | 'at' ? never : P]: E[P] }
  : never
export type NewEvent = Unnumbered<HostEvent>

export interface EventStreamOptions {
  readonly spool: Spool
  readonly firstSeq: number
  readonly clock: Clock
  /** Bytes that are not acknowledged changed, or the disk began or stopped refusing. */
  pressure(unacknowledged: number, diskRefuses: boolean): void
  trouble(message: string): void
  /** What may wait on disk when the kernel cannot be stopped; default 1 GiB. */
  readonly hardLimitBytes?: number
}

/** Sent and not acknowledged, at most; what the daemon may have to hold. A single event may be larger. */
const WINDOW_BYTES = 2 * 1024 * 1024
const READ_BYTES = 512 * 1024
const FLUSH_BYTES = 512 * 1024
/** What the disk may hold when the kernel cannot be stopped; and memory, when the disk refuses as well. */
const HARD_LIMIT_BYTES = 1024 * 1024 * 1024
const MEMORY_LIMIT_BYTES = 256 * 1024 * 1024
const RETRY_MS = 500
/** How long (ms) output waits for more of it, and what shows nothing (that a cell began) for the output or the end behind it. */
const SOON_MS = 3
const QUIET_MS = 15

export class EventStream {
  readonly #options: EventStreamOptions
  readonly #spool: Spool
  #seq: number
  /** Numbered and not on disk yet. */
  #tail: SpoolRecord[] = []
  #tailBytes = 0
  #end: number
  #flushing = false
  /** How long the flush that is due was to wait. */
  #soonMs = 0
  #cancelSoon: (() => void) | null = null
  #refused = false
  #acknowledged = 0
  #subscriber: Subscriber | null = null
  /** Last seq given to the subscriber, and the position behind it. */
  #given = 0
  #givenEnd = 0
  /** Read from the spool and not given yet. */
  #carried: SpoolRecord[] = []
  #dropped = 0
  #waiters: { seq: number; done: () => void }[] = []

  constructor(options: EventStreamOptions) {
    this.#options = options
    this.#spool = options.spool
    this.#seq = Math.max(options.firstSeq - 1, this.#spool.last)
    this.#end = this.#spool.end
  }

  get last(): number {
    return this.#seq
  }

  get acknowledged(): number {
    return this.#acknowledged
  }

  get unacknowledgedBytes(): number {
    return this.#end - this.#spool.acknowledgedEnd
  }

  /** Numbers the event; it is on disk and offered when this turn of the loop ends. Returns its seq. */
  push(event: NewEvent): number {
    if (event.kind === 'message' && event.message.channel === 'iopub' && this.#full) {
      this.#dropped++
      return this.#seq
    }
    if (this.#dropped > 0) this.#tellDropped()
    return this.#number(event)
  }

  get #full(): boolean {
    return (
      this.unacknowledgedBytes > (this.#options.hardLimitBytes ?? HARD_LIMIT_BYTES) ||
      (this.#refused && this.#tailBytes > MEMORY_LIMIT_BYTES)
    )
  }

  #number(event: NewEvent): number {
    const seq = ++this.#seq
    const payload = encode({ ...event, seq, at: this.#options.clock.now() })
    this.#end += payload.length + RECORD_OVERHEAD
    this.#tail.push({ seq, payload, end: this.#end })
    this.#tailBytes += payload.length
    if (this.#tailBytes > FLUSH_BYTES) this.flush()
    else if (isUrgent(event)) this.#flushNow()
    else this.#flushSoon(isQuiet(event) ? QUIET_MS : SOON_MS)
    return seq
  }

  #flushNow(): void {
    if (this.#flushing) return
    this.#flushing = true
    // Runs when all that this turn brought is in, and before the loop waits again.
    process.nextTick(() => this.flush())
  }

  #flushSoon(ms: number): void {
    if (this.#flushing) return
    if (this.#cancelSoon && ms >= this.#soonMs) return
    this.#cancelSoon?.()
    this.#soonMs = ms
    this.#cancelSoon = this.#options.clock.after(ms, () => this.flush())
  }

  /** Writes and offers what is waiting. */
  flush(): void {
    this.#flushing = false
    this.#cancelSoon?.()
    this.#cancelSoon = null
    this.#subscriber?.flushing()
    const batch = this.#tail
    if (batch.length === 0) return
    this.#persist()
    if (this.#subscriber !== null && this.#carried.length === 0 && this.#given === (batch[0]?.seq ?? 0) - 1)
      this.#give(batch, 0)
    else this.#pump()
    this.#options.pressure(this.unacknowledgedBytes, this.#refused)
  }

  /** Everything after `since` goes to this subscriber from now on, and to no other. */
  subscribe(subscriber: Subscriber, since: number): void {
    // What was not flushed is the new one's. The old one may be on the same connection, behind whose answer it would pass for an
    // event of the new subscription, and everything between would be taken for known.
    this.#subscriber = null
    this.flush()
    this.#subscriber = subscriber
    this.#given = since
    this.#givenEnd = this.#spool.acknowledgedEnd
    this.#carried = []
    this.#pump()
  }

  unsubscribe(subscriber: Subscriber): void {
    if (this.#subscriber !== subscriber) return
    this.#subscriber = null
    this.#carried = []
    for (const waiter of this.#waiters.splice(0)) waiter.done()
  }

  /** The subscriber's connection has room again. */
  writable(): void {
    this.#pump()
  }

  acknowledge(seq: number): void {
    if (seq <= this.#acknowledged) return
    this.#acknowledged = Math.min(seq, this.#seq)
    this.#spool.acknowledge(this.#acknowledged)
    this.#options.pressure(this.unacknowledgedBytes, this.#refused)
    this.#pump()
  }

  /** Resolves when the subscriber was given everything up to `seq`, or there is no subscriber. */
  given(seq: number): Promise<void> {
    this.flush()
    if (this.#subscriber === null || this.#given >= seq) return Promise.resolve()
    return new Promise((done) => this.#waiters.push({ seq, done }))
  }

  #persist(): void {
    try {
      this.#spool.append(this.#tail)
      this.#tail = []
      this.#tailBytes = 0
      this.#refused = false
    } catch (error) {
      if (!this.#refused) this.#options.trouble(`the spool cannot be written: ${String(error)}; trying again`)
      this.#refused = true
      this.#options.clock.after(RETRY_MS, () => this.flush())
    }
  }

  /** Gives records from `index` on while there is room; what is left over is carried. */
  #give(records: SpoolRecord[], index: number): void {
    const subscriber = this.#subscriber
    let next = index
    for (; subscriber !== null && next < records.length; next++) {
      const record = records[next]
      if (record === undefined || this.#givenEnd - this.#spool.acknowledgedEnd > WINDOW_BYTES) break
      if (!subscriber.offer(record.payload, record.seq)) break
      this.#given = record.seq
      this.#givenEnd = record.end
    }
    this.#carried = next < records.length ? records.slice(next) : []
    if (this.#waiters.length > 0) {
      const [due, waiting] = [
        this.#waiters.filter((waiter) => waiter.seq <= this.#given),
        this.#waiters.filter((waiter) => waiter.seq > this.#given),
      ]
      this.#waiters = waiting
      for (const waiter of due) waiter.done()
    }
  }

  #pump(): void {
    while (this.#subscriber !== null) {
      if (this.#carried.length === 0) this.#carried = this.#next()
      if (this.#carried.length === 0) return
      this.#give(this.#carried, 0)
      if (this.#carried.length > 0) return
    }
  }

  #next(): SpoolRecord[] {
    const stored = this.#spool.read(this.#given, READ_BYTES)
    return stored.length > 0 ? stored : this.#tail.filter((record) => record.seq > this.#given)
  }

  #tellDropped(): void {
    const dropped = this.#dropped
    this.#dropped = 0
    this.#number({
      kind: 'gap',
      reason: `${dropped} kernel messages were dropped: too many bytes waited for the daemon and the kernel could not be stopped`,
    })
  }
}

/** Somebody waits for it. */
function isUrgent(event: NewEvent): boolean {
  return event.kind !== 'message' || event.message.channel === 'stdin' || event.message.channel === 'control'
}

function isQuiet(event: NewEvent): boolean {
  if (event.kind !== 'message') return false
  const type = event.message.msg_type
  return type === 'status' || type === 'execute_input' || type === 'execute_reply'
}

/** What the spool adds to a payload. */
const RECORD_OVERHEAD = 16
