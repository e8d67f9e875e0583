/**
 * One room channel of a connection: from OPEN to its end it owns at most one peer.
 *
 * attaching → attached → closed, or attaching → closed. Whatever ends it (CLOSE from the client, a detach by the room, a failed
 * attach, the end of the connection) goes through `#end`, which releases the peer once. Attaching takes time; when the channel
 * ends meanwhile, the signal tells the rooms, and a peer that comes back all the same is released at once.
 */
import { Close, Open } from '../../protocol/channels.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { parseOutside, RoomdError, toWireError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { RoomMethod } from '../../protocol/methods.ts'
import { scopeAllows } from '../../protocol/scopes.ts'
import type { AttachedPeer, PeerChannel } from '../rooms/seam.ts'
import { OpenRequest } from './open-request.ts'
import { type Call, type RequestPort, Requests, requireScope } from './requests.ts'
import type { RoomsGate } from './rooms-gate.ts'

/** What a channel needs of its connection. */
export interface ChannelPort extends RequestPort {
  readonly gate: RoomsGate
  offer(type: FrameType, payload: Uint8Array): boolean
  /** The channel is over: forget it. What it sent on the control lane (CLOSE) still goes out. */
  forget(): void
}

type State =
  | { readonly kind: 'attaching'; readonly context: OpenRequest; readonly attached: Promise<AttachedPeer> }
  | { readonly kind: 'attached'; readonly peer: AttachedPeer }
  | { readonly kind: 'closed' }

export class Channel implements PeerChannel {
  /** Set by the room. */
  writable: () => void = () => undefined
  readonly #port: ChannelPort
  readonly #requests: Requests
  #state: State

