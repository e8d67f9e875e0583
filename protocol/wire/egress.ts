/**
 * The one writer of a connection. Values wait in four lanes (control, reliable, bulk, ephemeral); what leaves next is the next
 * frame of the next channel in the highest lane that has something sendable. Reliable and bulk bytes cost the channel's credit;
 * a value may be begun while any is left and is then finished, so credit may go below zero by one value.
 *
 * What is written goes out once per turn (when the promises of the turn have run, see soon.ts), and at most about one frame ahead of the
 * transport, so that a control frame never waits behind more than that. Payloads are shared between connections: never
 * changed, never kept after they left.
 */
import { RoomdError } from '../errors.ts'
import {
  type FrameType,
  frameRules,
  HEADER_BYTES,
  INITIAL_CREDIT,
  type Lane as LaneName,
  laneOf,
  MAX_FRAME_PAYLOAD,
  MAX_QUEUED_CHANNEL,
  MAX_QUEUED_CONNECTION,
} from '../frames.ts'
import { FrameWriter } from './frame-writer.ts'
import { type Entry, Lane, LaneQueue } from './lane.ts'
import { soon } from './soon.ts'
import type { Framing } from './transport.ts'

/** Bytes handed to the transport in one write. */
const BATCH_BYTES = MAX_FRAME_PAYLOAD
/** Ephemeral values a channel keeps waiting; older ones are dropped. */
export const MAX_EPHEMERAL = 64
/** Credit above this is of no use; more WINDOW bytes than that are ignored. */
const MAX_CREDIT = 2 ** 40

const laneNames = ['control', 'reliable', 'bulk', 'ephemeral'] as const satisfies readonly LaneName[]

export interface EgressHost {
  readonly framing: Framing
  /** As Transport.write. */
  write(pieces: readonly Uint8Array[]): boolean
  /** A channel that refused an `offer` takes values again. */
  writable(channel: number): void
  /** Everything queued is with the transport. */
  emptied(): void
}

class Outgoing {
  readonly id: number
  open = false
  credit = INITIAL_CREDIT
  /** Bytes waiting, headers included. */
  queued = 0
  refused = false
  /** What waits, by lane; made when first needed. */
  readonly lanes: { [name in LaneName]: LaneQueue | null } = {
    control: null,
    reliable: null,
    bulk: null,
    ephemeral: null,
  }

  constructor(id: number) {
    this.id = id
  }
}

export class Egress {
  readonly #host: EgressHost
  readonly #writer: FrameWriter
  readonly #channels = new Map<number, Outgoing>()
  readonly #lanes = { control: new Lane(), reliable: new Lane(), bulk: new Lane(), ephemeral: new Lane() }
  /** Channels that refused an offer; null: none, as nearly always. */
  #refused: Set<Outgoing> | null = null
  #queued = 0
  #scheduled = false
  #blocked = false
  #stopped = false

  constructor(host: EgressHost) {
    this.#host = host
    this.#writer = new FrameWriter(host.framing)
    this.open(0)
  }

  open(channel: number): void {
    const outgoing = this.#outgoing(channel)
    if (outgoing.open) return
    outgoing.open = true
    outgoing.credit = INITIAL_CREDIT
  }

