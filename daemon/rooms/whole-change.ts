/** One change of a room with all that the room itself adds to it, and what follows from its content: graduation, counts, frames. */
import { encode } from '../../protocol/codec.ts'
import type { CellChange, TransientEvent } from '../../protocol/events.ts'
import { measures } from '../measures.ts'
import { writeUpdate } from './document-sync.ts'
import type { FirstWork } from './graduation.ts'
import type { Mutation } from './mutations.ts'
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
  readonly results?: readonly { readonly mutation: Mutation; readonly value: unknown }[]
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

/** The frames that tell edits: one each in the projection's terms, and one Yjs update. `docSeq`: of the last. */
export function editFrames(
  { change, by, parts }: RoomEdit,
  docSeq: number,
  at: number,
): { cells: Uint8Array[]; update: Uint8Array } {
  const cells = (seq: number, told: Pick<DocumentChange, 'delta' | 'changes' | 'metadata'>): Uint8Array => {
    const { delta, changes, metadata } = told
    const event: TransientEvent = {
      type: 'cells',
      doc_seq: seq,
      by,
      delta: [...delta],
      changes: [...changes],
      ...(metadata ? { metadata } : {}),
    }
    return encode({ at, event })
  }
  const first = docSeq - (parts?.length ?? 1) + 1
  return {
    cells: parts
      ? parts.map((changes, index) => cells(first + index, { delta: [], changes }))
      : [cells(docSeq, change)],
    update: writeUpdate(change.update),
  }
}
