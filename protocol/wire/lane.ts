/**
 * One lane on the way out: first in, first out inside a channel, one frame in turn between channels. A channel without credit is
 * taken out of the ring until credit comes; the others do not notice.
 */
import type { FrameType } from '../frames.ts'

export interface Entry {
  readonly type: FrameType
  readonly payload: Uint8Array
  /** Bytes that already left. */
  sent: number
}

/** What one channel has waiting in one lane. */
export class LaneQueue {
  readonly channel: number
  #entries: Entry[] = []
  #head = 0
  /** Standing in the lane's ring. */
  inRing = false

  constructor(channel: number) {
    this.channel = channel
  }

  get length(): number {
    return this.#entries.length - this.#head
  }

  get first(): Entry | undefined {
    return this.#entries[this.#head]
  }

  push(entry: Entry): void {
    this.#entries.push(entry)
  }

  shift(): Entry | undefined {
    const entry = this.#entries[this.#head]
    if (entry === undefined) return undefined
    this.#head++
    if (this.#head === this.#entries.length) {
      this.#entries = []
      this.#head = 0
    } else if (this.#head >= 1024 && this.#head * 2 >= this.#entries.length) {
      // The array would keep sent payloads alive; cutting it now and then costs each entry one move at most.
      this.#entries = this.#entries.slice(this.#head)
      this.#head = 0
    }
    return entry
  }
}

export class Lane {
  #ring: LaneQueue[] = []
  #next = 0

  get idle(): boolean {
    return this.#ring.length === 0
  }

  enter(queue: LaneQueue): void {
    if (queue.inRing) return
    queue.inRing = true
    this.#ring.push(queue)
  }

  leave(queue: LaneQueue): void {
    if (!queue.inRing) return
    queue.inRing = false
    const at = this.#ring.indexOf(queue)
    this.#ring.splice(at, 1)
    if (at < this.#next) this.#next--
  }

  /** The queue whose turn it is; the turn passes on. */
  take(): LaneQueue | undefined {
    if (this.#ring.length === 0) return undefined
    if (this.#next >= this.#ring.length) this.#next = 0
    return this.#ring[this.#next++]
  }
}
