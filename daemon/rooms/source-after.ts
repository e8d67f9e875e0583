/**
 * What a room's record says of its file after something happened to it. Conflicts that nobody has settled and an old format outlive
 * whatever becomes of the file in between (moved, deleted and restored, given back by another daemon): such a room never turns `ready`.
 */
import type { FileWarning } from '../documents/ipynb/parse.ts'
import type { SourceRecord } from './room-record.ts'

/** What stays true of a source whose state changes. */
export function bare(source: SourceRecord): SourceRecord {
  const { pending: _p, reason: _r, read_only, ...kept } = source
  return read_only === 'format' ? { ...kept, read_only } : kept
}

/** What a source is whose file is in order, and as last seen. */
export function restored(source: SourceRecord): SourceRecord {
  const kept = bare(source)
  if (kept.read_only === 'format') return { ...kept, state: 'read_only', reason: 'an old notebook format' }
  const count = kept.conflicts?.length ?? 0
  if (count === 0) return { ...kept, state: 'ready' }
  return { ...kept, state: 'conflict', reason: conflictReason(count) }
}

/** The same of a room that won: no conflict is left. */
export function settled(source: SourceRecord): SourceRecord {
  const { conflicts: _c, read_only: _o, ...kept } = bare(source)
  return { ...kept, state: 'ready' }
}

export function conflictReason(count: number): string {
  const cells = count === 1 ? '1 cell' : `${count} cells`
  return `${cells} changed both here and in the file, in different ways; reconcile the source (keep room, disk or both)`
}

export function notWritable(path: string | null): Pick<SourceRecord, 'state' | 'reason' | 'read_only'> {
  return {
    state: 'read_only',
    reason: `${path} may not be written by this user; give it write permission, or save under another path`,
    read_only: 'permission',
  }
}

export function reasonOf({ reason }: SourceRecord): { reason?: string } {
  return reason === undefined ? {} : { reason }
}

/** What is odd about a file, for people. */
export function inWords(warnings: readonly FileWarning[]): string[] {
  return warnings.map(({ at, reason }) => (at ? `${at}: ${reason}` : reason))
}
