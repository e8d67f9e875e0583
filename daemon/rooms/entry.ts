/**
 * What a connection may open. Reading a room that is there takes no more than its scope; making one (a file that is no room
 * yet, a new notebook) reads and writes files of the user and is the owner's. A token that is bound to rooms reaches those alone.
 */
import type { z } from 'zod'
import type { Open } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import { makingRooms, scopeAllows } from '../../protocol/scopes.ts'
import type { PeerIdentity } from './seam.ts'

type ParsedOpen = z.output<typeof Open>

/** The OPEN as this identity may have it: one who may not make rooms opens only what is there. Throws `forbidden`. */
export function mayEnter(open: ParsedOpen, identity: PeerIdentity): ParsedOpen {
  const mayMake = scopeAllows(identity.scope, makingRooms) && !identity.rooms
  if (mayMake || open.mode === 'attach') return open
  if (open.mode === 'create') {
    throw new RoomdError('forbidden', `making a notebook needs scope ${makingRooms} in all rooms`)
  }
  return { ...open, mode: 'attach' }
}

export function reachesRoom(identity: PeerIdentity, room: NotebookId): boolean {
  return !identity.rooms || identity.rooms.has(room)
}

/** Throws `forbidden` when the identity's token is bound to other rooms. */
export function mustReachRoom(identity: PeerIdentity, room: NotebookId): void {
  if (reachesRoom(identity, room)) return
  throw new RoomdError('forbidden', 'the token of this connection is bound to another room')
}
