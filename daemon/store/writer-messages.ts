/**
 * What passes between the store on the main thread (`open.ts`) and its worker threads (`writer.ts`). Both ends are built from
 * one source, so nothing here is parsed or versioned.
 */
import type { MessagePort } from 'node:worker_threads'
import type { SqlValue } from './store.ts'

/** Workers of the store: the one writer, or a one-off deep check of the file. */
export type WorkerData =
  | {
      readonly role: 'writer'
      readonly file: string
      readonly port: MessagePort
      /** One Int32 that counts hand-overs. The writer sleeps on it with Atomics.wait, which wakes faster than an event loop. */
      readonly bell: Int32Array
    }
  | { readonly role: 'check'; readonly file: string }

/**
 * The units of one turn. `body` is flat and all blobs are one, which clones several times faster than nested arrays do. For
 * each unit its number of statements; for each statement its id (or its text when it has none), its number of values, the
 * values. A blob is `true` and its length; its bytes follow those of the blob before.
 */
export interface HandOver {
  readonly kind: 'units'
  /** Number of the first unit; the others follow on. */
  readonly first: number
  readonly count: number
  readonly body: readonly (SqlValue | true)[]
  readonly blobs: Uint8Array
  /** Statement texts used here for the first time; their ids count up from 0. */
  readonly statements: readonly string[]
}

/** A procedure to run as one unit. */
export interface ProcedureCall {
  readonly kind: 'procedure'
  readonly first: number
  readonly count: 1
  readonly name: string
  readonly input: unknown
  /** false: need not be synced before something else is. */
  readonly lasting: boolean
}

/** What the writer commits. */
export type Work = HandOver | ProcedureCall

export type ToWriter = Work | { readonly kind: 'close' }

export interface UnitFailure {
  readonly unit: number
  readonly code: 'storage_full' | 'storage_failed'
  readonly message: string
  /** SQLite's own code, e.g. SQLITE_FULL. */
  readonly sqlite: string
  /** The file itself is damaged. */
  readonly damaged: boolean
}

export interface UnitResult {
  readonly unit: number
  readonly value: unknown
}

export type FromWriter =
  /** Units `first`..`first + count - 1` are settled: committed, but for those in `failures`. */
  | {
      readonly kind: 'settled'
      readonly first: number
      readonly count: number
      readonly failures: readonly UnitFailure[]
      /** What procedures among them returned, by unit. */
      readonly results: readonly UnitResult[]
    }
  | { readonly kind: 'closed'; readonly error?: string }

export type CheckResult = { readonly ok: true } | { readonly ok: false; readonly reason: string }
