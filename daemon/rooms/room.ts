/**
 * One live notebook: an actor. It owns the room's document, executions, kernel slot, events and peers; every change goes through
 * one synchronous method call on it, on the main thread.
 *
 * Invariants: memory changes at once, nobody outside sees a change before its commit (commit-line.ts); counters rise by one and
 * are never reused; the peer count is the size of the set of peers. When a commit fails the room rebuilds itself from the store
 * under a new epoch, is read-only until writing works again, and shows every peer a fresh picture.
 */
import type { z } from 'zod'
import type { Open, Opened } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import type { MethodArguments, RoomMethod } from '../../protocol/methods.ts'
import type { KernelSummary, Readiness, RoomSummary } from '../../protocol/notebook.ts'
import type { Journal } from '../documents/journal.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { Statement, Store } from '../store/store.ts'
import { attachPeer, showAgain } from './attaching.ts'
import { CommitLine } from './commit-line.ts'
import { EditBatch } from './edit-batch.ts'
import { EventLog } from './event-log.ts'
import { archivedRoom, goneRoom } from './gone.ts'
import { graduate } from './graduation.ts'
import { KernelSlot } from './kernel-slot.ts'
import { KernelTerms } from './kernel-terms.ts'
import type { Mutation, Mutations } from './mutations.ts'
import type { RoomDocument, RoomExecutions, RoomPort } from './parts.ts'
import type { Peer } from './peer.ts'
import { RoomPeers } from './room-peers.ts'
import { advance, type RoomRecord } from './room-record.ts'
import { type RoomHandler, roomHandlers } from './room-requests.ts'
import { RoomSource } from './room-source.ts'
import { isAttachable } from './room-state.ts'
import { listingOf, readinessOf, summaryOf } from './room-summary.ts'
import type { FileSurroundings, RoomsContext } from './rooms-context.ts'
import type { PeerChannel, PeerIdentity, RequestContext } from './seam.ts'
import { mustTakeEdits } from './source-states.ts'
import { EditFrames, isWork, measureCommitted, type WholeChange, workOf } from './whole-change.ts'

/** How often a room whose commit failed tries to write again. */
export const WRITE_RETRY_MS = 3_000

/** How long after the last peer left the document is put to rest: whoever comes back at once finds it as it was. */
export const REST_AFTER_MS = 1_000

/** What a room is made of, and what makes it again after a failed commit. */
export interface RoomParts {
  readonly record: RoomRecord
  readonly document: RoomDocument
  readonly journal: Journal
  makeExecutions(port: RoomPort): RoomExecutions
}

export interface RoomSurroundings {
  readonly mutations: Mutations
  readonly context: RoomsContext
  readonly files: FileSurroundings
  /** Reads the room's parts from the store. */
  load(notebookId: NotebookId): RoomParts
}

export class Room implements RoomPort {
  readonly id: NotebookId
  readonly store: Store
  readonly surroundings: RoomSurroundings
  readonly peers: RoomPeers
  readonly slot: KernelSlot
  readonly terms: KernelTerms
  /** The room's file: looking, merging, saving, watching. */
  readonly source: RoomSource
  readonly edits: EditBatch
  executions: RoomExecutions
  events: EventLog
  connectionGeneration = 0
  /** Set while nothing can be stored: why. */
  fault: RoomdError | null = null
  #record: RoomRecord
  #document: RoomDocument
  #journal: Journal
  #line: CommitLine
  #reservations = 0
  #closed = false
  #told: Readiness
  /** As lists were last told of it. */
  #listing: string | null
  #lastLeft = 0
  #cancelRetry: (() => void) | null = null
  #cancelRest: (() => void) | null = null
  /** Why a kernel that was ended during a fault is gone. */
  #endedMeanwhile: string | undefined

