/**
 * A Yjs editor in a room, over the y-websocket protocol: a peer like any other. Owns one WebSocket and at most one peer;
 * attaching → attached → closed, and whatever ends it ends both once.
 *
 * What the editor sends is a change of the room like any other: durable before anybody sees it. The protocol has no answer to
 * an update, so what is refused stays with the editor, and is asked for again (sync step 1) when it can be taken: the last
 * step 1 of the editor is kept, and answering it once more brings both sides together, whatever was missed. That also serves
 * an editor that reads too slowly: its updates stop being queued, and it is brought up to date when it has read.
 */
import type { Logger } from 'pino'
import type { WebSocket } from 'ws'
import type { Close } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError, toWireError } from '../../protocol/errors.ts'
import { FrameType, INITIAL_CREDIT, MAX_QUEUED_CHANNEL } from '../../protocol/frames.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import { scopeAllows } from '../../protocol/scopes.ts'
import { Liveness } from '../../protocol/wire/liveness.ts'
import { measures } from '../measures.ts'
import { readSync } from '../rooms/document-sync.ts'
import type { AttachedPeer, PeerChannel, PeerIdentity, Rooms } from '../rooms/seam.ts'
import { OpenRequest } from '../server/open-request.ts'
import { closeCodeOf, closeCodeOfDetach, closeReason } from './yjs-close.ts'
import { readYjsMessage, writeAwareness, writeDenied } from './yjs-messages.ts'

/** After the close frame the editor has this long to answer it. */
const FAREWELL_MS = 1_000
/** Presence is dropped for an editor that is this far behind. */
const MAX_EPHEMERAL_QUEUED = 256 * 1024
/** Updates with a gap before them that may follow each other: each is answered by asking for what is missing. */
const MAX_GAPS = 5
/** An update with nothing in it. */
const EMPTY_UPDATE_BYTES = 2

export interface YjsChannelOptions {
  readonly socket: WebSocket
  readonly notebookId: NotebookId
  readonly identity: PeerIdentity
  readonly clock: Clock
  readonly log: Logger
  rooms(): Promise<Rooms>
  stopping(): boolean
}

export class YjsChannel implements PeerChannel {
  /** Set by the room. */
  writable: () => void = () => {}
  readonly #options: YjsChannelOptions
  readonly #socket: WebSocket
  readonly #context: OpenRequest
  readonly #liveness: Liveness
  #peer: AttachedPeer | null = null
  #closed = false
  /** The editor's last sync step 1; null until it has asked for the document. */
  #wants: Uint8Array | null = null
  /** It is to be answered when the editor has read what is queued. */
  #owed = false
  /** Something the editor has was refused for a reason that passes. */
  #withheld = false
  #gaps = 0
  /** An offer was refused: the room waits for `writable`. */
  #refused = false
  /** Bytes that were read and are not durable yet. */
  #taking = 0
  #paused = true

