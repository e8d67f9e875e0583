/** Scopes in rising order: viewer reads, editor also edits, owner also executes, saves, manages. */
import { z } from 'zod'

export const scopes = ['viewer', 'editor', 'owner'] as const
export const Scope = z.enum(scopes)
export type Scope = z.output<typeof Scope>

/** Whether `held` includes all that `needed` allows. */
export function scopeAllows(held: Scope, needed: Scope): boolean {
  return scopes.indexOf(held) >= scopes.indexOf(needed)
}

/** What it takes to make a room: OPEN with mode `create`, or with mode `open` for a file that is no room yet. */
export const makingRooms = 'owner' satisfies Scope
