/** Rooms that do what a test says, and keep count of every peer. */
import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import type { AttachedPeer, PeerChannel, RequestContext, Rooms } from '../../daemon/rooms/seam.ts'
import type { Open } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'
import { FrameType } from '../../protocol/frames.ts'
import { NotebookId } from '../../protocol/ids.ts'
import type { ConnectionMethod, RoomMethod } from '../../protocol/methods.ts'
import type { Scope } from '../../protocol/scopes.ts'

export const aNotebook = NotebookId.parse('33333333-3333-4333-8333-333333333333')

type RoomRequest = (
  peer: ScriptedPeer,
  method: RoomMethod,
  args: unknown,
  context: RequestContext,
) => Promise<unknown>

export class ScriptedPeer implements AttachedPeer {
  readonly peerId = randomUUID()
  readonly notebookId = aNotebook
  readonly scope: Scope
  readonly channel: PeerChannel
  readonly detached: string[] = []
  readonly documents: Uint8Array[] = []
  readonly whispers: Uint8Array[] = []
  touches = 0
  readonly #rooms: ScriptedRooms

  constructor(rooms: ScriptedRooms, scope: Scope, channel: PeerChannel) {
    this.#rooms = rooms
    this.scope = scope
    this.channel = channel
    rooms.peers.add(this)
  }

  request(method: RoomMethod, args: unknown, context: RequestContext): Promise<unknown> {
    return this.#rooms.roomRequest(this, method, args, context)
  }

  async document(payload: Uint8Array): Promise<void> {
    await this.#rooms.onDocument(this, payload)
    this.documents.push(payload)
  }

  ephemeral(payload: Uint8Array): void {
    this.whispers.push(payload)
  }

  tellPresence(): void {}

  touch(): void {
    this.touches++
  }

  detach(reason: string): void {
    this.detached.push(reason)
    this.#rooms.peers.delete(this)
  }

  /** As a room does it: released first, then told. */
  kick(reason: string): void {
    this.detach(reason)
    this.channel.close({ code: 'closed', reason })
  }
}

export class ScriptedRooms implements Rooms {
  /** Attached now. */
  readonly peers = new Set<ScriptedPeer>()
  /** Every peer that ever was. */
  readonly all: ScriptedPeer[] = []
  readonly attaching: { open: z.output<typeof Open>; context: RequestContext }[] = []
  readonly shutdowns: { kernels: boolean }[] = []
  /** Runs before a peer is made. */
  beforeAttach: (context: RequestContext) => Promise<void> = async () => {}
  /** Runs after a peer is made and before `attach` resolves. */
  afterAttach: (peer: ScriptedPeer) => Promise<void> = async () => {}
  /** false: aborted signals are overlooked, as a careless implementation might. */
  heedsAbort = true
  roomRequest: RoomRequest = async () => ({})
  connectionRequest: (method: ConnectionMethod, args: unknown, context: RequestContext) => Promise<unknown> =
    async () => ({ rooms: [] })
  onDocument: (peer: ScriptedPeer, payload: Uint8Array) => Promise<void> = async () => {}
  onShutdown: () => Promise<{ rooms: number; kernels_kept: number }> = async () => ({
    rooms: 2,
    kernels_kept: 1,
  })

  async attach(
    open: z.output<typeof Open>,
    context: RequestContext,
    channel: PeerChannel,
  ): Promise<AttachedPeer> {
    this.attaching.push({ open, context })
    await this.beforeAttach(context)
    if (this.heedsAbort) context.signal.throwIfAborted()
    const peer = new ScriptedPeer(this, open.scope ?? context.identity.scope, channel)
    this.all.push(peer)
    channel.send(FrameType.OPENED, encode({ notebook_id: aNotebook, peer_id: peer.peerId }))
    await this.afterAttach(peer)
    return peer
  }

  request(method: ConnectionMethod, args: unknown, context: RequestContext): Promise<unknown> {
    return this.connectionRequest(method, args, context)
  }

  instance(): { activation_generation: number; mutation_id: number } {
    return { activation_generation: 7, mutation_id: 11 }
  }

  executions(): { running: number; queued: number } {
    return { running: 0, queued: 0 }
  }

  counts(): { rooms: number; peers: number; kernels: number } {
    return { rooms: 1, peers: this.peers.size, kernels: 0 }
  }

  shutdown(options: { kernels: boolean }): Promise<{ rooms: number; kernels_kept: number }> {
    this.shutdowns.push(options)
    return this.onShutdown()
  }
}

/** A promise that a test settles. */
export function deferred<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
