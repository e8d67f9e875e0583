/**
 * The comms that are open in one room, in memory and as rows that are yet to be written.
 *
 * Invariants: memory is the state of all changes handed over, committed or not; `rows` makes the store follow. Updates of one comm
 * within one change are told as one event with the newest values. Bounds: COMMS_MAX comms, COMM_STATE_MAX bytes of state; what is silent
 * longest goes first.
 */
import { COMM_STATE_MAX, COMMS_MAX, type CommId } from '../../../protocol/comms.ts'
import type { KernelId, NotebookId } from '../../../protocol/ids.ts'
import type { Statement } from '../../store/store.ts'
import type { Change } from '../change.ts'
import type { Captures } from './captures.ts'
import { type CommBody, OpenComm, viewOf } from './comm.ts'
import {
  dropAll,
  dropComm,
  dropState,
  dropValue,
  type StateRow,
  type StoredComm,
  storeComm,
  storeValue,
} from './rows.ts'

export class OpenComms {
  readonly #notebookId: NotebookId
  /** Output widgets among them. */
  readonly #captures: Captures
  readonly #comms = new Map<CommId, OpenComm>()
  #uses = 0
  #bytes = 0
  // What the next `rows` writes.
  #statements: Statement[] = []
  readonly #dirty = new Map<CommId, Set<string>>()
  readonly #dirtyBodies = new Set<CommId>()
  /** Names told by no event yet. */
  readonly #updated = new Map<CommId, Set<string>>()

  constructor(notebookId: NotebookId, captures: Captures) {
    this.#notebookId = notebookId
    this.#captures = captures
  }

  /** Takes what the store has. */
  load(comms: readonly StoredComm[], state: readonly StateRow[]): void {
    for (const { comm_id, opened, body } of comms) {
      this.#comms.set(comm_id, new OpenComm(comm_id, opened, body))
      this.#uses = Math.max(this.#uses, opened)
    }
    for (const { comm_id, name, value } of state) this.#comms.get(comm_id)?.put(name, value)
    for (const comm of this.#comms.values()) {
      this.#bytes += comm.bytes
      this.#captures.look(comm)
    }
  }

  get size(): number {
    return this.#comms.size
  }

  /** None is open, and nothing waits to be written or told. */
  get empty(): boolean {
    return (
      this.#comms.size === 0 &&
      this.#statements.length === 0 &&
      [this.#dirty, this.#dirtyBodies, this.#updated].every((waiting) => waiting.size === 0)
    )
  }

  get(id: CommId): OpenComm | undefined {
    return this.#comms.get(id)
  }

  /** In the order they were opened. */
  all(): OpenComm[] {
    return [...this.#comms.values()]
  }

  /** All are gone, and so are their rows. */
  clear(): void {
    this.#comms.clear()
    this.#captures.clear()
    this.#bytes = 0
    for (const dirty of [this.#dirty, this.#dirtyBodies, this.#updated]) dirty.clear()
    this.#statements = dropAll(this.#notebookId)
  }

  /** Opens one; another under its id is gone. */
  open(
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
    for (const [name, value] of Object.entries(state)) this.set(comm, name, value)
    this.#updated.delete(id) // told by its opening
    change.push({ type: 'comm_opened', comm: viewOf(comm.snapshot()), by })
    this.bound(change)
    return comm
  }

  close(id: CommId, data: Record<string, unknown>, by: string | null, change: Change): void {
    const comm = this.#comms.get(id)
    if (!comm) return
    this.tell(comm, change)
    this.#remove(comm)
    this.#statements.push(dropComm(this.#notebookId, id), dropState(this.#notebookId, id))
    change.push({ type: 'comm_closed', comm_id: id, data, by })
  }

  set(comm: OpenComm, name: string, value: unknown): void {
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
  tell(comm: OpenComm, change: Change, by: string | null = null): void {
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

  /** Something came for it or from it. */
  use(comm: OpenComm): void {
    comm.used = ++this.#uses
  }

  /** Keeps the bounds: state of the longest silent goes first, then whole comms. */
  bound(change: Change): void {
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
      this.close(comm.id, {}, null, change)
    }
  }

  /** Tells all that is not told yet, and keeps the bounds. */
  flush(change: Change): void {
    for (const id of [...this.#updated.keys()]) {
      const comm = this.#comms.get(id)
      if (comm) this.tell(comm, change)
    }
    this.bound(change)
  }

  /** A row that is written with those of the comms. */
  add(statement: Statement): void {
    this.#statements.push(statement)
  }

  /** Statements of everything since the last call. */
  rows(kernelId: KernelId | null): Statement[] {
    const statements = this.#statements
    this.#statements = []
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
    return statements
  }

  #remove(comm: OpenComm): void {
    this.#comms.delete(comm.id)
    this.#bytes -= comm.bytes
    this.#captures.forget(comm.id)
    this.#dirty.delete(comm.id)
    this.#dirtyBodies.delete(comm.id)
    this.#updated.delete(comm.id)
  }
}
