/** A room in short: for lists, and for the gates of those who are in it. */
import type { Readiness, RoomSummary } from '../../protocol/notebook.ts'
import { residentMemory } from '../kernel-host/process-identity.ts'
import type { Room } from './room.ts'
import type { RoomRecord, SourceRecord } from './room-record.ts'
import { isListed } from './room-state.ts'

export function readinessOf(source: SourceRecord, runtime: Readiness['runtime']): Readiness {
  const { state, reason } = source
  return {
    projection: state === 'degraded' ? 'degraded' : 'ready',
    document: 'interactive',
    runtime,
    source: { state, ...(reason === undefined ? {} : { reason }) },
  }
}

export function keepAliveOf(room: Room): 'pinned' | number {
  const ms = room.terms.keepAliveMs
  return ms === null ? 'pinned' : ms / 1000
}

export function summaryOf(room: Room): RoomSummary {
  const { record, executions } = room
  const kernel = room.kernelSummary()
  return {
    notebook_id: room.id,
    path: record.path,
    title: record.title,
    kind: record.kind,
    state: room.peers.size > 0 ? 'active' : kernel && kernel.state !== 'dead' ? 'idle' : 'inactive',
    source_state: record.source.state,
    peers: [...room.peers].map((peer) => peer.summary()),
    kernel,
    queue: { running: executions.running ? 1 : 0, queued: executions.queued.length },
    memory: kernel?.pid ? residentMemory(kernel.pid) : null,
    keep_alive: keepAliveOf(room),
    doc_seq: record.doc_seq,
    event_seq: record.event_seq,
  }
}

/** What lists say of a room that is told when it changes; null: it is in none. */
export function listingOf({ state, title, path }: RoomRecord): string | null {
  return isListed(state) ? JSON.stringify([title, path]) : null
}
