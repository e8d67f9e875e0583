/**
 * What a room shows: kernel, queue, executions, peers, readiness, cells. Read it at any time; `change` says that something did,
 * at most once a turn however many frames that turn brought.
 */
import type { Opened } from '../../protocol/channels.ts'
import type { RoomEvent } from '../../protocol/events.ts'
import type { CellId, ExecutionId, NotebookId } from '../../protocol/ids.ts'
import type {
  Cell,
  Execution,
  ExecutionSummary,
  KernelSummary,
  PeerSummary,
  Readiness,
  SourceState,
} from '../../protocol/notebook.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { Emitter } from './emitter.ts'
import type { Mirror } from './mirror.ts'

/** Where this client stands with the room. `away`: the connection is being made again; the rest is as last known. */
export type Attachment = 'attached' | 'away' | 'lost' | 'closed'

export interface SourceInfo {
  readonly path: string | null
  readonly state: SourceState
  readonly reason?: string
}

export class RoomState extends Emitter<{ change: RoomState }> {
  readonly #mirror: Mirror
  #opened: Opened
  #readiness: Readiness
  #kernel: KernelSummary | null
  #path: string | null
  readonly #peers = new Map<string, PeerSummary>()
  #peersTotal = 0
  #attachment: Attachment = 'attached'
  #scheduled = false

  /** Made by the room from its first OPENED. */
  constructor(mirror: Mirror, opened: Opened) {
    super()
    this.#mirror = mirror
    this.#opened = opened
    this.#readiness = opened.readiness
    this.#kernel = opened.kernel
    this.#path = opened.path
    this.opened(opened)
  }

  get notebook_id(): NotebookId {
    return this.#opened.notebook_id
  }
  get title(): string {
    return this.#opened.title
  }
  /** This client's own peer. */
  get peer_id(): string {
    return this.#opened.peer_id
  }
  get scope(): Scope {
    return this.#opened.scope
  }
  get attachment(): Attachment {
    return this.#attachment
  }
  get readiness(): Readiness {
    return this.#readiness
  }
  get kernel(): KernelSummary | null {
    const kernel = this.#kernel
    // Events tell when something begins and ends to run, not what that makes of the kernel.
    if (kernel?.state !== 'idle' && kernel?.state !== 'busy') return kernel
    return { ...kernel, state: this.running ? 'busy' : 'idle' }
  }
  get source(): SourceInfo {
    const { state, reason } = this.#readiness.source
    return { path: this.#path, state, ...(reason === undefined ? {} : { reason }) }
  }
  /** Accepted document updates / runtime events that this state includes. */
  get doc_seq(): number {
    return this.#mirror.docSeq
  }
  get event_seq(): number {
    return this.#mirror.eventSeq
  }
  /** Notebook-level metadata. */
  get metadata(): Readonly<Record<string, unknown>> {
    return this.#mirror.metadata
  }
  /** In document order, with the outputs of each cell's newest execution. Never changed afterwards. */
  get cells(): readonly Cell[] {
    return this.#mirror.cells
  }
  cell(cellId: string): Cell | undefined {
    return this.#mirror.cell(cellId as CellId)
  }
  /** The execution that runs or waits for input. */
  get running(): ExecutionSummary | null {
    return this.#mirror.open.find((execution) => execution.status !== 'queued') ?? null
  }
  /** In order. A room with more than 100 of them tells the first ones by name; `queuedTotal` counts all. */
  get queued(): readonly ExecutionSummary[] {
    return this.#mirror.open.filter((execution) => execution.status === 'queued')
  }
  get queuedTotal(): number {
    return this.queued.length + this.#mirror.queuedBeyond
  }
  /** Executions this client has heard of; old ones are forgotten once no cell shows them. */
  get executions(): ReadonlyMap<ExecutionId, ExecutionSummary> {
    return new Map([...this.#mirror.executions].map(([id, record]) => [id, record.summary]))
  }
  /** One of `executions` with its outputs so far. */
  execution(executionId: string): Execution | undefined {
    return this.#mirror.record(executionId as ExecutionId)?.execution()
  }
  /** This client's own peer included. A room with more than 100 peers names some; `peersTotal` counts all. */
  get peers(): readonly PeerSummary[] {
    return [...this.#peers.values()]
  }
  get peersTotal(): number {
    return this.#peersTotal
  }

  // --- for the room --------------------------------------------------------------------------------------------------

  opened(opened: Opened): void {
    this.#opened = opened
    this.#readiness = opened.readiness
    this.#kernel = opened.kernel
    this.#path = opened.path
    this.#peers.clear()
    for (const peer of opened.peers) this.#peers.set(peer.peer_id, peer)
    this.#peersTotal = opened.peers_total
    this.#attachment = 'attached'
    this.changed()
  }

  ready(readiness: Readiness): void {
    this.#readiness = readiness
    this.changed()
  }

  attachmentIs(attachment: Attachment): void {
    this.#attachment = attachment
    this.changed()
  }

  /** What an event tells beside the mirror's business. */
  event(event: RoomEvent): void {
    switch (event.type) {
      case 'kernel':
        this.#kernel = event.kernel
        break
      case 'source': {
        const { path, state, reason } = event
        this.#path = path
        this.#readiness = {
          ...this.#readiness,
          source: { state, ...(reason === undefined ? {} : { reason }) },
        }
        break
      }
      case 'saved':
        this.#path = event.path
        break
      case 'peers':
        for (const peer of event.joined) this.#peers.set(peer.peer_id, peer)
        for (const peerId of event.left) this.#peers.delete(peerId)
        this.#peersTotal = event.total
        break
      default:
        break
    }
    this.changed()
  }

  changed(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    queueMicrotask(() => {
      this.#scheduled = false
      this.emit('change', this)
    })
  }
}
