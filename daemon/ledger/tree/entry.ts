/** What an import reads of a tree, as plain data: texts of files that can be parsed, by session. Passes between threads. */

export interface SavedFile {
  readonly project: string
  readonly body: string
  readonly modifiedUs: number
}

export interface SessionEntry {
  readonly kind: 'session'
  readonly sessionId: string
  /** The record of the chain index, as JSON; null: there is none. */
  readonly record: string | null
  /** Tags of this session, by the tag index and its own record, with their place in the order of tagging. */
  readonly indexed: ReadonlyArray<{ readonly tag: string; readonly position: number }>
  /** When sessions that name it as parent began; for stubs, which have no time. */
  readonly childBegan: number | null
  readonly summaryJson: { readonly text: string; readonly modifiedUs: number } | null
  readonly summaryMarkdown: { readonly text: string; readonly modifiedUs: number } | null
  readonly flowTrace: string | null
  readonly tracker: string | null
  readonly saved: readonly SavedFile[]
  readonly archived: readonly SavedFile[]
  readonly contexts: ReadonlyArray<SavedFile & { readonly recovered: string | null }>
  /** Newest time of its files; for a session of which nothing else tells one. */
  readonly fallbackUs: number
}

export interface StateEntry {
  readonly kind: 'state'
  readonly project: string
  readonly body: string
  readonly modifiedUs: number
  readonly recovered: string | null
}

export interface PointerEntry {
  readonly kind: 'pointer'
  readonly sessionId: string
}

export type ImportEntry = (SessionEntry | StateEntry | PointerEntry) & {
  /** Where it comes from, and a digest of all that was read for it: the same twice is not looked at again. */
  readonly place: string
  readonly sha256: string
}

/** A file that cannot be read, and its bytes, which are kept. */
export interface Quarantined {
  readonly file: string
  readonly reason: string
}

export interface ReadReport {
  readonly quarantined: Quarantined[]
  readonly warnings: string[]
}
