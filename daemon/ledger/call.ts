/**
 * One changing call as it travels from the main thread to the writer, and what a procedure has beside the transaction. Whatever a
 * procedure must not find out for itself (the time, files, settings) comes in with the call.
 */

import type { z } from 'zod'
import type { MutationId, NotebookId } from '../../protocol/ids.ts'
import type { LedgerMethod, ledgerMethods } from '../../protocol/ledger.ts'
import type { Statement } from '../store/store.ts'
import type { Failure } from './outcome.ts'
import type { SourceFiles } from './source-files.ts'

export type LedgerParams<M extends LedgerMethod> = z.output<(typeof ledgerMethods)[M]['params']>
export type LedgerResult<M extends LedgerMethod> = z.output<(typeof ledgerMethods)[M]['result']>

export interface LedgerSettings {
  /** Tags as the reference finds them. */
  readonly compat: boolean
  /** Prompts that are accumulated give tags too. */
  readonly tagPrompts: boolean
}

export interface Call<Params> {
  readonly params: Params
  /** UTC microseconds. */
  readonly now: number
  /** Whose call it is. */
  readonly clientInstance: string
  readonly settings: LedgerSettings
  /** Where the tree is mirrored, for names of files; null: nowhere. */
  readonly mirror: string | null
  /** What lies beside the store for the session that is finalized. */
  readonly files?: SourceFiles | undefined
}

/** The mutation that a call carries out; its result is stored with its effect. */
export interface CallMutation {
  readonly clientInstance: string
  readonly id: MutationId
  readonly method: string
  readonly notebookId: NotebookId | null
  /** Rows that forget settled results, to be written with it. */
  readonly forget: readonly Statement[]
}

export interface Outcome {
  readonly value: unknown
  /** Ids of sessions that are not what they were. */
  readonly changed: readonly string[]
}

/** What a procedure answers: its result or a failure, and which sessions it changed. */
export interface Changed<Value> {
  readonly value: Value | Failure
  readonly changed: readonly string[]
}

export function refused(failure: Failure): { value: Failure; changed: readonly string[] } {
  return { value: failure, changed: [] }
}