  constructor(parts: RoomParts, surroundings: RoomSurroundings) {
    this.id = parts.record.notebook_id
    this.store = surroundings.context.store
    const { clock, kernels, hooks } = surroundings.context
    this.peers = new RoomPeers(clock)
    this.surroundings = surroundings
    this.#record = parts.record
    this.#document = parts.document
    this.edits = new EditBatch(() => ({
      document: this.#document,
      docSeq: this.#record.doc_seq,
      commit: (change) => this.#commit(change),
    }))
    this.#journal = parts.journal
    this.#line = new CommitLine(this.store, (error) => this.#rebuild(error))
    this.events = new EventLog(this.store, this.id, this.record.event_seq)
    this.terms = new KernelTerms(this)
    this.slot = new KernelSlot({
      clock,
      kernels,
      startRequest: (name, signal) => this.terms.startRequest(name, signal),
      prepare: async (kernel, signal) => {
        await hooks?.started(this, kernel, signal)
      },
      changed: () => this.#kernelChanged(),
      event: (kernel, event) => {
        if (this.fault) return false
        if (event.kind === 'died' && !event.expected) {
          hooks?.kernelDied(this, event.out_of_memory === true || event.signal === 'SIGKILL')
        }
        this.executions.kernelEvent(kernel, event)
        return true
      },
      // While nothing can be stored no execution ends: `#retryWriting` goes on from the store.
      ended: (reason, ending) => {
        if (this.fault) this.#endedMeanwhile = reason
        else this.executions.kernelGone(reason, ending)
      },
      startFailed: (error) => {
        if (!this.fault) this.executions.kernelGone(error.message, 'start_failed')
      },
      idle: () => this.peers.size === 0 && this.#reservations === 0 && this.executions.idle,
      generation: () => this.connectionGeneration,
      keepAliveMs: () => this.terms.keepAliveMs,
      runningCell: () => {
        const { running } = this.executions
        return running === null ? undefined : running.cell_id
      },
      ranOutOfMemory: (what) => this.terms.ranOutOfMemory(what),
      started: (kernel) => {
        if (!this.fault) this.terms.started(kernel)
      },
      settled: () => this.settled(),
    })
    this.executions = parts.makeExecutions(this)
    this.source = new RoomSource(surroundings.context, surroundings.files, this)
    this.#told = this.readiness()
    this.#listing = listingOf(this.record)
  }

  // --- what the parts ask (RoomPort) ---------------------------------------------------------------------------------

  now(): number {
    return this.surroundings.context.clock.now()
  }

  cell(cellId: CellId): { cell_type: string; source: string; source_hash: string } | undefined {
    return this.document.cell(cellId)
  }

  codeCells(): CellId[] {
    return this.document
      .cells(0, this.document.cellCount)
      .filter((cell) => cell.cell_type === 'code')
      .map((cell) => cell.cell_id)
  }

  kernel(): Promise<Kernel> {
    return this.slot.want()
  }

  get presentKernel(): Kernel | null {
    return this.slot.present
  }

  /** Was left or taken out of memory for good. */
  get closed(): boolean {
    return this.#closed
  }

  /** Why nothing else may hold on to it: work is on its way to the store. */
  get pending(): boolean {
    return this.#line.pending > 0 || !this.edits.empty
  }

  /** Behind the edits that were taken in: nobody looks at the room without them. */
  get document(): RoomDocument {
    this.edits.flush()
    return this.#document
  }

  /** As `document`. */
  get record(): RoomRecord {
    this.edits.flush()
    return this.#record
  }

  get docSeq(): number {
    return this.record.doc_seq
  }

  /** Hands over a change; see RoomPort. `told` runs after the commit and the telling, before the promise resolves. */
  commit(change: WholeChange, told?: () => void): Promise<void> {
    this.edits.flush()
    return this.#commit(change, told)
  }

