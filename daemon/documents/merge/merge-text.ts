/** Three-way merging of texts by lines. */
import { diff3Merge } from 'node-diff3'

export type Merged<Value> = { readonly merged: Value } | { readonly conflict: true }

/** Texts of more lines than this are not compared line by line: both changed means conflict. */
const MOST_LINES = 50_000

/** Both sides' changes of `base`; a conflict where they touch the same or neighbouring lines in different ways. */
export function mergeText(base: string, room: string, disk: string): Merged<string> {
  if (room === disk || disk === base) return { merged: room }
  if (room === base) return { merged: disk }
  // Lines without their ends: the last one has none, and would otherwise differ from itself once something follows it.
  const [a, o, b] = [room.split('\n'), base.split('\n'), disk.split('\n')]
  if (a.length + o.length + b.length > MOST_LINES) return { conflict: true }
  const lines: string[] = []
  for (const region of diff3Merge(a, o, b, { excludeFalseConflicts: true })) {
    if (region.ok === undefined) return { conflict: true }
    for (const line of region.ok) lines.push(line)
  }
  return { merged: lines.join('\n') }
}
