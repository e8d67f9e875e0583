/**
 * The state of a room: one persisted enum and a generation that rises with each step. This is the only place that writes it. A step is
 * a statement of the transaction that holds everything that belongs to it, guarded by the state and generation it starts from; which
 * steps there are is also held by triggers of the store, so that nothing else can be committed.
 *
 * `evicted`: its kernel was taken for its memory; `active` again when the next one starts. `archived`: its workspace was given back; it
 * can be read.
 *
 * Standalone and in-place rooms are born `active`. `warming`, `pooled` and `draft` hold no work and are in no list.
 */
import type { Statement } from '../store/store.ts'

export const roomStates = [
  'warming',
  'pooled',
  'draft',
  'active',
  'evicted',
  'archived',
  'discarded',
] as const
export type RoomState = (typeof roomStates)[number]

export const stateSteps: Readonly<Record<RoomState, readonly RoomState[]>> = {
  warming: ['pooled', 'discarded'],
  pooled: ['draft', 'discarded'],
  draft: ['active', 'pooled', 'discarded'],
  active: ['evicted', 'archived'],
  evicted: ['active', 'archived'],
  archived: [],
  discarded: [],
}

/** In lists: somebody's work that goes on. */
export function isListed(state: RoomState): boolean {
  return state === 'active' || state === 'evicted'
}

/** May be attached to by who knows its id. */
export function isAttachable(state: RoomState): boolean {
  return state === 'draft' || state === 'archived' || isListed(state)
}

/** What a record needs for a step. */
export interface Stateful {
  readonly notebook_id: string
  state: RoomState
  generation: number
}

/** Takes the step in memory and returns the statement that takes it in the store. Throws for a step that there is not. */
export function step(record: Stateful, to: RoomState): Statement {
  const { state, generation } = record
  if (!stateSteps[state].includes(to)) {
    throw new Error(`room ${record.notebook_id} is ${state} and cannot become ${to}`)
  }
  record.state = to
  record.generation = generation + 1
  return {
    // NULL is refused: the whole transaction fails when the room is not where it was thought to be.
    sql: `UPDATE rooms SET state = CASE WHEN state = ? AND generation = ? THEN ? ELSE NULL END, generation = ?
          WHERE notebook_id = ?`,
    values: [state, generation, to, generation + 1, record.notebook_id],
  }
}
