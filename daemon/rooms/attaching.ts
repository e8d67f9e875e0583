/**
 * How a peer comes to see a room. Attaching is one synchronous step: the peer is in the room's set and its picture is taken at the
 * same instant, so nothing is missed and nothing doubled; it is shown behind the commits that were pending then.
 */
import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import type { Open, Opened } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'
import type { TransientEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import { grantedScope } from './identity.ts'
import { encodeOpened, metadataValue } from './opened-frame.ts'
import { type Frame, Peer } from './peer.ts'
import { chain, openedOf, type Picture, peersOf, takePicture } from './picture.ts'
import type { Room } from './room.ts'
import type { PeerChannel, PeerIdentity } from './seam.ts'

/** `early`: what this peer was shown while the room was loading, and under which id; see loading.ts. */
export function attachPeer(
  room: Room,
  identity: PeerIdentity,
  open: z.output<typeof Open>,
  channel: PeerChannel,
  early?: Opened,
): Peer {
  const scope = grantedScope(identity, open.scope)
  const peer = new Peer(room, identity, scope, channel, open.projection, room.now(), early?.peer_id)
  room.peers.add(peer)
  const picture = takePicture(room, open.projection, open.resume)
  const opened = openedOf(room)
  const tooOld = picture.kind === 'projection' ? open.resume : undefined
  room.behind(
    () => {
      if (peer.gone) return
      const welcome = welcomeOf(room, peer, opened, picture)
      const { payload, follows } = encodeOpened(welcome)
      const first: Frame[] = []
      if (early === undefined || isOutdated(early, welcome)) first.push({ type: FrameType.OPENED, payload })
      if (early) first.push({ type: FrameType.READINESS, payload: encode(opened.readiness) })
      if (tooOld) first.push(gapFrame(room, tooOld.event_seq, opened.event_seq, 'older events are not kept'))
      peer.shownSeq = opened.event_seq
      const incomplete = follows || (early !== undefined && encodeOpened(early).follows)
      const metadata = incomplete ? [metadataValue(opened.metadata)] : []
      peer.show(first, chain(metadata, picture.values))
      room.peers.shown(peer)
    },
    (error) => peer.expel(error),
  )
  return peer
}

/** OPENED for one peer: the room as it was when the picture was taken. */
function welcomeOf(
  room: Room,
  peer: Peer,
  opened: ReturnType<typeof openedOf>,
  { kind, pages }: Pick<Picture, 'kind' | 'pages'>,
): Opened {
  return {
    ...opened,
    // Of this moment: who left meanwhile was told to those who were shown the room.
    ...peersOf(room),
    peer_id: peer.peerId,
    scope: peer.scope,
    picture: kind,
    pages,
  }
}

/** Whether OPENED of a room that was loading told what is not so, beyond what the picture and READINESS correct. */
function isOutdated(early: Opened, now: Opened): boolean {
  const there = new Set(now.peers.map((peer) => peer.peer_id))
  return (
    early.path !== now.path ||
    early.title !== now.title ||
    now.kernel !== null ||
    now.running !== null ||
    now.queued_total > 0 ||
    !isDeepStrictEqual(early.metadata, now.metadata) ||
    early.peers.some((peer) => !there.has(peer.peer_id))
  )
}

/**
 * A peer that fell behind, or whose room was rebuilt: OPENED once more, since what it told (kernel, queue, peers, metadata) may have
 * changed unseen, then a gap and a fresh picture.
 */
export function showAgain(room: Room, peer: Peer, reason: string): void {
  const picture = takePicture(room, peer.projection, undefined, true)
  const opened = openedOf(room)
  room.behind(
    () => {
      if (peer.gone) return
      const { payload, follows } = encodeOpened(welcomeOf(room, peer, opened, picture))
      const gap = gapFrame(room, peer.shownSeq, opened.event_seq, reason)
      peer.shownSeq = opened.event_seq
      const metadata = follows ? [metadataValue(opened.metadata)] : []
      peer.show([{ type: FrameType.OPENED, payload }, gap], chain(metadata, picture.values))
    },
    () => {}, // the rebuild shows it everything once more
  )
}

function gapFrame(room: Room, shown: number, until: number, reason: string): Frame {
  const event: TransientEvent = { type: 'gap', from: shown + 1, to: until, reason }
  return { type: FrameType.EVENT, payload: encode({ at: room.now(), event }) }
}
