/** What passes between the ledger and its worker thread, which reads and writes trees. Both ends are built from one source. */
import type { WireError } from '../../../protocol/errors.ts'
import type { ImportEntry, ReadReport } from './entry.ts'
import type { TreeOptions, Written } from './write-tree.ts'

export interface LedgerWorkerData {
  readonly storeFile: string
}

export interface MirrorChanges {
  /** Ids of sessions, also of those that are gone; `state NAME` means a project's state. */
  readonly names: readonly string[]
  /** Everything that there is, besides. */
  readonly all: boolean
}

export type ToLedgerWorker =
  | {
      readonly id: number
      readonly kind: 'import'
      readonly roots: readonly string[]
      readonly quarantine: string
    }
  /** The last batch is stored: send the next. */
  | { readonly id: number; readonly kind: 'go' }
  | { readonly id: number; readonly kind: 'export'; readonly dir: string; readonly options: TreeOptions }
  | {
      readonly id: number
      readonly kind: 'mirror'
      readonly dir: string
      readonly options: TreeOptions
      readonly changes: MirrorChanges
    }

export type FromLedgerWorker =
  | { readonly id: number; readonly kind: 'batch'; readonly entries: readonly ImportEntry[] }
  | { readonly id: number; readonly kind: 'imported'; readonly report: ReadReport }
  | { readonly id: number; readonly kind: 'written'; readonly written: Written }
  | { readonly id: number; readonly kind: 'failed'; readonly error: WireError }
