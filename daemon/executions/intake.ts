/**
 * Host events that came and were not taken yet: in order, with their large values on the way to blobs, and with the time at which
 * they are to be taken.
 *
 * A batch is everything that came until its time. What ends or asks (`urgent`) is taken at once and takes all before it along; an
 * output is taken after lingerMs, so that the end of a short run is in the same commit; stream text and display updates are taken
 * at most every paceMs, or when paceBytes have come; what tells nothing waits for company. An item whose blobs are not durable
 * yet holds back what follows it: order is kept, and no row names a blob that is not there.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { Blobs } from './blobs.ts'
import { type Reply, readMessage, readReply, type Told } from './messages.ts'
import type { ExecutionLimits } from './options.ts'
import { needsBlobs, storeBundle } from './values.ts'

/** How long events that tell an execution nothing may wait for their acknowledgement. */
const QUIET_MS = 1000
/** How long to wait before a blob is written again that could not be. */
const BLOB_RETRY_MS = 3000
/** Counted for each event beside its text. */
const OVERHEAD = 256

export interface IntakeItem {
  readonly kernel: Kernel
  readonly event: HostEvent
  /** The execution it belongs to, as far as the message says. */
  readonly parent: string | null
  told: Told
  /** Of `settled`. */
  reply: Reply | null
  ready: boolean
  /** UTF-16 units of text, or bytes of a comm's binary values. */
  readonly bytes: number
}

export class Intake {
  readonly #clock: Clock
  readonly #limits: ExecutionLimits
  readonly #blobs: Blobs
  readonly #log: Logger
  readonly #take: () => void
  #items: IntakeItem[] = []
  #head = 0
  #bytes = 0
  #due = Number.POSITIVE_INFINITY
  #cancelTimer: (() => void) | null = null
  #called = false
  #pacedAt = Number.NEGATIVE_INFINITY
  #disposed = false
  #whenEmpty: (() => void)[] = []

  /** `take` is called when it is time; it takes what it wants with `next` and says `taken`. */
  constructor(options: {
    clock: Clock
    limits: ExecutionLimits
    blobs: Blobs
    log: Logger
    take: () => void
  }) {
    this.#clock = options.clock
    this.#limits = options.limits
    this.#blobs = options.blobs
    this.#log = options.log
    this.#take = options.take
  }

  get empty(): boolean {
    return this.#head >= this.#items.length
  }

