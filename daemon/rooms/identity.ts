/** Who somebody in a room is: which scope he has there, and how the others are told of him. */
import type { PeerSummary } from '../../protocol/notebook.ts'
import { type Scope, scopeAllows } from '../../protocol/scopes.ts'
import type { PeerIdentity } from './seam.ts'

/** The scope that is asked for, but never more than the connection has. */
export function grantedScope({ scope }: PeerIdentity, wanted: Scope = scope): Scope {
  return scopeAllows(scope, wanted) ? wanted : scope
}

/** `attachedAt`: epoch ms. */
export function summaryOfPeer(
  peerId: string,
  { label, kind, clientInstance }: PeerIdentity,
  scope: Scope,
  attachedAt: number,
): PeerSummary {
  return { peer_id: peerId, label, kind, scope, client_instance: clientInstance, attached_at: attachedAt }
}