  /** Starts attaching. Nothing is read before it is done. */
  constructor(options: YjsChannelOptions) {
    this.#options = options
    this.#socket = options.socket
    this.#context = new OpenRequest(options.identity)
    const { socket, clock } = options
    socket.binaryType = 'nodebuffer'
    socket.pause()
    this.#liveness = new Liveness(clock, {
      ping: () => socket.ping(),
      dead: () => socket.terminate(),
    })
    socket.on('message', (data: Buffer, isBinary) => this.#received(data, isBinary))
    socket.on('pong', () => this.#heard())
    socket.on('ping', () => this.#heard())
    // 'close' follows, and tells all.
    socket.on('error', (error) => options.log.debug({ reason: error.message }, 'yjs connection failed'))
    socket.on('close', () => this.#end('the connection closed'))
    this.#attach().then(
      (peer) => {
        if (this.#closed) peer.detach('the connection closed while it was being attached')
        else {
          this.#peer = peer
          this.#resume()
        }
      },
      (error: unknown) => this.#fail(error),
    )
  }

  // --- for the room ------------------------------------------------------------------------------------------------

  offer(type: FrameType, payload: Uint8Array): boolean {
    if (this.#closed) return false
    switch (type) {
      case FrameType.DOC:
        if (this.#refused) return false
        if (this.#queued > 0 && this.#queued + payload.length > MAX_QUEUED_CHANNEL) {
          this.#refused = true
          return false
        }
        this.#send(payload)
        return true
      case FrameType.EPHEMERAL:
        if (this.#queued <= MAX_EPHEMERAL_QUEUED) this.#send(writeAwareness(payload))
        return true
      case FrameType.READINESS:
        if (this.#withheld) this.#askAgain()
        return true
      default:
        // Runtime events are no part of this protocol.
        return true
    }
  }

  send(type: FrameType, payload: Uint8Array): void {
    if (this.#closed) return
    if (type === FrameType.DOC) this.#send(payload)
    // Events that are not offered tell of a gap: what this editor missed cannot be told one by one any more.
    else if (type === FrameType.EVENT) this.#askAgain()
  }

  close(close: Close): void {
    if (this.#closed) return
    const code = close.error
      ? closeCodeOf(RoomdError.fromWire(close.error))
      : closeCodeOfDetach(close, this.#options.stopping())
    this.#bye(code, close.reason)
  }

  // --- for the listener --------------------------------------------------------------------------------------------

  /** Its token has ended. */
  end(error: RoomdError): void {
    this.#bye(closeCodeOf(error), error.message)
  }

  // --- attaching ---------------------------------------------------------------------------------------------------

  async #attach(): Promise<AttachedPeer> {
    const { notebookId, rooms, stopping } = this.#options
    const all = await rooms()
    if (stopping()) throw new RoomdError('shutting_down', 'the daemon is shutting down')
    return all.attach(
      { target: { notebook_id: notebookId }, mode: 'attach', projection: false },
      this.#context,
      this,
    )
  }

  // --- what the editor sends ---------------------------------------------------------------------------------------

  #received(data: Buffer, isBinary: boolean): void {
    measures.bytes.add('yjs in', data.length)
    this.#heard()
    const peer = this.#peer
    if (!peer || this.#closed) return
    if (!isBinary) {
      this.#bye(1003, 'the y-websocket protocol has binary messages only')
      return
    }
    try {
      const message = readYjsMessage(data)
      switch (message.kind) {
        case 'sync':
          this.#sync(peer, message.payload)
          return
        case 'awareness':
          peer.ephemeral(message.payload)
          // Its provider takes a connection on which it does not hear itself for a dead one.
          if (this.#queued <= MAX_EPHEMERAL_QUEUED) this.#send(data)
          return
        case 'query_awareness':
          peer.tellPresence()
          return
        case 'other':
          return
      }
    } catch (error) {
      this.#fail(error)
    }
  }

  #sync(peer: AttachedPeer, payload: Uint8Array): void {
    const message = readSync(payload)
    if (message.kind === 'wants') {
      this.#wants = payload
      this.#answer()
      return
    }
    if (!scopeAllows(peer.scope, 'editor')) {
      if (message.update.length > EMPTY_UPDATE_BYTES)
        this.#deny('this token only reads; the change stays yours')
      return
    }
    this.#take(payload.length)
    peer.document(payload).then(
      () => {
        this.#gaps = 0
        this.#took(payload.length)
      },
      (error: unknown) => {
        this.#took(payload.length)
        this.#refuse(error)
      },
    )
  }

  /** An update that was not taken. */
  #refuse(error: unknown): void {
    if (this.#closed) return
    const { code, message, retryable } = toWireError(error)
    if (code === 'source_conflict' || code === 'source_degraded') {
      this.#withheld = true
      this.#deny(message)
    } else if (code === 'sync_failed' && retryable) {
      // What builds on something withheld is asked for together with it.
      if (this.#withheld) return
      if (++this.#gaps <= MAX_GAPS) this.#askAgain()
      else this.#fail(error)
    } else this.#fail(error)
  }

  /** Both sides tell each other what they have. */
  #askAgain(): void {
    this.#withheld = false
    if (this.#wants) this.#answer()
  }

  #answer(): void {
    const wants = this.#wants
    if (!wants || !this.#peer || this.#closed) return
    if (this.#queued > MAX_QUEUED_CHANNEL) {
      // One who asks without reading gets one answer when he has read.
      this.#owed = true
      return
    }
    this.#peer.document(wants).catch((error: unknown) => this.#fail(error))
  }

  #heard(): void {
    this.#liveness.read()
    this.#peer?.touch()
  }

  #take(bytes: number): void {
    this.#taking += bytes
    if (this.#taking < INITIAL_CREDIT || this.#paused) return
    this.#paused = true
    this.#socket.pause()
  }

  #took(bytes: number): void {
    this.#taking -= bytes
    // While nothing was read it was our own doing.
    if (this.#paused) this.#liveness.read()
    if (this.#taking < INITIAL_CREDIT / 2) this.#resume()
  }

  #resume(): void {
    if (!this.#paused || this.#closed) return
    this.#paused = false
    this.#socket.resume()
  }

  // --- what the editor is sent -------------------------------------------------------------------------------------

  get #queued(): number {
    return this.#socket.bufferedAmount
  }

  #send(bytes: Uint8Array): void {
    measures.bytes.add('yjs out', bytes.length)
    this.#socket.send(bytes, () => this.#sent())
  }

  #sent(): void {
    if (this.#closed || this.#queued > MAX_QUEUED_CHANNEL / 2) return
    if (this.#refused) {
      this.#refused = false
      this.writable()
    }
    if (this.#owed) {
      this.#owed = false
      this.#answer()
    }
  }

  #deny(reason: string): void {
    if (this.#queued <= MAX_EPHEMERAL_QUEUED) this.#send(writeDenied(reason))
  }

  // --- the end -----------------------------------------------------------------------------------------------------

  #fail(thrown: unknown): void {
    if (this.#closed) return
    if (!(thrown instanceof RoomdError)) {
      this.#options.log.error({ err: thrown, room: this.#options.notebookId }, 'unexpected failure')
    }
    const error = RoomdError.fromWire(toWireError(thrown))
    // The close frame has room for a few words; what people are to read goes before it.
    this.#deny(error.message)
    this.#bye(closeCodeOf(error), error.message)
  }

  #bye(code: number, reason: string): void {
    if (this.#closed) return
    const { clock } = this.#options
    this.#end(reason)
    this.#socket.close(code, closeReason(reason))
    // Its answer must be read, and one who does not read or answer is not waited for.
    if (this.#paused) this.#socket.resume()
    const late = clock.after(FAREWELL_MS, () => this.#socket.terminate())
    this.#socket.once('close', late)
  }

  #end(reason: string): void {
    if (this.#closed) return
    this.#closed = true
    this.#liveness.dispose()
    this.#context.abort(new RoomdError('outcome_unknown', reason))
    this.#peer?.detach(reason)
  }
}
