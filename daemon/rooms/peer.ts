/**
 * One attached channel in one room: an owner object, made by attaching, released exactly once by `detach`, whatever ends it.
 *
 * What a peer is sent, in order: OPENED, then its picture (missed events, pages, replays), then live frames. The picture is
 * taken when it attaches; its values are made and queued only as fast as the channel takes them, and live frames wait behind
 * in a backlog of bounded size. A peer that falls too far behind is stale: nothing is queued for it until it reads again, then it
 * gets a `gap` and a fresh picture.
 */
import { randomUUID } from 'node:crypto'
import type { RoomdError } from '../../protocol/errors.ts'
import { FrameType, MAX_QUEUED_CHANNEL } from '../../protocol/frames.ts'
import type { RoomMethod } from '../../protocol/methods.ts'
import type { PeerSummary } from '../../protocol/notebook.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { Breathing } from '../breathing.ts'
import { showAgain } from './attaching.ts'
import { takeDocumentMessage } from './document-messages.ts'
import { summaryOfPeer } from './identity.ts'
import type { Room } from './room.ts'
import type { AttachedPeer, PeerChannel, PeerIdentity, RequestContext } from './seam.ts'

export interface Frame {
  readonly type: FrameType
  readonly payload: Uint8Array
}

/** One value of a picture, made when the channel can take it. */
export interface PictureValue {
  readonly type: FrameType
  readonly make: () => Uint8Array
}

type State =
  /** Waits behind the commits that were pending when it attached. */
  | { readonly kind: 'joining' }
  | {
      readonly kind: 'picture'
      readonly values: Iterator<PictureValue>
      /** Made, refused by the channel, to be offered again. */
      held: Frame | null
      /** Goes on in the next turn of the loop. */
      resting: boolean
      readonly backlog: { type: FrameType; payload: Uint8Array; eventSeq: number | undefined }[]
      backlogBytes: number
    }
  | { readonly kind: 'live' }
  | { readonly kind: 'stale' }
  | { readonly kind: 'gone' }

export class Peer implements AttachedPeer {
  readonly peerId: string
  readonly room: Room
  readonly identity: PeerIdentity
  readonly scope: Scope
  readonly channel: PeerChannel
  /** Wants pages and `cells` events. */
  readonly projection: boolean
  readonly attachedAt: number
  /** Has asked for the Yjs document and gets its updates. */
  followsDocument = false
  lastSeen: number
  /** Number of the newest event this peer was given, or that its picture held. */
  shownSeq = 0
  #state: State = { kind: 'joining' }

  constructor(
    room: Room,
    identity: PeerIdentity,
    scope: Scope,
    channel: PeerChannel,
    projection: boolean,
    now: number,
    peerId: string = randomUUID(),
  ) {
    this.peerId = peerId
    this.room = room
    this.identity = identity
    this.scope = scope
    this.channel = channel
    this.projection = projection
    this.attachedAt = now
    this.lastSeen = now
    channel.writable = () => this.#writable()
  }

  get notebookId(): Room['id'] {
    return this.room.id
  }

  get gone(): boolean {
    return this.#state.kind === 'gone'
  }

  summary(): PeerSummary {
    return summaryOfPeer(this.peerId, this.identity, this.scope, this.attachedAt)
  }

  /** Begins (again) with OPENED or a gap, then the picture; live frames wait behind it from now on. */
  show(first: readonly Frame[], values: Iterator<PictureValue>): void {
    if (this.gone) return
    for (const { type, payload } of first) this.channel.send(type, payload)
    this.#state = { kind: 'picture', values, held: null, resting: false, backlog: [], backlogBytes: 0 }
    this.#pump()
  }

  /** A frame that all peers get, in the room's order. The payload is shared and never changed. */
  deliver(type: FrameType, payload: Uint8Array, eventSeq?: number): void {
    const state = this.#state
    switch (state.kind) {
      case 'live':
        if (!this.channel.offer(type, payload)) this.#state = { kind: 'stale' }
        else if (eventSeq !== undefined) this.shownSeq = eventSeq
        return
      case 'picture':
        state.backlog.push({ type, payload, eventSeq })
        state.backlogBytes += payload.length
        // The picture will be taken again when the channel has drained: cheaper than keeping more than the bound.
        if (state.backlogBytes > MAX_QUEUED_CHANNEL) this.#state = { kind: 'stale' }
        return
      case 'joining':
      case 'stale':
      case 'gone':
        return
    }
  }

  /** Something that is lost without harm (presence). */
  whisper(payload: Uint8Array): void {
    if (this.#state.kind === 'live') this.channel.offer(FrameType.EPHEMERAL, payload)
  }

  request(method: RoomMethod, args: unknown, context: RequestContext): Promise<unknown> {
    this.touch()
    return this.room.request(this, method, args, context)
  }

  document(payload: Uint8Array): Promise<void> {
    this.touch()
    return takeDocumentMessage(this.room, this, payload)
  }

  ephemeral(payload: Uint8Array): void {
    this.touch()
    this.room.peers.whisper(this, payload)
  }

  tellPresence(): void {
    this.room.peers.tellPresence(this)
  }

  touch(): void {
    this.lastSeen = this.room.now()
  }

  detach(reason: string): void {
    if (this.gone) return
    this.#state = { kind: 'gone' }
    this.channel.writable = () => {}
    this.room.release(this, reason)
  }

  /** Detaches because of a failure on our side, and says so. */
  expel(error: RoomdError): void {
    if (this.gone) return
    this.detach(error.message)
    const { code } = error.toWire()
    this.channel.close({ code, reason: error.message, error: error.toWire() })
  }

  #writable(): void {
    if (this.#state.kind === 'picture') this.#pump()
    else if (this.#state.kind === 'stale') showAgain(this.room, this, 'this peer read too slowly')
  }

  #pump(): void {
    const state = this.#state
    if (state.kind !== 'picture' || state.resting) return
    const breathing = new Breathing()
    for (;;) {
      if (!state.held) {
        const next = state.values.next()
        if (next.done) break
        state.held = { type: next.value.type, payload: next.value.make() }
      }
      if (!this.channel.offer(state.held.type, state.held.payload)) return
      state.held = null
      // Making the values of a large picture is work; other rooms get their turn in between.
      if (!breathing.due) continue
      state.resting = true
      setImmediate(() => {
        state.resting = false
        if (this.#state === state) this.#pump()
      })
      return
    }
    this.#state = { kind: 'live' }
    for (const { type, payload, eventSeq } of state.backlog) this.deliver(type, payload, eventSeq)
  }
}
