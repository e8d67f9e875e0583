/**
 * What is done every five minutes: rooms that nobody uses leave memory, silent peers are detached, and what was kept for a while is
 * forgotten.
 */
import type { NotebookId } from '../../protocol/ids.ts'
import { collectBlobs, pruneExecutions, roomsToPrune } from '../executions/retention.ts'
import type { Mutations } from './mutations.ts'
import type { Room } from './room.ts'
import type { RoomsContext } from './rooms-context.ts'
import { removeUnfinished } from './storing.ts'

/** How often it is done. */
export const SWEEP_MS = 5 * 60_000
/** Unused rooms beyond this many, or older than RESIDENT_MS, leave memory. */
export const RESIDENT_ROOMS = 64
export const RESIDENT_MS = 24 * 3_600_000
/** A peer that sent nothing for this long is detached. */
export const SILENT_PEER_MS = 5 * 60_000

/** Detaches silent peers; drops rooms without peers, reservations, kernel or anything unsaved: too old, or beyond the newest 64. */
export function sweepRooms(
  resident: ReadonlyMap<NotebookId, Room>,
  now: number,
  drop: (room: Room) => void,
): void {
  for (const room of resident.values()) {
    for (const peer of [...room.peers]) {
      if (now - peer.lastSeen <= SILENT_PEER_MS) continue
      peer.detach('silent for 5 minutes')
      peer.channel.close({ code: 'closed', reason: 'nothing was heard of this peer for 5 minutes' })
    }
  }
  const unused = [...resident.values()]
    .filter((room) => room.unused && !room.source.busy && !room.source.unsettled)
    .sort((a, b) => b.record.touched_at - a.record.touched_at)
  unused.forEach((room, i) => {
    if (i >= RESIDENT_ROOMS || now - room.record.touched_at > RESIDENT_MS) drop(room)
    else room.executions.trim()
  })
  for (const room of resident.values()) room.rest()
}

/**
 * Removes what could not be removed of makings that failed, but for `busy` (ids, paths) that are still under way. Forgets old results of
 * mutations and of executions, and the blobs that nothing names any more.
 */
export async function forgetOld(
  context: RoomsContext,
  mutations: Mutations,
  resident: ReadonlyMap<NotebookId, Room>,
  busy: readonly string[],
): Promise<void> {
  const { store, blobs, clock } = context
  await removeUnfinished(store, busy)
  await mutations.forgetOld()
  for (const notebookId of roomsToPrune(store, clock.now())) {
    const room = resident.get(notebookId)
    if (room?.fault) continue
    await store.write(pruneExecutions(notebookId, room?.document.cellIds() ?? null, clock.now()))
  }
  await collectBlobs(store, blobs, clock.now())
}
