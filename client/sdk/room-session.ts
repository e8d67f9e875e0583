/**
 * The engine of one open room: takes the frames of its channel to mirror, state, calls and document, and carries all of them
 * across connections. `room.ts` is its face.
 *
 * Order: whoever has an answer has its effects. The daemon sends a RESPONSE behind the events it caused; while a picture is still
 * arriving, responses wait for its end too. Events are told after the mirror includes them.
 */
import { type Open, type Opened, Projection } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { EventEnvelope } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { MethodParams, MethodResult, RoomMethod } from '../../protocol/methods.ts'
import { type Execution, Readiness } from '../../protocol/notebook.ts'
import { scopeAllows } from '../../protocol/scopes.ts'
import { RoomAttachment, reopen } from './attachment.ts'
import { Backoff } from './backoff.ts'
import { type CallOptions, CallTable } from './calls.ts'
import { Comms } from './comms.ts'
import type { Connection } from './connection.ts'
import type { DocumentBinding } from './document.ts'
import { Emitter } from './emitter.ts'
import { gateOpen } from './gates.ts'
import type { Channel, Link } from './link.ts'
import { Mirror, type Verdict } from './mirror.ts'
import type { MutationIds } from './mutation-ids.ts'
import { OwnPresence } from './own-presence.ts'
import { eachEdit, type Resumed, type RoomEvents, readEvent } from './room-events.ts'
import { RoomState } from './room-state.ts'

export interface SessionOptions {
  readonly connection: Connection
  readonly clock: Clock
  readonly mutations: MutationIds
  readonly random: () => number
  /** How long calls are repeated to a daemon that is going away, in ms. */
  readonly waitMs: number
  /** The first OPEN. */
  readonly open: Open
  /** Reads an execution by its id, on the connection's channel. */
  readonly getExecution: (executionId: ExecutionId) => Promise<Execution>
}

export class RoomSession extends Emitter<RoomEvents> {
  readonly calls: CallTable
  readonly mirror: Mirror
  readonly presence: OwnPresence
  readonly comms: Comms
  readonly #options: SessionOptions
  readonly #attachment: RoomAttachment
  #state: RoomState | null = null
  #document: DocumentBinding | null = null
  #channel: Channel | null = null
  #bootId: string | null = null
  /** Set from OPENED until the picture is complete: what to tell then. */
  #completing: Resumed | 'first' | null = null
  #deferred: Uint8Array[] = []
  /** Executions asked for, and those of which the daemon knows nothing. */
  readonly #asked = new Set<ExecutionId>()
  #ended: RoomdError | null = null
  #firstShown = { resolve: () => {}, reject: (_error: RoomdError) => {} }

