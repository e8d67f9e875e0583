/** What a peer that binds to the Yjs document sends and gets: y-protocols sync messages, each in line with the room's commits. */
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import { scopeAllows } from '../../protocol/scopes.ts'
import { readSync, writeAnswer, writeWants } from './document-sync.ts'
import type { DocumentChange } from './parts.ts'
import type { Peer } from './peer.ts'
import type { Room } from './room.ts'
import { closedCells } from './source-states.ts'

/** A DOC frame. Resolves when what it brought is durable, which is when credit returns to the sender. */
export async function takeDocumentMessage(room: Room, peer: Peer, payload: Uint8Array): Promise<void> {
  const message = readSync(payload)
  if (message.kind === 'wants') {
    answer(room, peer, message.stateVector)
    return
  }
  if (!scopeAllows(peer.scope, 'editor')) {
    throw new RoomdError('forbidden', 'a viewer may not edit; open the room with scope editor')
  }
  room.mustMutate()
  const change = applied(room, peer, message.update)
  if (change) await room.commit({ statements: [], document: { change, by: peer.identity.label } })
}

function applied(room: Room, peer: Peer, update: Uint8Array): DocumentChange | null {
  try {
    return room.document.applyUpdate(update, closedCells(room.record.source))
  } catch (error) {
    if (error instanceof RoomdError && error.code === 'sync_failed' && !error.retryable) {
      const { log } = room.surroundings.context
      log.warn(
        { room: room.id, peer: peer.identity.label, compared: error.detail },
        'a document of another history was not merged',
      )
    }
    throw error
  }
}

/** Sends what the peer lacks and asks for what it has; from then on it gets every update. */
function answer(room: Room, peer: Peer, stateVector: Uint8Array): void {
  const lacking = writeAnswer(room.document.updateSince(stateVector))
  const wants = writeWants(room.document.stateVector())
  room.behind(
    () => {
      // Who binds to the document only now may have dropped what it was told of others before.
      if (!peer.followsDocument) room.peers.tellPresence(peer)
      peer.followsDocument = true
      peer.channel.send(FrameType.DOC, lacking)
      if (scopeAllows(peer.scope, 'editor')) peer.channel.send(FrameType.DOC, wants)
    },
    // Who asked waits for the answer: the channel ends with the reason, and its client attaches again.
    (error) => peer.expel(error),
  )
}
