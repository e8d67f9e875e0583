/**
 * Binds a Y.Doc (the layout of Jupyter's YNotebook) and its presence to the room's channel. Loaded with the first `room.doc()`:
 * it is the only part of the SDK that needs Yjs.
 *
 * DOC frames: byte DOC_SYNC, then a y-protocols sync message. On every new channel both sides send step 1 (their state vector)
 * and answer with what the other lacks.
 *
 * When is an edit durable? The daemon takes the DOC frames of a channel in order and answers a step 1 behind the commits that
 * were pending when it came. So a step 1 that follows an update is a barrier: once its step 2 is here, the update is stored.
 * Updates are kept until then and sent again on a new channel; Yjs drops what it knows.
 */
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { Awareness, applyAwarenessUpdate, encodeAwarenessUpdate } from 'y-protocols/awareness'
import {
  messageYjsSyncStep1,
  messageYjsSyncStep2,
  messageYjsUpdate,
  writeSyncStep1,
  writeSyncStep2,
  writeUpdate,
} from 'y-protocols/sync'
import * as Y from 'yjs'
import { DOC_SYNC, EPHEMERAL_AWARENESS } from '../../protocol/channels.ts'
import type { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Channel } from './link.ts'

/** An update that holds nothing: no structs, no deletions. */
const EMPTY_UPDATE_BYTES = 2

interface Waiter {
  resolve(): void
  reject(error: Error): void
}

export class DocumentBinding {
  readonly doc = new Y.Doc()
  readonly awareness: Awareness
  /** Edits the daemon has not yet confirmed, in order; the first of them is number `#confirmedCount`. */
  #unconfirmed: Uint8Array[] = []
  #confirmedCount = 0
  /** Edits below this number went out on this channel. */
  #sent = 0
  /** For each step 1 on its way, oldest first: the edits below this number are durable once its step 2 comes. */
  #barriers: number[] = []
  #channel: Channel | null = null
  #mayEdit = true
  /** The channel refused a frame and is full. */
  #full = false
  #synced = false
  #ended: RoomdError | null = null
  readonly #waitSynced: Waiter[] = []
  readonly #waitConfirmed: Waiter[] = []