  #commit(change: WholeChange, told?: () => void): Promise<void> {
    if (this.fault) return Promise.reject(this.fault)
    try {
      return this.#submit(change, told)
    } catch (thrown) {
      // What cannot even be written down is in memory already, and counters have moved: back to what the store has.
      const why = thrown instanceof Error ? thrown.message : String(thrown)
      const error = new RoomdError('internal', `the change could not be stored and was taken back: ${why}`)
      this.fault = error
      // Behind what is on its way, which is stored and told as ever.
      this.#line.behind(
        () => this.#line.break(error),
        () => {},
      )
      return Promise.reject(error)
    }
  }

  #submit(change: WholeChange, told?: () => void): Promise<void> {
    const at = this.now()
    const { record } = this
    const graduation = record.state === 'draft' && isWork(change) ? graduate(this, workOf(change)) : []
    const journal: Statement[] = []
    if (change.document) {
      record.doc_seq += change.document.parts?.length ?? 1
      const { change: made, by } = change.document
      const whole = (): Uint8Array | null => this.#document.whole()
      journal.push(...this.#journal.append(record.doc_seq, made.update, by, at, whole))
    }
    const numbered = this.events.number(change.events ?? [], at)
    record.commit_seq++
    record.event_seq = this.events.last
    record.touched_at = at
    const results = change.results ? this.surroundings.mutations.resultRowsOf(change.results) : []
    const unit = [
      ...graduation,
      advance(record),
      ...journal,
      ...change.statements,
      ...numbered.statements,
      ...results,
    ]
    const edited = change.document && new EditFrames(change.document, record.doc_seq, at)
    const first = this.events.last - numbered.frames.length
    const committed = (): void => {
      if (edited) this.peers.deliverEdits(edited)
      measureCommitted(change)
      numbered.frames.forEach((frame, i) => {
        this.peers.deliver(FrameType.EVENT, frame, first + i + 1)
      })
      if (graduation.length > 0) this.surroundings.context.hooks?.graduated(this)
      this.#tellListing()
      told?.()
      this.slot.consider()
      this.source.changed(edited !== undefined, change.events ?? [])
      this.#tellReadiness()
    }
    return this.#line.submit(unit, committed, change.early)
  }

  /** Resolves behind everything pending now, so that an answer never shows what is not committed. */
  settled(): Promise<void> {
    this.edits.flush()
    return this.#line.pending === 0 && !this.fault ? Promise.resolve() : this.#line.settled()
  }

  /** Runs `run` behind everything pending now; `fail` when that could not be stored. */
  behind(run: () => void, fail: (error: RoomdError) => void): void {
    this.edits.flush()
    this.#line.behind(run, fail)
  }

  // --- peers ---------------------------------------------------------------------------------------------------------

  /** Keeps the room from being torn down between look-up and attach; released once. */
  reserve(): () => void {
    this.#reservations++
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#reservations--
      this.slot.consider()
    }
  }

  /** Nothing holds this room in memory. */
  get unused(): boolean {
    return (
      this.peers.size === 0 &&
      this.#reservations === 0 &&
      this.slot.runtime !== 'ready' &&
      this.slot.runtime !== 'launching' &&
      this.executions.idle &&
      !this.pending &&
      !this.fault
    )
  }

  /** Subscribes and takes the picture in one synchronous step; see attaching.ts. */
  attach(identity: PeerIdentity, open: z.output<typeof Open>, channel: PeerChannel, early?: Opened): Peer {
    if (this.#closed)
      throw new RoomdError('notebook_unavailable', `room ${this.id} was closed meanwhile; connect again`)
    this.connectionGeneration++
    if (!isAttachable(this.record.state)) throw goneRoom(this.surroundings.context, this.id)
    const peer = attachPeer(this, identity, open, channel, early)
    this.slot.consider()
    this.surroundings.context.hooks?.peersChanged(this)
    return peer
  }

  /** Gives back the memory of the document while nobody is here; what is asked of it brings it back. */
  rest(): void {
    if (this.#closed || this.fault || this.peers.size > 0 || this.#reservations > 0 || this.pending) return
    this.document.rest()
    if (this.executions.idle) this.executions.trim()
  }

  /** Called by `Peer.detach` alone. */
  release(peer: Peer, reason: string): void {
    this.peers.remove(peer)
    this.#lastLeft = this.now()
    if (this.peers.size === 0 && !this.#closed) {
      this.#cancelRest?.()
      this.#cancelRest = this.surroundings.context.clock.after(REST_AFTER_MS, () => {
        this.#cancelRest = null
        this.rest()
      })
    }
    this.slot.consider()
    this.source.considerHandOff()
    if (!this.#closed) this.surroundings.context.hooks?.peersChanged(this)
    this.surroundings.context.log.debug({ room: this.id, peer: peer.peerId, reason }, 'peer left')
  }

  // --- what peers send -----------------------------------------------------------------------------------------------

  async request(peer: Peer, method: RoomMethod, args: unknown, context: RequestContext): Promise<unknown> {
    const { expect } = context
    const { mutations } = this.surroundings
    if (expect?.activation_generation !== undefined) {
      mutations.checkGeneration(context.identity.clientInstance, expect.activation_generation)
    }
    // The table types each handler by its own method; the server has parsed `args` by the same table.
    const handler = roomHandlers[method] as RoomHandler<RoomMethod>
    const run = (mutation: Mutation | null) =>
      handler({ room: this, peer, context, mutation }, args as MethodArguments<RoomMethod>)
    if (context.mutationId === undefined) return run(null)
    const key = {
      clientInstance: context.identity.clientInstance,
      id: context.mutationId,
      watermark: context.watermark,
    }
    return mutations.run(key, method, this.id, run)
  }

  /** The mutate gate: throws what closes it. */
  mustMutate(): void {
    if (this.fault) throw this.fault
    if (this.record.state === 'archived') throw archivedRoom(this.id, 'takes no edits')
    mustTakeEdits(this.record.source)
  }

  // --- what is shown -------------------------------------------------------------------------------------------------

  readiness(): Readiness {
    return readinessOf(this.record.source, this.slot.runtime)
  }

  kernelSummary(): KernelSummary | null {
    return this.slot.summary(this.executions?.running !== null)
  }

  summary(): RoomSummary {
    return summaryOf(this)
  }

  /** Since when nothing was changed or run here and nobody left: epoch ms. */
  get idleSince(): number {
    return Math.max(this.record.touched_at, this.#lastLeft)
  }

  // --- ending --------------------------------------------------------------------------------------------------------

  /** Detaches all peers, lets go of the kernel, frees memory. Nothing is lost: all of it is in the store. */
  dispose(reason: string): void {
    this.edits.flush()
    this.#closed = true
    this.peers.dispose()
    this.#cancelRetry?.()
    this.#cancelRest?.()
    for (const peer of [...this.peers]) {
      peer.detach(reason)
      peer.channel.close({ code: 'closed', reason })
    }
    this.source.dispose()
    this.slot.dispose()
    this.executions.dispose()
    this.document.dispose()
    this.#journal.dispose()
  }

  // --- within --------------------------------------------------------------------------------------------------------

  #kernelChanged(): void {
    if (this.#closed || this.fault) return
    const event: DurableEvent = { type: 'kernel', kernel: this.kernelSummary() }
    // A failure breaks the line, and the rebuild shows the kernel as it is.
    this.commit({ statements: [], events: [event] }).catch(() => {})
    this.source.considerHandOff()
  }

  #tellListing(): void {
    const listing = listingOf(this.record)
    if (listing === this.#listing) return
    this.#listing = listing
    this.surroundings.context.hooks?.listChanged(this.id)
  }

  #tellReadiness(): void {
    const now = this.readiness()
    if (JSON.stringify(now) === JSON.stringify(this.#told)) return
    this.#told = now
    this.peers.deliver(FrameType.READINESS, encode(now))
  }

  #rebuild(error: RoomdError): void {
    if (this.#closed) return
    this.surroundings.context.log.error(
      { room: this.id, code: error.code, reason: error.message },
      'a commit failed; the room is rebuilt from the store',
    )
    this.fault = error
    this.edits.fail(error)
    this.executions.dispose()
    this.document.dispose()
    this.#journal.dispose()
    const parts = this.surroundings.load(this.id)
    this.#record = parts.record
    this.#document = parts.document
    this.#journal = parts.journal
    this.events = new EventLog(this.store, this.id, this.record.event_seq)
    this.executions = parts.makeExecutions(this)
    this.#line = new CommitLine(this.store, (again) => this.#rebuild(again))
    for (const peer of this.peers) showAgain(this, peer, error.message)
    this.#retryWriting()
  }

  #retryWriting(): void {
    this.#cancelRetry?.()
    this.#cancelRetry = this.surroundings.context.clock.after(WRITE_RETRY_MS, () => {
      const probe = {
        sql: 'UPDATE rooms SET touched_at = ? WHERE notebook_id = ?',
        values: [this.now(), this.id],
      }
      this.store.write([probe]).then(
        () => {
          if (this.#closed) return
          this.fault = null
          const whyGone = this.#endedMeanwhile
          this.#endedMeanwhile = undefined
          this.resumeKernel(whyGone)
          this.source.autosave.changed()
        },
        () => this.#retryWriting(),
      )
    })
  }

  /** Goes on with the kernel there is: its events from what the store has consumed, its open executions. */
  resumeKernel(whyGone?: string): void {
    const kernel = this.slot.present
    this.executions.resume(kernel, whyGone)
    if (!kernel) return
    this.slot.listen(this.#consumedSeq(kernel))
    this.terms.started(kernel)
  }

  #consumedSeq(kernel: Kernel): number {
    const row = this.store.get<{ consumed_seq: number }>(
      'SELECT consumed_seq FROM kernels WHERE kernel_id = ?',
      kernel.id,
    )
    return row?.consumed_seq ?? 0
  }
}
