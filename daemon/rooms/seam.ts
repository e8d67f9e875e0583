/**
 * The seam between server/ (sockets, frames, dispatch) and rooms/ (state). The server knows no room's insides; rooms know no
 * sockets.
 */
import type { z } from 'zod'
import type { Close, Open } from '../../protocol/channels.ts'
import type { FrameType } from '../../protocol/frames.ts'
import type { ClientInstance, MutationId, NotebookId } from '../../protocol/ids.ts'
import type { ConnectionMethod, RoomMethod } from '../../protocol/methods.ts'
import type { PeerKind } from '../../protocol/notebook.ts'
import type { Scope } from '../../protocol/scopes.ts'

/** Who is at the other end of a connection; label already cleaned. */
export interface PeerIdentity {
  readonly connectionId: string
  readonly clientInstance: ClientInstance
  readonly label: string
  readonly kind: PeerKind
  /** Highest scope this connection may have. */
  readonly scope: Scope
  /** The only rooms its token reaches; absent or null: all. */
  readonly rooms?: ReadonlySet<NotebookId> | null
  /** Its client reads events that tell of several edits at once. */
  readonly editsTogether?: boolean
}

/** An attached channel as a room sees it. Implemented by server/channel.ts. */
export interface PeerChannel {
  /** Queues an event, page or update. false: over the bound; the room marks the peer stale and offers nothing until `writable`. */
  offer(type: FrameType, payload: Uint8Array): boolean
  /** Queues what may not be refused: OPENED, READINESS. */
  send(type: FrameType, payload: Uint8Array): void
  /** Set by the room: called when a refused channel can take more. */
  writable: () => void
  /** Detach by the daemon: sends CLOSE; the peer is already released. */
  close(close: Close): void
}

export interface RequestContext {
  readonly identity: PeerIdentity
  readonly mutationId?: MutationId
  readonly watermark?: number
  readonly expect?: { doc_seq?: number; event_seq?: number; activation_generation?: number }
  /** Aborted by CANCEL, by the deadline, and when channel or connection end. */
  readonly signal: AbortSignal
}

/** The peer object of one channel: created by attaching, released exactly once. */
export interface AttachedPeer {
  readonly peerId: string
  readonly notebookId: NotebookId
  readonly scope: Scope
  /** Arguments are parsed and the scope is checked. Resolves after the effects were offered to this very channel. */
  request(method: RoomMethod, args: unknown, context: RequestContext): Promise<unknown>
  /** A DOC payload from the peer. Throws RoomdError; the server then closes the channel with it. */
  document(payload: Uint8Array): Promise<void>
  /** An EPHEMERAL payload from the peer. */
  ephemeral(payload: Uint8Array): void
  /** Sends where everybody is once more, as EPHEMERAL. */
  tellPresence(): void
  /** Something was read from this peer. */
  touch(): void
  /** Idempotent. */
  detach(reason: string): void
}

/** All rooms, as the server sees them. Implemented by rooms/registry.ts. */
export interface Rooms {
  /**
   * Makes a peer, or throws RoomdError and leaves none. The last step is synchronous: subscribe, take the picture, and send
   * OPENED behind whatever commit is pending. An aborted signal (channel or connection gone) leaves no peer at whatever step.
   */
  attach(open: z.output<typeof Open>, context: RequestContext, channel: PeerChannel): Promise<AttachedPeer>
  /** Methods of channel 0, but `ping`, `status` and `shutdown`, which the server answers. */
  request(method: ConnectionMethod, args: unknown, context: RequestContext): Promise<unknown>
  /** For WELCOME. */
  instance(clientInstance: ClientInstance): { activation_generation: number; mutation_id: number }
  counts(): { rooms: number; peers: number; kernels: number }
  /** Executions in all rooms that run and that wait. */
  executions(): { running: number; queued: number }
  /** No new work; settles and journals every room; lets kernels go on (or ends them). Rejects naming what is not durable. */
  shutdown(options: { kernels: boolean }): Promise<{ rooms: number; kernels_kept: number }>
}
