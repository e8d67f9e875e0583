/**
 * The peers of one room: the set whose size is the count, what they are all told, and their presence. Joins and leaves are told at
 * once, or gathered where there are many.
 */
import type { Clock } from '../../protocol/clock.ts'
import { encode } from '../../protocol/codec.ts'
import type { TransientEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Peer } from './peer.ts'
import { Presence } from './presence.ts'
import type { EditFrames } from './whole-change.ts'

/** Rooms with more peers than this tell joins and leaves at most every TELL_MS. */
const MANY = 32
const TELL_MS = 200

export class RoomPeers {
  readonly #clock: Clock
  readonly #peers = new Set<Peer>()
  readonly #presence = new Presence()
  #joined: Peer[] = []
  #left: string[] = []
  #cancelTelling: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#peers.size
  }

  [Symbol.iterator](): IterableIterator<Peer> {
    return this.#peers.values()
  }

  add(peer: Peer): void {
    this.#peers.add(peer)
  }

  /** The peer was shown the room: the others hear of it, and it hears where they are. */
  shown(peer: Peer): void {
    this.tellPresence(peer)
    this.#joined.push(peer)
    this.#tellChanges()
  }

  /** Where everybody is. */
  tellPresence(peer: Peer): void {
    for (const payload of this.#presence.current(this.#clock.now())) peer.whisper(payload)
  }

  remove(peer: Peer): void {
    this.#peers.delete(peer)
    this.#left.push(peer.peerId)
    this.#tellChanges()
    const gone = this.#presence.drop(peer.peerId)
    if (gone) for (const other of this.#peers) other.whisper(gone)
  }

  /** One shared payload for all; `eventSeq` for numbered events. */
  deliver(type: FrameType, payload: Uint8Array, eventSeq?: number): void {
    for (const peer of this.#peers) peer.deliver(type, payload, eventSeq)
  }

  /** Edits in the terms that each peer follows: the projection's, Yjs's, or both. */
  deliverEdits(edit: EditFrames): void {
    for (const peer of this.#peers) {
      if (peer.projection) {
        if (peer.identity.editsTogether) peer.deliver(FrameType.EVENT, edit.together)
        else for (const cells of edit.apart) peer.deliver(FrameType.EVENT, cells)
      }
      if (peer.followsDocument) peer.deliver(FrameType.DOC, edit.update)
    }
  }

  /** A peer's EPHEMERAL payload goes to the others, if it is an awareness update. */
  whisper(from: Peer, payload: Uint8Array): void {
    const news = this.#presence.accept(from.peerId, payload, this.#clock.now())
    if (news) for (const other of this.#peers) if (other !== from) other.whisper(news)
  }

  dispose(): void {
    this.#cancelTelling?.()
  }

  #tellChanges(): void {
    if (this.#cancelTelling) return
    const tell = () => {
      this.#cancelTelling = null
      const event: TransientEvent = {
        type: 'peers',
        joined: this.#joined.filter((peer) => !peer.gone).map((peer) => peer.summary()),
        left: this.#left,
        total: this.#peers.size,
      }
      this.#joined = []
      this.#left = []
      this.deliver(FrameType.EVENT, encode({ at: this.#clock.now(), event }))
    }
    if (this.#peers.size > MANY) this.#cancelTelling = this.#clock.after(TELL_MS, tell)
    else tell()
  }
}
