/** One change of a room with all that the room itself adds to it, and what follows from its content: graduation, counts, frames. */
import { encode } from '../../protocol/codec.ts'
import type { CellChange, TransientEvent } from '../../protocol/events.ts'
import { measures } from '../measures.ts'
import { writeUpdate } from './document-sync.ts'
import type { FirstWork } from './graduation.ts'
import type { Mutation, MutationResult } from './mutations.ts'
import type { DocumentChange, RoomChange } from './parts.ts'

/** A document change as the room numbers and tells it. */
export interface RoomEdit {
  readonly change: DocumentChange
  readonly by: string
  /** Several edits made it: what each changed; each has a `doc_seq`. Left out: it is one. */
  readonly parts?: readonly (readonly CellChange[])[]
}

/** A change with what the room itself adds to it. */
export interface WholeChange extends RoomChange {
  readonly document?: RoomEdit
  readonly results?: readonly MutationResult[]
  /** More changes of the same kind come in this turn: its commit is begun before they are made. */
  readonly early?: boolean
  /** Code that this change queues and that belongs to no cell. */
  readonly code?: string
}

/** What a mutation is answered with, as part of the change that it makes. */
export function resultOf(mutation: Mutation | null, value: unknown): Pick<WholeChange, 'results'> {
  return mutation ? { results: [{ mutation, value }] } : {}
}

/** Counts what is committed. */
export function measureCommitted({ document, events }: WholeChange): void {
  if (document) measures.documentUpdates += document.parts?.length ?? 1
  for (const event of events ?? []) {
    if (event.type === 'execution_finished') measures.finishedExecutions.add(event.execution.status)
  }
}

/** Whether a change makes a draft a room: somebody edits, runs or saves. */
export function isWork(change: WholeChange): boolean {
  if (change.document) return true
  return (change.events ?? []).some((event) => event.type === 'execution_queued' || event.type === 'saved')
}

/** That work, as graduation wants it. */
export function workOf(change: WholeChange): FirstWork {
  return { document: change.document?.change ?? null, code: change.code ?? null }
}

/** Frames that tell edits, each made once, when the first peer that follows in its terms is told. */
export class EditFrames {
  readonly #edit: RoomEdit
  readonly #docSeq: number
  readonly #at: number
  #together: Uint8Array | null = null
  #apart: readonly Uint8Array[] | null = null
  #update: Uint8Array | null = null

  /** `docSeq`: of the last of the edits. */
  constructor(edit: RoomEdit, docSeq: number, at: number) {
    this.#edit = edit
    this.#docSeq = docSeq
    this.#at = at
  }

  /** In the projection's terms, one event for all. */
  get together(): Uint8Array {
    this.#together ??= this.#cells(this.#docSeq, this.#edit.change, this.#edit.parts)
    return this.#together
  }

  /** The same, an event for each. */
  get apart(): readonly Uint8Array[] {
    const { parts } = this.#edit
    if (!parts || parts.length < 2) return [this.together]
    const first = this.#docSeq - parts.length + 1
    this.#apart ??= parts.map((changes, index) => this.#cells(first + index, { delta: [], changes }))
    return this.#apart
  }

  /** For peers that follow the Yjs document. */
  get update(): Uint8Array {
    this.#update ??= writeUpdate(this.#edit.change.update)
    return this.#update
  }

  #cells(
    seq: number,
    told: Pick<DocumentChange, 'delta' | 'changes' | 'metadata'>,
    parts?: RoomEdit['parts'],
  ): Uint8Array {
    const { delta, changes, metadata } = told
    const several = parts && parts.length > 1
    const event: TransientEvent = {
      type: 'cells',
      doc_seq: seq,
      by: this.#edit.by,
      ...(several ? { parts: parts.map((part) => part.length) } : {}),
      delta: [...delta],
      // In the order of the parts: Yjs tells them in its own.
      changes: several ? parts.flat() : [...changes],
      ...(metadata ? { metadata } : {}),
    }
    return encode({ at: this.#at, event })
  }
}