  /** Starts attaching; `payload` is the OPEN's. */
  constructor(port: ChannelPort, payload: Uint8Array) {
    this.#port = port
    this.#requests = new Requests('room', port, (call) => this.#perform(call))
    const context = new OpenRequest(port.identity)
    // In a turn of its own: the room may speak to this channel before `attach` returns.
    const attached = Promise.resolve().then(() => this.#attach(context, payload))
    this.#state = { kind: 'attaching', context, attached }
    attached.then(
      (peer) => {
        if (this.#state.kind === 'attaching') this.#state = { kind: 'attached', peer }
        else peer.detach('the channel closed while it was being attached')
      },
      (error) => this.#failed(error),
    )
  }

  // --- for the room ------------------------------------------------------------------------------------------------

  offer(type: FrameType, payload: Uint8Array): boolean {
    return this.#state.kind !== 'closed' && this.#port.offer(type, payload)
  }

  send(type: FrameType, payload: Uint8Array): void {
    if (this.#state.kind !== 'closed') this.#port.send(type, payload)
  }

  close(close: Close): void {
    if (this.#state.kind === 'closed') return
    this.#port.send(FrameType.CLOSE, encode(close))
    this.#end(close.reason)
  }

  // --- for the connection ------------------------------------------------------------------------------------------

  /** A value on this channel; the returned promise never rejects. */
  receive(type: FrameType, payload: Uint8Array): void | Promise<void> {
    if (this.#state.kind === 'attached') this.#state.peer.touch()
    switch (type) {
      case FrameType.REQUEST:
        return this.#requests.receive(payload)
      case FrameType.CANCEL:
        return this.#requests.cancel(payload)
      case FrameType.DOC:
        return this.#document(payload)
      case FrameType.EPHEMERAL:
        return this.#ephemeral(payload)
      case FrameType.CLOSE:
        return this.#closedByClient(payload)
      default:
        this.#reject(
          new RoomdError(
            'unsupported',
            `frames of type 0x${type.toString(16)} have no meaning on the channel of a room`,
          ),
        )
    }
  }

  /** Something was read from the connection lately. */
  touch(): void {
    if (this.#state.kind === 'attached') this.#state.peer.touch()
  }

  /** The connection is gone. */
  connectionEnded(reason: string): void {
    this.#end(reason)
  }

  // --- attaching ---------------------------------------------------------------------------------------------------

  async #attach(context: OpenRequest, payload: Uint8Array): Promise<AttachedPeer> {
    const open = readOpen(payload)
    const { scope } = this.#port.identity
    if (open.scope !== undefined && !scopeAllows(scope, open.scope)) {
      throw new RoomdError(
        'forbidden',
        `this connection has scope ${scope} and cannot open a channel as ${open.scope}`,
      )
    }
    const rooms = this.#port.gate.rooms ?? (await this.#port.gate.wait())
    if (context.aborted) throw context.aborted
    if (this.#port.stopping()) {
      throw new RoomdError(
        'shutting_down',
        'the daemon is shutting down; open the room again at the next one',
      )
    }
    return rooms.attach(open, context, this)
  }

  #failed(error: unknown): void {
    if (this.#state.kind === 'closed') return
    if (!(error instanceof RoomdError)) this.#port.defect('OPEN', error)
    this.#reject(error)
  }

  // --- attached ----------------------------------------------------------------------------------------------------

  #perform(call: Call): unknown {
    const state = this.#state
    switch (state.kind) {
      case 'attached':
        return this.#ask(state.peer, call)
      case 'attaching':
        return state.attached.then((peer) => {
          if (call.context.aborted) throw call.context.aborted
          return this.#ask(peer, call)
        })
      case 'closed':
        throw new RoomdError('outcome_unknown', 'the channel is closed')
    }
  }

  #ask(peer: AttachedPeer, call: Call): Promise<unknown> {
    requireScope(peer.scope, call.rule, call.method)
    return peer.request(call.method as RoomMethod, call.args, call.context)
  }

  /** Updates are applied in order; their credit returns when they are. */
  async #document(payload: Uint8Array): Promise<void> {
    try {
      const state = this.#state
      const peer =
        state.kind === 'attaching' ? await state.attached : state.kind === 'attached' ? state.peer : null
      // Closed meanwhile: the peer is released and takes nothing any more.
      if (!peer || this.#state.kind === 'closed') return
      await peer.document(payload)
    } catch (error) {
      this.#failed(error)
    }
  }

  #ephemeral(payload: Uint8Array): void {
    // Presence before attaching is dropped, as presence may be.
    if (this.#state.kind !== 'attached') return
    try {
      this.#state.peer.ephemeral(payload)
    } catch (error) {
      this.#failed(error)
    }
  }

  // --- the end -----------------------------------------------------------------------------------------------------

  #closedByClient(payload: Uint8Array): void {
    const close = Close.safeParse(decodeOrNull(payload))
    this.#end(close.success && close.data.reason !== '' ? close.data.reason : 'closed by the client')
  }

  /** CLOSE with an error, then the end. */
  #reject(error: unknown): void {
    if (this.#state.kind === 'closed') return
    const wireError = toWireError(error)
    const { code, message } = wireError
    const reason = message.slice(0, 3000)
    try {
      this.#port.send(FrameType.CLOSE, encode({ code, reason, error: wireError }))
    } catch (unsendable) {
      // A cause that is over the cap or cannot be written.
      this.#port.defect('CLOSE', unsendable)
      this.#port.send(FrameType.CLOSE, encode({ code, reason }))
    }
    this.#end(reason)
  }

  #end(reason: string): void {
    const state = this.#state
    if (state.kind === 'closed') return
    this.#state = { kind: 'closed' }
    this.#requests.end(`the channel closed: ${reason}`)
    if (state.kind === 'attaching')
      state.context.abort(new RoomdError('outcome_unknown', `the channel closed: ${reason}`))
    else state.peer.detach(reason)
    this.#port.forget()
  }
}

function readOpen(payload: Uint8Array) {
  const value = decodeOrNull(payload)
  if (value === null) throw new RoomdError('invalid_argument', 'an OPEN is one MessagePack map')
  return parseOutside(Open, value, 'OPEN')
}

function decodeOrNull(payload: Uint8Array): unknown {
  try {
    return decode(payload) ?? null
  } catch {
    return null
  }
}
