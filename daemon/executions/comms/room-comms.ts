/**
 * The comms of one room: which are open, their state, and what goes between kernel and peers.
 *
 * Invariants: memory is the state of all changes handed over, committed or not (as in room-executions.ts); `rows` makes the store follow,
 * in the transaction of the change that made them dirty, so that outputs, comms and the number of the consumed host event commit
 * together. A message to the kernel is a row first (`sender.ts`). Comms belong to one kernel and are gone with it.
 *
 * Bounds: COMMS_MAX comms, COMM_STATE_MAX bytes of state, and what waits for the kernel (WAITING_*). What is silent longest goes first.
 * Updates of one comm within one change are told as one event with the newest values.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock } from '../../../protocol/clock.ts'
import { encode } from '../../../protocol/codec.ts'
import {
  COMM_INLINE,
  COMM_STATE_MAX,
  COMMS_MAX,
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
import { type CommBody, type CommSnapshot, OpenComm, viewOf } from './comm.ts'
import { LargeMessages } from './large-messages.ts'
import {
  dropAll,
  dropComm,
  dropSend,
  dropState,
  dropValue,
  type Outgoing,
  readComms,
  readSends,
  readState,
  type SendRow,
  storeComm,
  storeSend,
  storeValue,
} from './rows.ts'
import { CommSender } from './sender.ts'

/** Messages, and bytes of them, that may wait for the kernel to take them up. */
const WAITING_MESSAGES = 2_000
const WAITING_BYTES = 64 * 1024 * 1024

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
  readonly #store: Store
  readonly #notebookId: NotebookId
  readonly #comms = new Map<CommId, OpenComm>()
  readonly #captures: Captures
  readonly #large = new LargeMessages()
  readonly #sender: CommSender
  readonly #presentKernel: () => Kernel | null
  /** Whose comms these are. */
  #kernelId: KernelId | null = null
  #uses = 0
  #bytes = 0
  #sends = 0
  readonly #waiting = new Map<string, { commId: CommId; bytes: number }>()
  #waitingBytes = 0
  // What the next `rows` writes.
  #statements: Statement[] = []
  readonly #dirty = new Map<CommId, Set<string>>()
  readonly #dirtyBodies = new Set<CommId>()
  /** Names told by no event yet. */
  readonly #updated = new Map<CommId, Set<string>>()
  #toSend: string[] = []

  constructor(options: {
    store: Store
    blobs: Blobs
    clock: Clock
    log: Logger
    notebookId: NotebookId
    presentKernel: () => Kernel | null
  }) {
    this.#store = options.store
    this.#notebookId = options.notebookId
    this.#presentKernel = options.presentKernel
    this.#sender = new CommSender(options)
    this.#captures = new Captures()
    this.#load()
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
    for (const messageId of this.#waiting.keys()) this.#sender.send(messageId, kernel)
  }

  /** The kernel is gone, and all comms with it. */
  gone(reason: string, change: Change): void {
    this.#kernelId = null
    if (this.#comms.size === 0 && this.#waiting.size === 0) return
    if (this.#comms.size > 0) change.push({ type: 'comms_gone', reason })
    this.#comms.clear()
    this.#captures.clear()
    this.#large.clear()
    this.#waiting.clear()
    this.#waitingBytes = 0
    this.#bytes = 0
    this.#toSend = []
    for (const dirty of [this.#dirty, this.#dirtyBodies, this.#updated]) dirty.clear()
    this.#statements = dropAll(this.#notebookId)
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
        this.#open(commId, body, state ?? {}, null, change)
        return
      }
      case 'comm_msg':
        this.#message(told, parent, change)
        return
      case 'comm_close':
        if (this.#comms.has(told.commId)) this.#close(told.commId, told.data, null, change)
        return
    }
  }

  #message(told: Extract<CommTold, { kind: 'comm_msg' }>, parent: string | null, change: Change): void {
    const comm = this.#comms.get(told.commId)
    if (!comm) return
    this.#use(comm)
    const { data, metadata, buffers } = told
    const update = data.method === 'update' || data.method === 'echo_update'
    if (update && isRecord(data.state)) {
      const state = putBuffers(data.state, data.buffer_paths, buffers)
      for (const [name, value] of Object.entries(state))
        if (!comm.superseded(name, parent)) this.#set(comm, name, value)
      this.#bound(change)
      return
    }
    this.#tell(comm, change)
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
    const waiting = this.#waiting.get(messageId)
    if (!waiting) return
    this.#waiting.delete(messageId)
    this.#waitingBytes -= waiting.bytes
    this.#comms.get(waiting.commId)?.takenUp(messageId)
    this.#statements.push(dropSend(this.#notebookId, messageId))
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
    for (const id of [...this.#updated.keys()]) {
      const comm = this.#comms.get(id)
      if (comm) this.#tell(comm, change)
    }
    this.#bound(change)
  }

  #showCaptured(id: CommId): void {
    const comm = this.#comms.get(id)
    if (comm) this.#set(comm, 'outputs', this.#captures.outputs(id))
  }

  /** As a front end does it, so that `widget.outputs` is right in the kernel too. */
  #tellKernel(id: CommId): void {
    const comm = this.#comms.get(id)
    const kernelId = this.#kernelId
    if (!comm || kernelId === null) return
    const data = { method: 'update', state: { outputs: this.#captures.outputs(id) }, buffer_paths: [] }
    this.#statements.push(
      this.#enqueue(messageIdOf(id), comm, ['outputs'], kernelId, {
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
    if (this.#comms.has(comm_id)) throw new RoomdError('conflict', `the comm ${comm_id} is open already`)
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
    this.#mustFit(outgoing)
    const comm = this.#open(comm_id, body, state ?? {}, by, change)
    const messageId = messageIdOf(comm_id)
    return this.#sending(messageId, comm, Object.keys(state ?? {}), kernelId, outgoing, change)
  }

  /** Throws `not_found` for a comm that is not open, `overloaded` when too much waits for the kernel. */
  message(commId: CommId, message: PeerMessage, by: string, change: Change): CommChange {
    const kernelId = this.#mustHaveKernel(change)
    const comm = this.#mustBeOpen(commId)
    const { data, metadata, buffers } = message
    const outgoing: Outgoing = { msg_type: 'comm_msg', content: { comm_id: commId, data }, metadata, buffers }
    this.#mustFit(outgoing)
    this.#use(comm)
    const messageId = messageIdOf(commId)
    const names: string[] = []
    if (data.method === 'update' && isRecord(data.state)) {
      for (const [name, value] of Object.entries(putBuffers(data.state, data.buffer_paths, buffers))) {
        names.push(name)
        this.#set(comm, name, value)
      }
      this.#tell(comm, change, by)
      this.#bound(change)
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
    this.#mustFit(outgoing)
    this.#close(commId, data, by, change)
    return this.#sending(messageIdOf(commId), comm, [], kernelId, outgoing, change)
  }

  // --- committing ----------------------------------------------------------------------------------------------------

  /** Statements of everything since the last call, and the messages that may be sent when they are committed. */
  rows(): { statements: Statement[]; send: string[] } {
    const statements = this.#statements
    this.#statements = []
    const kernelId = this.#kernelId
    for (const id of this.#dirtyBodies) {
      const comm = this.#comms.get(id)
      if (comm && kernelId) statements.push(storeComm(this.#notebookId, kernelId, comm))
    }
    for (const [id, names] of this.#dirty) {
      const comm = this.#comms.get(id)
      if (!comm) continue
      for (const name of names) {
        const value = comm.encoded(name)
        statements.push(
          value ? storeValue(this.#notebookId, id, name, value) : dropValue(this.#notebookId, id, name),
        )
      }
    }
    this.#dirty.clear()
    this.#dirtyBodies.clear()
    const send = this.#toSend
    this.#toSend = []
    return { statements, send }
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
    return this.#presentKernel()?.id === this.#kernelId ? [...this.#comms.values()] : []
  }

  // --- within --------------------------------------------------------------------------------------------------------

  #load(): void {
    for (const { comm_id, kernel_id, opened, body } of readComms(this.#store, this.#notebookId)) {
      this.#kernelId = kernel_id
      this.#comms.set(comm_id, new OpenComm(comm_id, opened, body))
      this.#uses = Math.max(this.#uses, opened)
    }
    for (const { comm_id, name, value } of readState(this.#store, this.#notebookId))
      this.#comms.get(comm_id)?.put(name, value)
    for (const row of readSends(this.#store, this.#notebookId)) {
      this.#kernelId = row.kernel_id
      this.#sends = Math.max(this.#sends, row.send_seq)
      this.#waiting.set(row.message_id, { commId: row.comm_id, bytes: row.bytes })
      this.#waitingBytes += row.bytes
      this.#comms.get(row.comm_id)?.expect(row.names, row.message_id)
    }
    for (const comm of this.#comms.values()) {
      this.#bytes += comm.bytes
      this.#captures.look(comm)
    }
  }

  #open(
    id: CommId,
    body: CommBody,
    state: Record<string, unknown>,
    by: string | null,
    change: Change,
  ): OpenComm {
    const before = this.#comms.get(id)
    if (before) this.#remove(before)
    const comm = new OpenComm(id, ++this.#uses, body)
    this.#comms.set(id, comm)
    this.#bytes += comm.bytes
    this.#statements.push(dropState(this.#notebookId, id))
    this.#dirtyBodies.add(id)
    for (const [name, value] of Object.entries(state)) this.#set(comm, name, value)
    this.#updated.delete(id) // told by its opening
    change.push({ type: 'comm_opened', comm: viewOf(comm.snapshot()), by })
    this.#bound(change)
    return comm
  }

  #close(id: CommId, data: Record<string, unknown>, by: string | null, change: Change): void {
    const comm = this.#comms.get(id)
    if (!comm) return
    this.#tell(comm, change)
    this.#remove(comm)
    this.#statements.push(dropComm(this.#notebookId, id), dropState(this.#notebookId, id))
    change.push({ type: 'comm_closed', comm_id: id, data, by })
  }

  #remove(comm: OpenComm): void {
    this.#comms.delete(comm.id)
    this.#bytes -= comm.bytes
    this.#captures.forget(comm.id)
    this.#dirty.delete(comm.id)
    this.#dirtyBodies.delete(comm.id)
    this.#updated.delete(comm.id)
  }

  #set(comm: OpenComm, name: string, value: unknown): void {
    const before = comm.bytes
    const { partial } = comm.body
    if (!comm.set(name, value)) return
    this.#bytes += comm.bytes - before
    if (comm.body.partial !== partial) this.#dirtyBodies.add(comm.id)
    for (const names of [this.#dirty, this.#updated]) {
      const known = names.get(comm.id) ?? new Set()
      names.set(comm.id, known.add(name))
    }
    if (name === 'msg_id' || name === 'outputs' || name.startsWith('_model')) this.#captures.look(comm, name)
  }

  /** Tells what is new of its state. */
  #tell(comm: OpenComm, change: Change, by: string | null = null): void {
    const names = this.#updated.get(comm.id)
    if (!names) return
    this.#updated.delete(comm.id)
    change.push({
      type: 'comm_updated',
      comm_id: comm.id,
      ...comm.inline(names),
      partial: comm.body.partial,
      by,
    })
  }

  #use(comm: OpenComm): void {
    comm.used = ++this.#uses
  }

  /** Keeps the bounds: state of the longest silent goes first, then whole comms. */
  #bound(change: Change): void {
    if (this.#bytes <= COMM_STATE_MAX && this.#comms.size <= COMMS_MAX) return
    const silent = [...this.#comms.values()].sort((a, b) => a.used - b.used)
    for (const comm of silent) {
      if (this.#bytes <= COMM_STATE_MAX) break
      if (comm.stateBytes === 0) continue
      this.#bytes -= comm.stateBytes
      comm.forget()
      this.#dirty.delete(comm.id)
      this.#dirtyBodies.add(comm.id)
      this.#updated.delete(comm.id)
      this.#statements.push(dropState(this.#notebookId, comm.id))
      const none = { state: {}, omitted: [], partial: true, by: null }
      change.push({ type: 'comm_updated', comm_id: comm.id, ...none })
    }
    for (const comm of silent) {
      if (this.#comms.size <= COMMS_MAX) break
      this.#close(comm.id, {}, null, change)
    }
  }

  #sending(
    messageId: string,
    comm: OpenComm,
    names: readonly string[],
    kernelId: KernelId,
    outgoing: Outgoing,
    change: Change,
  ): CommChange {
    const send = this.#enqueue(messageId, comm, names, kernelId, outgoing)
    const { statements } = this.rows()
    return { messageId, statements: [...statements, send], events: change.events }
  }

  #enqueue(
    messageId: string,
    comm: OpenComm,
    names: readonly string[],
    kernelId: KernelId,
    outgoing: Outgoing,
  ): Statement {
    const row: SendRow = {
      message_id: messageId,
      send_seq: ++this.#sends,
      kernel_id: kernelId,
      comm_id: comm.id,
      names,
    }
    comm.expect(names, messageId)
    const statement = storeSend(this.#notebookId, row, outgoing)
    const bytes = weigh(outgoing)
    this.#waiting.set(messageId, { commId: comm.id, bytes })
    this.#waitingBytes += bytes
    this.#toSend.push(messageId)
    return statement
  }

  #mustFit(outgoing: Outgoing): void {
    const full = this.#waiting.size >= WAITING_MESSAGES
    if (!full && this.#waitingBytes + weigh(outgoing) <= WAITING_BYTES) return
    throw new RoomdError(
      'overloaded',
      `${this.#waiting.size} comm messages wait for the kernel, which takes them up between cells; send again later`,
    )
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

function weigh(outgoing: Outgoing): number {
  let bytes = 512
  for (const buffer of outgoing.buffers) bytes += buffer.length
  return bytes + encode(outgoing.content).length
}

/** State with its buffers in place, the other data, and buffers that are no part of the state. */
function splitState(
  data: Record<string, unknown>,
  buffers: readonly Uint8Array[],
): { state: Record<string, unknown> | null; rest: Record<string, unknown>; loose: Uint8Array[] } {
  const { state, buffer_paths, ...rest } = data
  if (!isRecord(state)) return { state: null, rest: data, loose: buffers.map((buffer) => buffer.slice()) }
  const count = Array.isArray(buffer_paths) ? buffer_paths.length : 0
  const loose = buffers.slice(count).map((buffer) => buffer.slice())
  return { state: putBuffers(state, buffer_paths, buffers), rest, loose }
}

const PREFIX = 'comm|'

/** Ids of our messages say to which comm they went: outputs that come back under them find their way, also after a restart. */
function messageIdOf(commId: CommId): string {
  return `${PREFIX}${randomUUID()}|${commId}`
}

function commOfMessage(messageId: string): CommId | null {
  if (!messageId.startsWith(PREFIX)) return null
  const at = messageId.indexOf('|', PREFIX.length)
  return at < 0 ? null : (messageId.slice(at + 1) as CommId)
}
