/** What passes between the daemon and the thread that does the heavy work on documents. One source builds both ends. */
import type { WireError } from '../../protocol/errors.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import type { FileCell, NotebookFile } from './ipynb/read.ts'
import type { WriteRequest, Written } from './ipynb/write.ts'
import type { SlicedSnapshot } from './journal.ts'
import type { FilePart, FileRequest, StoredPart } from './large-documents.ts'
import type { CellSeed } from './layout.ts'
import type { MergedFile, MergeRequest } from './merge/merge-file.ts'

/** Where the worker reads the journal: its own connection, so that large documents never pass through the main thread twice. */
export interface WorkerData {
  readonly storeFile: string
}

/** Cells of a write come first, in pieces; `write` ends them. */
export type ToWorker =
  | {
      readonly id: number
      readonly kind: 'read'
      readonly bytes: Uint8Array
      readonly path: string
      readonly ids: readonly CellId[] | null
    }
  | { readonly id: number; readonly kind: 'open_file'; readonly request: FileRequest }
  | { readonly id: number; readonly kind: 'cells'; readonly cells: readonly CellSeed[] }
  | { readonly id: number; readonly kind: 'write'; readonly request: Omit<WriteRequest, 'cells'> }
  | { readonly id: number; readonly kind: 'fold'; readonly notebookId: NotebookId }
  | { readonly id: number; readonly kind: 'load'; readonly notebookId: NotebookId }
  | { readonly id: number; readonly kind: 'hash'; readonly path: string }
  /** Its cells are the room's. */
  | { readonly id: number; readonly kind: 'merge'; readonly request: Omit<MergeRequest, 'cells'> }

/** A document's journal as one update. */
export interface Folded {
  /** In shared memory. */
  readonly body: Uint8Array | SlicedSnapshot
  /** Covers all updates up to it. */
  readonly doc_seq: number
  /** Updates that it covers and the snapshot before it did not, and their bytes. */
  readonly updates: number
  readonly bytes: number
}

/**
 * Results of a read come in pieces of about PIECE characters, each a message of its own, because taking a message apart is work
 * on the main thread.
 */
export type FromWorker =
  | { readonly id: number; readonly kind: 'cells'; readonly cells: readonly FileCell[] }
  | { readonly id: number; readonly kind: 'read'; readonly file: Omit<NotebookFile, 'cells'> }
  /** Of opening a file or loading a document: what there is so far. */
  | { readonly id: number; readonly kind: 'part'; readonly part: FilePart | StoredPart }
  /** All parts were told. `found`: there is something of this name. */
  | { readonly id: number; readonly kind: 'done'; readonly found: boolean }
  | { readonly id: number; readonly kind: 'hashed'; readonly hash: string }
  | { readonly id: number; readonly kind: 'written'; readonly written: Written }
  /** null: the store has no more than the snapshot. */
  | { readonly id: number; readonly kind: 'folded'; readonly folded: Folded | null }
  | { readonly id: number; readonly kind: 'merged'; readonly merged: MergedFile }
  | { readonly id: number; readonly kind: 'failed'; readonly error: WireError }

/** Characters of cells that one message carries, about. */
export const PIECE = 512 * 1024

/** Cuts a list into runs of about PIECE characters. */
export function* pieces<Item>(items: readonly Item[], size: (item: Item) => number): Generator<Item[]> {
  let piece: Item[] = []
  let sum = 0
  for (const item of items) {
    piece.push(item)
    sum += size(item)
    if (sum < PIECE) continue
    yield piece
    piece = []
    sum = 0
  }
  if (piece.length > 0) yield piece
}