  /** Drops what waits for the channel, but for its control frames, which leave all the same. */
  close(channel: number): void {
    const outgoing = this.#channels.get(channel)
    if (outgoing === undefined || channel === 0) return
    outgoing.open = false
    this.#accept(outgoing)
    for (const name of laneNames) {
      const queue = outgoing.lanes[name]
      if (name === 'control' || queue === null) continue
      this.#lanes[name].leave(queue)
      outgoing.lanes[name] = null
      for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) this.#leave(outgoing, entry)
    }
    this.#tidy(outgoing)
    this.#notifySoon()
  }

  /** Queues a value. Ignored on a channel that is not open, but for control frames. Throws `too_large`. */
  push(type: FrameType, channel: number, payload: Uint8Array): void {
    const lane = this.#check(type, payload)
    if (this.#stopped) return
    const outgoing = lane === 'control' ? this.#outgoing(channel) : this.#channels.get(channel)
    if (outgoing === undefined || (lane !== 'control' && !outgoing.open)) return
    this.#enqueue(outgoing, lane, type, payload)
  }

  /** As `push`, if the bounds allow; a channel that was refused stays so until `writable`. Throws `too_large`. */
  offer(type: FrameType, channel: number, payload: Uint8Array): boolean {
    const lane = this.#check(type, payload)
    const outgoing = this.#channels.get(channel)
    if (this.#stopped || outgoing === undefined || !outgoing.open) return lane === 'ephemeral'
    if (lane === 'ephemeral') {
      this.#enqueue(outgoing, lane, type, payload)
      return true
    }
    if (outgoing.refused) return false
    const bytes = HEADER_BYTES + payload.length
    // A value larger than the bound itself is taken when nothing waits before it.
    const fitsChannel = outgoing.queued === 0 || outgoing.queued + bytes <= MAX_QUEUED_CHANNEL
    const fitsConnection = this.#queued + Math.min(bytes, MAX_QUEUED_CHANNEL) <= MAX_QUEUED_CONNECTION
    if (fitsChannel && fitsConnection) {
      this.#enqueue(outgoing, lane, type, payload)
      return true
    }
    outgoing.refused = true
    this.#refused ??= new Set()
    this.#refused.add(outgoing)
    return false
  }

  /** WINDOW arrived. */
  grant(channel: number, bytes: number): void {
    const outgoing = this.#channels.get(channel)
    if (outgoing === undefined || !outgoing.open) return
    const before = outgoing.credit
    outgoing.credit = Math.min(MAX_CREDIT, before + bytes)
    if (before > 0 || outgoing.credit <= 0) return
    for (const name of ['reliable', 'bulk'] as const) {
      const queue = outgoing.lanes[name]
      if (queue !== null && queue.length > 0) this.#lanes[name].enter(queue)
    }
    this.#notifySoon()
  }

  queued(channel?: number): number {
    if (channel === undefined) return this.#queued
    return this.#channels.get(channel)?.queued ?? 0
  }

  /** The transport has room again. */
  drained(): void {
    this.#blocked = false
    this.#flush()
  }

  /** Drops everything that waits. */
  clear(): void {
    for (const outgoing of this.#channels.values()) {
      for (const name of laneNames) {
        const queue = outgoing.lanes[name]
        if (queue !== null) this.#lanes[name].leave(queue)
        outgoing.lanes[name] = null
      }
      outgoing.queued = 0
    }
    this.#refused = null
    this.#queued = 0
  }

  /** Drops everything and takes nothing more. */
  stop(): void {
    this.#stopped = true
    this.clear()
  }

  #check(type: FrameType, payload: Uint8Array): LaneName {
    const rule = frameRules[type]
    if (payload.length > rule.cap)
      throw new RoomdError(
        'too_large',
        `${rule.name} of ${payload.length} bytes is over its limit of ${rule.cap}; send less at a time`,
      )
    return laneOf(type, payload.length)
  }

  #outgoing(channel: number): Outgoing {
    let outgoing = this.#channels.get(channel)
    if (outgoing === undefined) {
      outgoing = new Outgoing(channel)
      this.#channels.set(channel, outgoing)
    }
    return outgoing
  }

  #enqueue(outgoing: Outgoing, lane: LaneName, type: FrameType, payload: Uint8Array): void {
    let queue = outgoing.lanes[lane]
    if (queue === null) {
      queue = new LaneQueue(outgoing.id)
      outgoing.lanes[lane] = queue
    }
    if (lane === 'ephemeral' && queue.length >= MAX_EPHEMERAL) {
      const oldest = queue.shift()
      if (oldest !== undefined) this.#leave(outgoing, oldest)
    }
    queue.push({ type, payload, sent: 0 })
    const bytes = HEADER_BYTES + payload.length
    outgoing.queued += bytes
    this.#queued += bytes
    // A value that was begun never leaves the ring before its end, so it needs no credit here.
    if (!costsCredit(lane) || outgoing.credit > 0) this.#lanes[lane].enter(queue)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled || this.#blocked) return
    this.#scheduled = true
    soon(this.#turn)
  }

  readonly #turn = (): void => {
    this.#scheduled = false
    this.#flush()
  }

  #flush(): void {
    while (!this.#blocked && !this.#stopped) {
      while (this.#writer.bytes < BATCH_BYTES && this.#next()) {
        // Each step adds one frame to the batch.
      }
      if (this.#writer.bytes === 0) break
      if (!this.#host.write(this.#writer.take())) this.#blocked = true
    }
    if (this.#stopped) return
    if (this.#refused !== null) this.#notify(this.#refused)
    if (this.#queued === 0) this.#host.emptied()
  }

  /** Moves one frame from its lane to the batch. false: nothing is sendable. */
  #next(): boolean {
    for (const name of laneNames) {
      const queue = this.#lanes[name].take()
      if (queue === undefined) continue
      const outgoing = this.#channels.get(queue.channel)
      const entry = queue.first
      if (outgoing === undefined || entry === undefined) throw new Error('a lane held an empty queue')
      const { type, payload } = entry
      const end = Math.min(entry.sent + MAX_FRAME_PAYLOAD, payload.length)
      const part = entry.sent === 0 && end === payload.length ? payload : payload.subarray(entry.sent, end)
      this.#writer.add(type, end < payload.length, queue.channel, part)
      const charged = costsCredit(name)
      if (charged) outgoing.credit -= part.length
      entry.sent = end
      outgoing.queued -= part.length
      this.#queued -= part.length
      if (end === payload.length) {
        queue.shift()
        outgoing.queued -= HEADER_BYTES
        this.#queued -= HEADER_BYTES
        if (queue.length === 0 || (charged && outgoing.credit <= 0)) this.#lanes[name].leave(queue)
        if (queue.length === 0) this.#tidy(outgoing)
      }
      // A value in the other charged lane of this channel may have to wait now too.
      if (charged && outgoing.credit <= 0) this.#hold(outgoing)
      return true
    }
    return false
  }

  /** Takes values that were not begun out of the rings: the channel's credit is used up. */
  #hold(outgoing: Outgoing): void {
    for (const name of ['reliable', 'bulk'] as const) {
      const queue = outgoing.lanes[name]
      if (queue?.first?.sent === 0) this.#lanes[name].leave(queue)
    }
  }

  #leave(outgoing: Outgoing, entry: Entry): void {
    const bytes = HEADER_BYTES + entry.payload.length - entry.sent
    outgoing.queued -= bytes
    this.#queued -= bytes
  }

  /** A closed channel is forgotten once its last control frame has left. */
  #tidy(outgoing: Outgoing): void {
    if (!outgoing.open && outgoing.queued === 0) this.#channels.delete(outgoing.id)
  }

  #notifySoon(): void {
    if (this.#queued > 0 || this.#refused !== null) this.#schedule()
  }

  #notify(refused: Set<Outgoing>): void {
    for (const outgoing of [...refused]) {
      if (this.#queued > MAX_QUEUED_CONNECTION / 2) return
      // A handler that was told before may have closed this channel.
      if (!outgoing.refused || outgoing.queued > 0 || outgoing.credit <= 0) continue
      this.#accept(outgoing)
      this.#host.writable(outgoing.id)
    }
  }

  #accept(outgoing: Outgoing): void {
    outgoing.refused = false
    this.#refused?.delete(outgoing)
    if (this.#refused?.size === 0) this.#refused = null
  }
}

function costsCredit(lane: LaneName): boolean {
  return lane === 'reliable' || lane === 'bulk'
}
