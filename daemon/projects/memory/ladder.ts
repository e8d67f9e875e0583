/**
 * Who gives memory back when kernels use more than the budget: cheapest loss first. Standbys; kernels of drafts; idle kernels in which
 * no user cell ran; idle kernels with variables, longest idle first. Never one that is pinned, looked at or busy.
 */
import type { NotebookId } from '../../../protocol/ids.ts'
import type { Snapshot } from './measure.ts'

export type Rung = 'standby' | 'draft' | 'clean' | 'variables'
export const rungs: readonly Rung[] = ['standby', 'draft', 'clean', 'variables']

/** A kernel as the ladder sees it. */
export interface Candidate {
  readonly notebookId: NotebookId
  readonly rung: Rung
  /** Epoch ms since when nothing ran in it. */
  readonly idleSince: number
  readonly pinned: boolean
  readonly viewed: boolean
  readonly busy: boolean
}

export interface Loss {
  readonly notebookId: NotebookId
  readonly rung: Rung
  readonly bytes: number
}

/** Whether it may be ended at all. */
export function mayEnd({ rung, pinned, viewed, busy }: Candidate): boolean {
  if (rung === 'standby') return true
  return !pinned && !viewed && !busy
}

/**
 * What to end, in order, until the shortfall is covered. A candidate whose memory is not known ends the list: what it would give back
 * cannot be counted, and nothing dearer is given up on a guess.
 */
export function chooseLosses(candidates: readonly Candidate[], snapshot: Snapshot, budget: number): Loss[] {
  let shortfall = snapshot.total - budget
  const bytesOf = new Map(snapshot.kernels.map(({ notebookId, bytes }) => [notebookId, bytes]))
  const losses: Loss[] = []
  const ordered = candidates
    .filter(mayEnd)
    .sort((a, b) => rungs.indexOf(a.rung) - rungs.indexOf(b.rung) || a.idleSince - b.idleSince)
  for (const { notebookId, rung } of ordered) {
    if (shortfall <= 0) break
    // Started since the look: it is not part of what was measured.
    if (!bytesOf.has(notebookId)) continue
    const bytes = bytesOf.get(notebookId) ?? null
    if (bytes === null) break
    losses.push({ notebookId, rung, bytes })
    shortfall -= bytes
  }
  return losses
}
