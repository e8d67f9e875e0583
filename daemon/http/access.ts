/** What whoever presented a token may do: a scope, in all rooms or in some. */
import type { NotebookId } from '../../protocol/ids.ts'
import { type Scope, scopeAllows } from '../../protocol/scopes.ts'

export interface Access {
  readonly scope: Scope
  /** null: every room. */
  readonly rooms: ReadonlySet<NotebookId> | null
  /** The named token behind it, whose end ends what it opened; null: the owner's token, or a page's. */
  readonly tokenId: string | null
  /** Epoch ms; null: never. */
  readonly expiresAt: number | null
}

export function allowsRoom(access: Access, room: NotebookId, scope: Scope): boolean {
  return scopeAllows(access.scope, scope) && (access.rooms === null || access.rooms.has(room))
}

/** Whether the access reaches beyond single rooms: the console, metrics. */
export function allowsAll(access: Access, scope: Scope): boolean {
  return access.rooms === null && scopeAllows(access.scope, scope)
}