  constructor(options: SessionOptions) {
    super()
    const { connection, clock, mutations } = options
    this.#options = options
    this.presence = new OwnPresence(options)
    this.mirror = new Mirror({ blind: options.open.projection === false })
    this.calls = new CallTable({
      clock,
      mutations,
      needDaemon: (fail) => connection.needDaemon(fail),
      refusedForMs: options.waitMs,
    })
    this.comms = new Comms(
      <M extends RoomMethod>(method: M, params: MethodParams<M>, callOptions?: CallOptions) =>
        this.calls.call(method, params, callOptions) as Promise<MethodResult<M>>,
    )
    this.#attachment = new RoomAttachment({
      connection,
      clock,
      backoff: new Backoff(options.random),
      handlers: {
        open: () => this.#nextOpen(),
        opened: (opened, channel, link) => this.#opened(opened, channel, link),
        openedAgain: (opened) => this.#openedAgain(opened),
        value: (type, payload) => this.#value(type, payload),
        writable: () => {
          this.#document?.writable()
          this.presence.writable()
        },
        away: () => this.#away(),
        lost: (error) => this.#lost(error),
      },
    })
  }

  /** Resolves with the state when the first picture is complete and the projection is ready (or degraded). Called once. */
  async start(signal?: AbortSignal): Promise<RoomState> {
    const abort = (): void => {
      const error = new RoomdError('client_aborted', 'opening the room was aborted by the caller')
      this.end(error)
    }
    const shown = new Promise<void>((resolve, reject) => {
      this.#firstShown = { resolve, reject }
    })
    if (signal?.aborted) abort()
    else {
      signal?.addEventListener('abort', abort, { once: true })
      this.#attachment.start()
    }
    try {
      await shown
    } finally {
      signal?.removeEventListener('abort', abort)
    }
    return this.state
  }

  /** Once the room is open. */
  get state(): RoomState {
    if (!this.#state) throw new Error('the room is not open yet')
    return this.#state
  }

  /** Why the room ended, or null. */
  get ended(): RoomdError | null {
    return this.#ended
  }

  get document(): DocumentBinding | null {
    return this.#document
  }

  /** Binds the document: it syncs now and after every new connection. */
  bind(document: DocumentBinding): void {
    if (this.#ended) throw this.#ended
    this.#document = document
    this.presence.handOver(document.awareness)
    this.#attachDocument()
  }

  /** Before a close: waits until edits to the document are durable; rejects when that cannot be had now. */
  async settleDocument(): Promise<void> {
    const document = this.#document
    if (!document || document.unconfirmed === 0) return
    const { clock, waitMs } = this.#options
    const left = (): RoomdError =>
      new RoomdError(
        'daemon_lost',
        `${document.unconfirmed} edits to the document were not confirmed by the daemon and may be lost`,
      )
    if (!this.#channel) throw left()
    let stop = () => {}
    const late = new Promise<never>((_resolve, reject) => {
      stop = clock.after(waitMs, () => reject(left()))
    })
    try {
      await Promise.race([document.flush(), late])
    } finally {
      stop()
    }
  }

  /** Detaches; what is open fails with `error`. Idempotent. */
  end(error: RoomdError): void {
    if (this.#ended) return
    this.#ended = error
    this.#firstShown.reject(error)
    this.#document?.dispose(error)
    this.presence.dispose()
    this.#channel = null
    this.#attachment.close(error.message)
    this.calls.close(error)
    this.#deferred = []
    for (const record of this.mirror.executions.values()) record.fail(error)
    this.#state?.attachmentIs(error.code === 'client_closed' ? 'closed' : 'lost')
  }

  #nextOpen(): Open {
    const { open } = this.#options
    const { eventSeq: event_seq, docSeq: doc_seq } = this.mirror
    // Of a room that was still loading nothing need be left: it is opened as it was the first time.
    if (!this.#state || (this.#completing === 'first' && this.#state.source.state === 'loading')) return open
    // Asked again before the first picture was complete: there is nothing to resume from.
    if (this.#completing === 'first')
      return { ...open, target: { notebook_id: this.#state.notebook_id }, mode: 'attach' }
    return reopen(open, this.#state.notebook_id, { event_seq, doc_seq })
  }

  /** The picture begins with it; what was asked meanwhile stays asked. */
  #openedAgain(opened: Opened): void {
    this.mirror.begin(opened)
    this.#state?.opened(opened)
  }

  #opened(opened: Opened, channel: Channel, link: Link): void {
    const { eventSeq: event_seq, docSeq: doc_seq } = this.mirror
    const { boot_id } = link.welcome
    const first = !this.#state || this.#completing === 'first'
    this.#completing = first
      ? 'first'
      : {
          boot_id,
          replaced: this.#bootId !== boot_id,
          picture: opened.picture,
          from: { event_seq, doc_seq },
          to: { event_seq: opened.event_seq, doc_seq: opened.doc_seq },
        }
    this.#bootId = boot_id
    this.#channel = channel
    this.#deferred = []
    this.mirror.begin(opened)
    if (this.#state) this.#state.opened(opened)
    else this.#state = new RoomState(this.mirror, opened)
    // Nothing is shown afresh to a peer without projection, so nobody else says what it missed.
    if (!first && opened.picture === 'none' && opened.event_seq > event_seq) {
      const reason = 'older events are not kept'
      const event = { type: 'gap' as const, from: event_seq + 1, to: opened.event_seq, reason }
      this.emit('event', { at: this.#options.clock.now(), event })
      this.emit('gap', event)
    }
    this.calls.attach(
      (type, payload) => channel.send(type, payload),
      (gate) => gateOpen(gate, this.state.readiness),
    )
    this.presence.attach(channel)
    this.#attachDocument()
    this.#completed()
  }

  #value(type: FrameType, payload: Uint8Array): void {
    switch (type) {
      case FrameType.EVENT:
        this.#event(payload)
        break
      case FrameType.RESPONSE:
        if (this.mirror.loading) this.#deferred.push(payload)
        else this.calls.response(payload)
        break
      case FrameType.PROJECTION:
        this.#projection(Projection.parse(decode(payload)))
        break
      case FrameType.READINESS:
        this.state.ready(Readiness.parse(decode(payload)))
        this.calls.flush()
        this.#attachDocument()
        this.#completed()
        break
      case FrameType.DOC:
        this.#document?.receive(payload)
        break
      case FrameType.EPHEMERAL:
        this.#document?.receivePresence(payload)
        break
      default:
        // Frames that a newer daemon may add are none of ours.
        break
    }
  }

  #projection(projection: Projection): void {
    if (projection.kind === 'cells') {
      this.mirror.page(projection)
      if (projection.last) this.#settle()
    } else if (projection.kind === 'metadata') this.mirror.metadata = projection.metadata
    else if (projection.kind === 'comms') this.comms.page(projection)
    else if (this.#fits(this.mirror.replay(projection))) return
    this.state.changed()
    this.#completed()
  }

  #event(payload: Uint8Array): void {
    const read = readEvent(payload)
    if (read.kind === 'unknown') {
      if (read.eventSeq !== undefined) this.#fits(this.mirror.skip(read.eventSeq))
      this.#completed()
      return
    }
    const { envelope } = read
    const { event, event_seq } = envelope
    const verdict = this.mirror.event(event_seq, event)
    if (this.#fits(verdict) || verdict === 'repeated') return
    this.state.event(event)
    this.comms.event(event)
    if (event.type === 'cells' && event.parts) this.#tellApart(envelope)
    else this.#tell(envelope)
    if (event.type === 'gap') this.#document?.resync()
    if (event.type === 'execution_finished') this.#settle()
    this.#completed()
  }

  #tell(envelope: EventEnvelope): void {
    this.emit('event', envelope)
    // The event is of the type it is told under; the compiler cannot pair the two.
    this.emit(envelope.event.type, envelope.event as never)
  }

  /** Whoever listens is told of each edit by its number, however many came in one frame. */
  #tellApart(envelope: EventEnvelope): void {
    if (!this.listens('event') && !this.listens('cells')) return
    for (const one of eachEdit(envelope)) this.#tell(one)
  }

  /** Starts over with a new channel when something is missing. Returns whether it did. */
  #fits(verdict: Verdict): boolean {
    if (verdict !== 'missed') return false
    this.#attachment.again('an event was missed')
    return true
  }

  /** Called whenever the picture may have become complete. */
  #completed(): void {
    if (this.#completing === null) {
      // A picture that the daemon showed again unasked ends here too.
      if (!this.mirror.loading) this.#release()
      return
    }
    if (this.mirror.loading || this.state.readiness.projection === 'pending') return
    const completed = this.#completing
    this.#completing = null
    this.#release()
    this.#settle()
    if (completed === 'first') this.#firstShown.resolve()
    else {
      const { eventSeq: event_seq, docSeq: doc_seq } = this.mirror
      this.emit('resumed', { ...completed, to: { event_seq, doc_seq } })
    }
  }

  /** Asks what became of executions that a fresh picture does not tell, and for texts that were cut where they are not kept. */
  #settle(): void {
    for (const id of this.mirror.unsettled()) {
      if (this.#asked.has(id)) continue
      this.#asked.add(id)
      this.#options.getExecution(id).then(
        (execution) => {
          this.#asked.delete(id)
          this.mirror.learn(execution)
          this.#state?.changed()
        },
        (error: Error) => {
          // The daemon was away too long: asked again when it has shown the room. Else whoever follows the run is told, once.
          if (error instanceof RoomdError && error.retryable) this.#asked.delete(id)
          else this.mirror.record(id)?.fail(error)
          this.#state?.changed()
        },
      )
    }
  }

  /** Responses that waited for the picture. */
  #release(): void {
    const deferred = this.#deferred
    this.#deferred = []
    for (const payload of deferred) this.calls.response(payload)
  }

  #away(): void {
    this.#channel = null
    this.#deferred = []
    this.calls.detach()
    this.#document?.detach()
    this.presence.detach()
    this.#state?.attachmentIs('away')
    this.emit('away', undefined)
  }

  #lost(error: RoomdError): void {
    const opened = this.#state !== null && this.#completing !== 'first'
    this.end(error)
    if (opened) this.emit('lost', error)
  }

  #attachDocument(): void {
    const channel = this.#channel
    if (!channel || !this.#document || !gateOpen('document', this.state.readiness)) return
    this.#document.attach(channel, scopeAllows(this.state.scope, 'editor'))
  }
}