  /** Whether it is time to take something. */
  get due(): boolean {
    return !this.empty && (this.#due <= this.#clock.now() || this.#bytes >= this.#limits.paceBytes)
  }

  push(kernel: Kernel, event: HostEvent): void {
    const told: Told = event.kind === 'message' ? readMessage(event.message) : { kind: 'other' }
    const item: IntakeItem = {
      kernel,
      event,
      parent: event.kind === 'message' ? event.message.parent_id : null,
      told,
      reply: event.kind === 'settled' && event.reply !== null ? readReply(event.reply) : null,
      ready: true,
      bytes: weigh(told),
    }
    this.#items.push(item)
    this.#bytes += OVERHEAD + item.bytes
    this.#makeReady(item)
    this.#wakeIn(this.#bytes >= this.#limits.paceBytes ? 0 : this.#delay(item))
  }

  /** The first item, unless there is none or it is not ready. */
  peek(): IntakeItem | null {
    const item = this.#items[this.#head]
    return item?.ready ? item : null
  }

  /** Removes the first item. */
  shift(): void {
    const item = this.#items[this.#head++]
    if (!item) return
    this.#bytes -= OVERHEAD + item.bytes
    if (isPaced(item.told)) this.#pacedAt = this.#clock.now()
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
  }

  /** After taking: what is left is taken when its time comes; at once when only the slice was full. */
  taken(sliceFull: boolean): void {
    this.#due = Number.POSITIVE_INFINITY
    this.#cancelTimer?.()
    this.#cancelTimer = null
    if (this.empty) {
      this.#items = []
      this.#head = 0
      for (const resolve of this.#whenEmpty.splice(0)) resolve()
    } else if (sliceFull) this.#due = this.#clock.now()
  }

  /** Resolves when everything that came until now and until then is taken. */
  whenEmpty(): Promise<void> {
    return this.empty ? Promise.resolve() : new Promise((resolve) => this.#whenEmpty.push(resolve))
  }

  /** `take` is to be called at this clock time even if nothing comes. */
  wakeAt(time: number): void {
    this.#wakeIn(Math.max(0, time - this.#clock.now()))
  }

  dispose(): void {
    this.#disposed = true
    this.#cancelTimer?.()
    this.#items = []
    this.#head = 0
  }

  #delay(item: IntakeItem): number {
    const { lingerMs } = this.#limits
    switch (item.event.kind) {
      case 'settled':
      case 'died':
      case 'gap':
        return 0
      case 'ready':
      case 'connection':
        return QUIET_MS
      case 'message':
        switch (item.told.kind) {
          case 'input_request':
            return 0
          case 'comm_msg':
            return isPaced(item.told) ? this.#pace() : lingerMs
          case 'comm_open':
          case 'comm_close':
          case 'display':
          case 'result':
          case 'error':
          case 'clear':
            return lingerMs
          case 'stream':
          case 'update':
            return this.#pace()
          case 'input':
            return 3 * lingerMs
          case 'status':
          case 'other':
            return QUIET_MS
        }
    }
  }

  #pace(): number {
    const { lingerMs, paceMs } = this.#limits
    return Math.max(lingerMs, this.#pacedAt + paceMs - this.#clock.now())
  }

  #wakeIn(ms: number): void {
    const due = this.#clock.now() + ms
    if (due >= this.#due && (this.#called || this.#cancelTimer)) return
    this.#due = Math.min(due, this.#due)
    this.#cancelTimer?.()
    this.#cancelTimer = null
    if (ms > 0) {
      this.#cancelTimer = this.#clock.after(ms, () => {
        this.#cancelTimer = null
        this.#take()
      })
    } else if (!this.#called) {
      this.#called = true
      // At the end of this turn's events, not after each.
      queueMicrotask(() => {
        this.#called = false
        if (!this.#disposed) this.#take()
      })
    }
  }

  #makeReady(item: IntakeItem): void {
    const { told, reply } = item
    if (told.kind === 'display' || told.kind === 'result' || told.kind === 'update') {
      if (!needsBlobs(told.display.data)) return
      this.#store(item, async () => {
        const data = await storeBundle(told.display.data, this.#blobs)
        item.told = { ...told, display: { ...told.display, data } }
      })
    } else if (reply?.status === 'ok' && reply.pages.some(needsBlobs)) {
      this.#store(item, async () => {
        const pages = await Promise.all(reply.pages.map((page) => storeBundle(page, this.#blobs)))
        item.reply = { ...reply, pages }
      })
    }
  }

  /** Tries until it works: while nothing can be written, the kernel's events stay with its host. */
  #store(item: IntakeItem, attempt: () => Promise<void>): void {
    item.ready = false
    attempt().then(
      () => {
        item.ready = true
        if (!this.#disposed && this.#items[this.#head] === item) this.#take()
      },
      (error: unknown) => {
        if (this.#disposed) return
        this.#log.error({ error: String(error) }, 'an output could not be stored; trying again')
        this.#clock.after(BLOB_RETRY_MS, () => {
          if (!this.#disposed) this.#store(item, attempt)
        })
      },
    )
  }
}

/** What is told at most every paceMs: of it only the newest or the sum counts. */
function isPaced(told: Told): boolean {
  if (told.kind === 'comm_msg') return told.data.method === 'update' || told.data.method === 'echo_update'
  return told.kind === 'stream' || told.kind === 'update'
}

function weigh(told: Told): number {
  switch (told.kind) {
    case 'stream':
      return told.text.length
    case 'comm_open':
    case 'comm_msg': {
      let bytes = 0
      for (const buffer of told.buffers) bytes += buffer.length
      return bytes
    }
    default:
      return 0
  }
}