  /** `presence`: this client's first awareness state. */
  constructor(presence: Record<string, unknown>) {
    this.awareness = new Awareness(this.doc)
    // Presence must not hold a process; browsers know no such thing.
    const heartbeat = this.awareness._checkInterval as { unref?: () => void } | number
    if (typeof heartbeat === 'object') heartbeat.unref?.()
    this.awareness.setLocalState(presence)
    this.doc.on('update', this.#onUpdate)
    this.awareness.on('update', this.#onPresence)
  }

  /** Resolves when the document has the room's content. */
  synced(): Promise<void> {
    return this.#synced ? Promise.resolve() : this.#wait(this.#waitSynced)
  }

  /** Resolves when every edit made until now is durable at the daemon. Rejects when the room ends before. */
  flush(): Promise<void> {
    if (this.#unconfirmed.length === 0) return Promise.resolve()
    return this.#wait(this.#waitConfirmed)
  }

  get unconfirmed(): number {
    return this.#unconfirmed.length
  }

  /** A channel is there (again). Idempotent for one channel. */
  attach(channel: Channel, mayEdit: boolean): void {
    if (this.#ended || this.#channel === channel) return
    this.#channel = channel
    this.#mayEdit = mayEdit
    this.#full = false
    if (!mayEdit) this.#forget(this.#confirmedCount + this.#unconfirmed.length)
    this.resync()
    // Under a new clock: where an earlier channel was lost, this one's removal has used the last.
    this.awareness.setLocalState(this.awareness.getLocalState())
  }

  detach(): void {
    this.#channel = null
    this.#barriers = []
  }

  /** Asks for what this document lacks, and offers again what is not confirmed. */
  resync(): void {
    if (!this.#channel) return
    this.#sent = this.#confirmedCount
    this.#barrier()
    this.#push()
  }

  /** The channel has room again after a refusal. */
  writable(): void {
    if (!this.#full) return
    this.#full = false
    if (this.#barriers.length === 0) this.#barrier()
    this.#push()
  }

  /** A DOC payload. Throws for bytes that are no sync message. */
  receive(payload: Uint8Array): void {
    const decoder = decoding.createDecoder(payload)
    const channel = decoding.readVarUint(decoder)
    if (channel !== DOC_SYNC) return
    const kind = decoding.readVarUint(decoder)
    const body = decoding.readVarUint8Array(decoder)
    switch (kind) {
      case messageYjsSyncStep1:
        this.#answer(body)
        return
      case messageYjsSyncStep2:
        Y.applyUpdate(this.doc, body, this)
        this.#confirmed()
        return
      case messageYjsUpdate:
        Y.applyUpdate(this.doc, body, this)
        return
      default:
        throw new Error(`a sync message of kind ${kind}`)
    }
  }

  receivePresence(payload: Uint8Array): void {
    if (payload[0] === EPHEMERAL_AWARENESS) applyAwarenessUpdate(this.awareness, payload.subarray(1), this)
  }

  /** Ends the binding. The Y.Doc stays with whoever has it, as it is. */
  dispose(error: RoomdError): void {
    if (this.#ended) return
    // While the channel is still there: the others see this client leave at once.
    this.awareness.destroy()
    this.#ended = error
    this.doc.off('update', this.#onUpdate)
    this.detach()
    for (const waiter of [...this.#waitSynced.splice(0), ...this.#waitConfirmed.splice(0)])
      waiter.reject(error)
  }

  readonly #onUpdate = (update: Uint8Array, origin: unknown): void => {
    if (origin === this) return
    // A viewer's own edits stay its own.
    if (this.#channel && !this.#mayEdit) return
    this.#unconfirmed.push(update)
    this.#push()
  }

  readonly #onPresence = (
    { added, updated, removed }: { added: number[]; updated: number[]; removed: number[] },
    origin: unknown,
  ): void => {
    if (origin === this) return
    // What runs out by time is known to everybody else as well.
    if ([...added, ...updated, ...removed].includes(this.awareness.clientID)) this.#sendPresence()
  }

  #sendPresence(): void {
    const { awareness } = this
    if (!this.#channel || !awareness.meta.has(awareness.clientID)) return
    const update = encodeAwarenessUpdate(awareness, [awareness.clientID])
    const payload = new Uint8Array(update.length + 1)
    payload[0] = EPHEMERAL_AWARENESS
    payload.set(update, 1)
    this.#channel.offer(FrameType.EPHEMERAL, payload)
  }

  /** Sends what was not sent on this channel, as one update, and a barrier behind it. */
  #push(): void {
    if (!this.#channel || this.#full || !this.#mayEdit) return
    const fresh = this.#unconfirmed.slice(this.#sent - this.#confirmedCount)
    if (fresh.length === 0) return
    const update = fresh.length === 1 ? fresh[0] : Y.mergeUpdates(fresh)
    if (!update || !this.#offer((encoder) => writeUpdate(encoder, update))) return
    this.#sent = this.#confirmedCount + this.#unconfirmed.length
    // One barrier on its way is enough: when it comes back, the next follows for what was sent behind it.
    if (this.#barriers.length === 0) this.#barrier()
  }

  #barrier(): void {
    const sent = this.#sent
    if (this.#offer((encoder) => writeSyncStep1(encoder, this.doc))) this.#barriers.push(sent)
  }

  /** A step 2 came: everything sent before its step 1 is durable, and this document has what the daemon had then. */
  #confirmed(): void {
    this.#forget(this.#barriers.shift() ?? 0)
    if (!this.#synced) {
      this.#synced = true
      for (const waiter of this.#waitSynced.splice(0)) waiter.resolve()
    }
    if (this.#barriers.length === 0 && this.#sent > this.#confirmedCount) this.#barrier()
  }

  /** Edits below this number need not be kept. */
  #forget(until: number): void {
    const count = until - this.#confirmedCount
    if (count > 0) {
      this.#unconfirmed.splice(0, count)
      this.#confirmedCount = until
      this.#sent = Math.max(this.#sent, until)
    }
    if (this.#unconfirmed.length === 0) for (const waiter of this.#waitConfirmed.splice(0)) waiter.resolve()
  }

  /** What the daemon lacks. Edits are also kept as unconfirmed, so nothing depends on this answer being the one that arrives. */
  #answer(stateVector: Uint8Array): void {
    if (!this.#mayEdit) return
    if (Y.encodeStateAsUpdate(this.doc, stateVector).length <= EMPTY_UPDATE_BYTES) return
    this.#offer((encoder) => writeSyncStep2(encoder, this.doc, stateVector))
  }

  #offer(write: (encoder: encoding.Encoder) => void): boolean {
    if (!this.#channel || this.#full) return false
    const encoder = encoding.createEncoder()
    encoding.writeVarUint(encoder, DOC_SYNC)
    write(encoder)
    if (this.#channel.offer(FrameType.DOC, encoding.toUint8Array(encoder))) return true
    this.#full = true
    return false
  }

  #wait(list: Waiter[]): Promise<void> {
    if (this.#ended) return Promise.reject(this.#ended)
    return new Promise((resolve, reject) => list.push({ resolve, reject }))
  }
}
