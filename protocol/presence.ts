/**
 * What a peer shows of itself in a room: the JSON of its awareness state. All fields but label and kind may be absent, and peers
 * may add their own; whoever reads one must expect that.
 */
import type { PeerKind } from './notebook.ts'

export interface PresenceState {
  readonly label: string
  /** `#rrggbb`; one label has the same everywhere. */
  readonly color: string
  readonly kind: PeerKind
  /** Where it reads or writes. `offset` in UTF-16 units of the cell's source. */
  readonly cursor?: { readonly cell: string; readonly offset?: number }
  /** What it is doing, for people: "running cell 3" (cells are counted from 1). */
  readonly activity?: string
  readonly [field: string]: unknown
}

/** Dark enough for white text on them, light enough to be seen on white and on black. */
const COLORS = [
  '#b0413e',
  '#b3541e',
  '#8f6a00',
  '#5f7d1c',
  '#2e7d4f',
  '#1f7a7a',
  '#1d6fa5',
  '#3f5fc4',
  '#6a4fc0',
  '#9343a8',
  '#b03a7c',
  '#6b6b6b',
] as const

export function presenceColor(label: string): string {
  let hash = 0
  for (const character of label) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) >>> 0
  return COLORS[hash % COLORS.length] ?? COLORS[0]
}
