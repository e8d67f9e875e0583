/**
 * The comms of one room: what the kernel says of them, what peers do with them, and what goes between the two.
 *
 * Invariants: memory is the state of all changes handed over, committed or not (as in room-executions.ts); `rows` makes the store follow,
 * in the transaction of the change, so that outputs, comms and the number of the consumed host event commit together. A message to the
 * kernel is a row first (`sender.ts`). Comms belong to one kernel and are gone with it.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../../protocol/clock.ts'
import { encode } from '../../../protocol/codec.ts'
import {
  COMM_INLINE,
  type CommContent,
  type CommId,
  type CommView,
  putBuffers,
} from '../../../protocol/comms.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import type { DurableEvent } from '../../../protocol/events.ts'
import type { ExecutionId, KernelId, NotebookId } from '../../../protocol/ids.ts'
import type { Kernel } from '../../kernels/kernel.ts'
import type { Statement, Store } from '../../store/store.ts'
import type { Blobs } from '../blobs.ts'
import type { Change } from '../change.ts'
import { type CommTold, type Display, isRecord, type Told } from '../messages.ts'
import { Captures } from './captures.ts'
import { type CommBody, type CommSnapshot, type OpenComm, splitState, viewOf } from './comm.ts'
import { LargeMessages } from './large-messages.ts'
import { OpenComms } from './open-comms.ts'
import { type Outgoing, readComms, readSends, readState } from './rows.ts'
import { CommSender } from './sender.ts'
import { commOfMessage, messageIdOf, WaitingMessages } from './waiting-messages.ts'

/** A peer's message, parsed. */
export interface PeerMessage {
  readonly data: Record<string, unknown>
  readonly metadata: Record<string, unknown>
  readonly buffers: Uint8Array[]
}

export interface PeerOpen extends PeerMessage {
  readonly comm_id: CommId
  readonly target_name: string
  readonly target_module?: string | undefined
}

/** A change that a peer's message makes; `committed` is due when it is durable. */
export interface CommChange {
  readonly messageId: string
  readonly statements: Statement[]
  readonly events: DurableEvent[]
}

export class RoomComms {
  readonly #notebookId: NotebookId
  readonly #captures = new Captures()
  readonly #comms: OpenComms
  readonly #waiting: WaitingMessages
  readonly #large = new LargeMessages()
  readonly #sender: CommSender
  readonly #presentKernel: () => Kernel | null
  /** Whose comms these are. */
  #kernelId: KernelId | null = null

  constructor(options: {
    store: Store
    blobs: Blobs
    clock: Clock
    log: Logger
    notebookId: NotebookId
    presentKernel: () => Kernel | null
  }) {
    this.#notebookId = options.notebookId
    this.#presentKernel = options.presentKernel
    this.#sender = new CommSender(options)
    this.#comms = new OpenComms(options.notebookId, this.#captures)
    this.#waiting = new WaitingMessages(options.notebookId)
    this.#load(options.store)
  }

  // --- the kernel ----------------------------------------------------------------------------------------------------

