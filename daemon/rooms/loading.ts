/**
 * A large room that is on its way: its first page is known, the room itself is not there yet. Owns those who attach meanwhile. They are
 * shown OPENED and the first page at once; what they ask waits, and is done when the room is there; then each becomes a peer of the
 * room under the same id, all in one turn, and is shown the room's whole picture, which begins anew with its first page.
 *
 * So a page that is shown early may be older than the room (a snapshot, to which later edits are added), but never something that was
 * not there: it is corrected by the picture that follows. If the room cannot be opened after all, they are told why, as those are
 * who waited without a page.
 *
 * Races: who leaves meanwhile is never a peer of the room; who attaches after the end of this finds the room, or the error.
 */
import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import type { Open, Opened, Projection } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'
import { RoomdError, toWireError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { RoomMethod } from '../../protocol/methods.ts'
import type { PeerSummary, Readiness } from '../../protocol/notebook.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { grantedScope, summaryOfPeer } from './identity.ts'
import { encodeOpened } from './opened-frame.ts'
import type { FirstPage } from './opening-large.ts'
import type { Peer } from './peer.ts'
import { LISTED } from './picture.ts'
import type { Room } from './room.ts'
import type { AttachedPeer, PeerChannel, PeerIdentity, RequestContext } from './seam.ts'

type ParsedOpen = z.output<typeof Open>

/** What the room will tell is not known; the document is being built. */
const LOADING: Readiness = {
  projection: 'ready',
  document: 'syncing',
  runtime: 'none',
  source: { state: 'loading', reason: 'the rest of the notebook is being read' },
}

export class Loading {
  readonly id: NotebookId
  readonly peers = new Set<LoadingPeer>()
  readonly #page: FirstPage
  readonly #now: () => number
  #frame: Uint8Array | null = null
  #attached = 0
  #over = false

  constructor(page: FirstPage, now: () => number) {
    this.id = page.record.notebook_id
    this.#page = page
    this.#now = now
  }

  /** Whether this peer wants what is there already: one that binds to the document, or goes on from somewhere, wants the room. */
  serves(open: ParsedOpen): boolean {
    return !this.#over && open.projection && open.resume === undefined
  }

  /** One synchronous step, as attaching to a room is. */
  attach(identity: PeerIdentity, open: ParsedOpen, channel: PeerChannel): AttachedPeer {
    this.#attached++
    const peer = new LoadingPeer(this, identity, open, channel, this.#now())
    this.peers.add(peer)
    peer.opened = this.#opened(peer)
    channel.send(FrameType.OPENED, encodeOpened(peer.opened).payload)
    // One that is not taken is no loss: the picture begins with it.
    channel.offer(FrameType.PROJECTION, this.#first())
    return peer
  }

  /** The room is there, and in no turn before. */
  finish(room: Room): void {
    this.#over = true
    room.connectionGeneration = Math.max(room.connectionGeneration, this.#attached - this.peers.size)
    for (const peer of this.peers) peer.join(room)
    this.peers.clear()
  }

  /** It cannot be opened. */
  fail(thrown: unknown): void {
    this.#over = true
    for (const peer of this.peers) peer.expel(thrown)
    this.peers.clear()
  }

  #opened(peer: LoadingPeer): Opened {
    const { record, metadata, total } = this.#page
    return {
      notebook_id: this.id,
      path: record.path,
      title: record.title,
      connection_generation: this.#attached,
      doc_seq: record.doc_seq,
      event_seq: record.event_seq,
      cell_count: total,
      metadata,
      readiness: LOADING,
      kernel: null,
      running: null,
      queued: [],
      queued_total: 0,
      peers: [...this.peers].slice(0, LISTED).map((one) => one.summary()),
      peers_total: this.peers.size,
      peer_id: peer.peerId,
      scope: peer.scope,
      picture: 'projection',
      pages: true,
    }
  }

  #first(): Uint8Array {
    const { record, total, cells, doc_seq } = this.#page
    const page: Projection = {
      kind: 'cells',
      start: 0,
      total,
      cells: [...cells],
      doc_seq,
      event_seq: record.event_seq,
      last: false,
    }
    this.#frame ??= encode(page)
    return this.#frame
  }
}

type State =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'joined'; readonly peer: Peer }
  | { readonly kind: 'gone' }

class LoadingPeer implements AttachedPeer {
  readonly peerId = randomUUID()
  readonly notebookId: NotebookId
  readonly scope: Scope
  /** What it was shown. */
  opened: Opened | undefined
  readonly #loading: Loading
  readonly #identity: PeerIdentity
  readonly #open: ParsedOpen
  readonly #channel: PeerChannel
  readonly #at: number
  #state: State = { kind: 'waiting' }
  /** Where it says it is; the newest. */
  #presence: Uint8Array | null = null
  readonly #joined: Promise<Peer>
  #settle: { join: (peer: Peer) => void; fail: (error: unknown) => void } = { join() {}, fail() {} }

  constructor(loading: Loading, identity: PeerIdentity, open: ParsedOpen, channel: PeerChannel, at: number) {
    this.scope = grantedScope(identity, open.scope)
    this.notebookId = loading.id
    this.#loading = loading
    this.#identity = identity
    this.#open = open
    this.#channel = channel
    this.#at = at
    this.#joined = new Promise((join, fail) => {
      this.#settle = { join, fail }
    })
    // Who asks meanwhile is told; nobody may.
    this.#joined.catch(() => {})
  }

  summary(): PeerSummary {
    return summaryOfPeer(this.peerId, this.#identity, this.scope, this.#at)
  }

  join(room: Room): void {
    if (this.#state.kind !== 'waiting') return
    try {
      const peer = room.attach(this.#identity, this.#open, this.#channel, this.opened)
      this.#state = { kind: 'joined', peer }
      if (this.#presence) peer.ephemeral(this.#presence)
      this.#settle.join(peer)
    } catch (thrown) {
      this.expel(thrown)
    }
  }

  expel(thrown: unknown): void {
    if (this.#state.kind !== 'waiting') return
    this.#state = { kind: 'gone' }
    const error = toWireError(thrown)
    this.#settle.fail(thrown)
    this.#channel.close({ code: error.code, reason: error.message.slice(0, 3000), error })
  }

  async request(method: RoomMethod, args: unknown, context: RequestContext): Promise<unknown> {
    if (this.#state.kind === 'joined') return this.#state.peer.request(method, args, context)
    const peer = await this.#joined
    // Called off meanwhile, or too late: it was not begun, and is not.
    context.signal.throwIfAborted()
    return peer.request(method, args, context)
  }

  async document(payload: Uint8Array): Promise<void> {
    const peer = this.#state.kind === 'joined' ? this.#state.peer : await this.#joined
    return peer.document(payload)
  }

  ephemeral(payload: Uint8Array): void {
    if (this.#state.kind === 'joined') this.#state.peer.ephemeral(payload)
    else this.#presence = payload
  }

  tellPresence(): void {
    if (this.#state.kind === 'joined') this.#state.peer.tellPresence()
  }

  touch(): void {
    if (this.#state.kind === 'joined') this.#state.peer.touch()
  }

  detach(reason: string): void {
    const state = this.#state
    if (state.kind === 'gone') return
    this.#state = { kind: 'gone' }
    if (state.kind === 'joined') state.peer.detach(reason)
    else {
      this.#loading.peers.delete(this)
      this.#settle.fail(new RoomdError('outcome_unknown', reason))
    }
  }
}