  /** The kernel whose messages follow. Comms of another are gone. */
  begin(kernelId: KernelId, change: Change): void {
    if (this.#kernelId !== kernelId) this.gone('another kernel runs now', change)
    this.#kernelId = kernelId
  }

  /** The room goes on with this kernel: what it was not sent, or perhaps not, is sent (again). */
  resume(kernel: Kernel | null, change: Change): void {
    if (!kernel || (this.#kernelId !== null && kernel.id !== this.#kernelId)) {
      this.gone('its kernel is gone', change)
      return
    }
    for (const messageId of this.#waiting.ids()) this.#sender.send(messageId, kernel)
  }

  /** The kernel is gone, and all comms with it. */
  gone(reason: string, change: Change): void {
    this.#kernelId = null
    if (this.#comms.size === 0 && this.#waiting.empty) return
    if (this.#comms.size > 0) change.push({ type: 'comms_gone', reason })
    this.#comms.clear()
    this.#large.clear()
    this.#waiting.clear()
  }

  /** `executionId`: the run that the message belongs to. */
  told(told: CommTold, parent: string | null, executionId: ExecutionId | null, change: Change): void {
    switch (told.kind) {
      case 'comm_open': {
        const { commId, targetName, targetModule, data, metadata, buffers } = told
        const { state, rest, loose } = splitState(data, buffers)
        const body: CommBody = {
          target_name: targetName,
          target_module: targetModule,
          data: rest,
          metadata,
          buffers: loose,
          execution_id: executionId,
          partial: false,
        }
        this.#comms.open(commId, body, state ?? {}, null, change)
        return
      }
      case 'comm_msg':
        this.#message(told, parent, change)
        return
      case 'comm_close':
        if (this.#comms.get(told.commId)) this.#comms.close(told.commId, told.data, null, change)
        return
    }
  }

  #message(told: Extract<CommTold, { kind: 'comm_msg' }>, parent: string | null, change: Change): void {
    const comm = this.#comms.get(told.commId)
    if (!comm) return
    this.#comms.use(comm)
    const { data, metadata, buffers } = told
    const update = data.method === 'update' || data.method === 'echo_update'
    if (update && isRecord(data.state)) {
      const state = putBuffers(data.state, data.buffer_paths, buffers)
      for (const [name, value] of Object.entries(state))
        if (!comm.superseded(name, parent)) this.#comms.set(comm, name, value)
      this.#comms.bound(change)
      return
    }
    this.#comms.tell(comm, change)
    // Bytes of a view would keep the whole frame that they came in.
    const content: CommContent = { data, metadata, buffers: buffers.map((buffer) => buffer.slice()) }
    const size = encode(content).length
    const fits = size <= COMM_INLINE
    if (!fits) this.#large.add(told.messageId, content, size)
    change.push({
      type: 'comm_message',
      comm_id: comm.id,
      message_id: told.messageId,
      by: null,
      size,
      ...(fits ? { content } : {}),
    })
  }

  /** The kernel has taken up a message of ours, or never will. */
  settled(messageId: string): void {
    const settled = this.#waiting.settled(messageId)
    if (!settled) return
    this.#comms.get(settled.commId)?.takenUp(messageId)
    this.#comms.add(settled.statement)
  }

  // --- outputs of callbacks and of Output widgets ----------------------------------------------------------------------

  /** Whose run opened the comm that this message of ours went to: what the kernel prints for it belongs there. null: none of ours. */
  executionOf(messageId: string): ExecutionId | null {
    const commId = commOfMessage(messageId)
    return (commId && this.#comms.get(commId)?.body.execution_id) ?? null
  }

  /** Takes an output that an Output widget shows instead of the cell. false: none does. */
  capture(told: Told, parent: string | null): boolean {
    return this.#captures.take(told, parent)
  }

  updateDisplay(display: Display): void {
    this.#captures.update(display)
  }

  /** Before a change is handed over: what was gathered becomes events. */
  flush(change: Change): void {
    for (const id of this.#captures.changed()) this.#showCaptured(id)
    for (const id of this.#captures.untold()) this.#tellKernel(id)
    this.#comms.flush(change)
  }

  #showCaptured(id: CommId): void {
    const comm = this.#comms.get(id)
    if (comm) this.#comms.set(comm, 'outputs', this.#captures.outputs(id))
  }

  /** As a front end does it, so that `widget.outputs` is right in the kernel too. */
  #tellKernel(id: CommId): void {
    const comm = this.#comms.get(id)
    const kernelId = this.#kernelId
    if (!comm || kernelId === null) return
    const data = { method: 'update', state: { outputs: this.#captures.outputs(id) }, buffer_paths: [] }
    this.#comms.add(
      this.#waiting.add(messageIdOf(id), comm, ['outputs'], kernelId, {
        msg_type: 'comm_msg',
        content: { comm_id: id, data },
        metadata: {},
        buffers: [],
      }),
    )
  }

  // --- peers ---------------------------------------------------------------------------------------------------------

  /** Throws `conflict` when the id is open. */
  open(request: PeerOpen, by: string, change: Change): CommChange {
    const { comm_id, target_name, target_module, data, metadata, buffers } = request
    const kernelId = this.#mustHaveKernel(change)
    if (this.#comms.get(comm_id)) throw new RoomdError('conflict', `the comm ${comm_id} is open already`)
    const { state, rest, loose } = splitState(data, buffers)
    const body: CommBody = {
      target_name,
      target_module: target_module ?? null,
      data: rest,
      metadata,
      buffers: loose,
      execution_id: null,
      partial: false,
    }
    const outgoing: Outgoing = {
      msg_type: 'comm_open',
      content: { comm_id, target_name, ...(target_module === undefined ? {} : { target_module }), data },
      metadata,
      buffers,
    }
    this.#waiting.mustFit(outgoing)
    const comm = this.#comms.open(comm_id, body, state ?? {}, by, change)
    const messageId = messageIdOf(comm_id)
    return this.#sending(messageId, comm, Object.keys(state ?? {}), kernelId, outgoing, change)
  }

  /** Throws `not_found` for a comm that is not open, `overloaded` when too much waits for the kernel. */
  message(commId: CommId, message: PeerMessage, by: string, change: Change): CommChange {
    const kernelId = this.#mustHaveKernel(change)
    const comm = this.#mustBeOpen(commId)
    const { data, metadata, buffers } = message
    const outgoing: Outgoing = { msg_type: 'comm_msg', content: { comm_id: commId, data }, metadata, buffers }
    this.#waiting.mustFit(outgoing)
    this.#comms.use(comm)
    const messageId = messageIdOf(commId)
    const names: string[] = []
    if (data.method === 'update' && isRecord(data.state)) {
      for (const [name, value] of Object.entries(putBuffers(data.state, data.buffer_paths, buffers))) {
        names.push(name)
        this.#comms.set(comm, name, value)
      }
      this.#comms.tell(comm, change, by)
      this.#comms.bound(change)
    }
    return this.#sending(messageId, comm, names, kernelId, outgoing, change)
  }

  /** Throws `not_found` for a comm that is not open. */
  close(commId: CommId, data: Record<string, unknown>, by: string, change: Change): CommChange {
    const kernelId = this.#mustHaveKernel(change)
    const comm = this.#mustBeOpen(commId)
    const outgoing: Outgoing = {
      msg_type: 'comm_close',
      content: { comm_id: commId, data },
      metadata: {},
      buffers: [],
    }
    this.#waiting.mustFit(outgoing)
    this.#comms.close(commId, data, by, change)
    return this.#sending(messageIdOf(commId), comm, [], kernelId, outgoing, change)
  }

  // --- committing ----------------------------------------------------------------------------------------------------

  /** Statements of everything since the last call, and the messages that may be sent when they are committed. */
  rows(): { statements: Statement[]; send: string[] } {
    return { statements: this.#comms.rows(this.#kernelId), send: this.#waiting.take() }
  }

  /** The rows of these messages are durable: they go to the kernel. */
  committed(messageIds: readonly string[]): void {
    const kernel = this.#presentKernel()
    if (!kernel) return // gone; its rows go with it
    for (const messageId of messageIds) this.#sender.send(messageId, kernel)
  }

  /** Resolves when the kernel's host has all that was accepted until now; null: it has. What a peer runs next is sent behind it. */
  get delivered(): Promise<void> | null {
    return this.#sender.delivered
  }

  /** Whoever makes it anew from the store has all there is. */
  get empty(): boolean {
    return this.#comms.empty && this.#waiting.empty && this.#large.empty && this.delivered === null
  }

  // --- views ---------------------------------------------------------------------------------------------------------

  list(targetName: string | undefined): Record<string, { target_name: string }> {
    const found = this.#all
      .filter(({ body }) => targetName === undefined || body.target_name === targetName)
      .map(({ id, body }): [string, { target_name: string }] => [id, { target_name: body.target_name }])
    return Object.fromEntries(found)
  }

  /** With everything that is kept. Throws `not_found`. */
  get(commId: CommId, names: readonly string[] | undefined): CommView {
    return viewOf(this.#mustBeOpen(commId).snapshot(), Number.POSITIVE_INFINITY, names)
  }

  /** Throws `not_found`. */
  largeMessage(messageId: string): CommContent {
    const content = this.#large.get(messageId)
    if (content) return content
    throw new RoomdError(
      'not_found',
      `the message ${messageId} is not kept any more: large ones are kept for a short while only`,
    )
  }

  /** As they are now, in the order they were opened. */
  snapshots(): CommSnapshot[] {
    return this.#all.map((comm) => comm.snapshot())
  }

  dispose(): void {
    this.#sender.dispose()
  }

  /** Those of the kernel there is; what the store has of one that ended while no daemon lived is nobody's. */
  get #all(): OpenComm[] {
    return this.#presentKernel()?.id === this.#kernelId ? this.#comms.all() : []
  }

  // --- within --------------------------------------------------------------------------------------------------------

  #load(store: Store): void {
    const comms = readComms(store, this.#notebookId)
    const sends = readSends(store, this.#notebookId)
    this.#kernelId = sends.at(-1)?.kernel_id ?? comms.at(-1)?.kernel_id ?? null
    this.#comms.load(comms, readState(store, this.#notebookId))
    this.#waiting.load(sends)
    for (const { comm_id, names, message_id } of sends) this.#comms.get(comm_id)?.expect(names, message_id)
  }

  #sending(
    messageId: string,
    comm: OpenComm,
    names: readonly string[],
    kernelId: KernelId,
    outgoing: Outgoing,
    change: Change,
  ): CommChange {
    const send = this.#waiting.add(messageId, comm, names, kernelId, outgoing)
    const { statements } = this.rows()
    return { messageId, statements: [...statements, send], events: change.events }
  }

  #mustHaveKernel(change: Change): KernelId {
    const kernel = this.#presentKernel()
    if (!kernel) {
      throw new RoomdError(
        'runtime_not_ready',
        'no kernel is running in this room; run a cell to start one',
        {
          retryable: false,
        },
      )
    }
    this.begin(kernel.id, change)
    return kernel.id
  }

  #mustBeOpen(commId: CommId): OpenComm {
    const comm = this.#comms.get(commId)
    if (comm && this.#presentKernel()?.id === this.#kernelId) return comm
    throw new RoomdError('not_found', `no comm ${commId} is open in this notebook; list_comms lists them`)
  }
}
