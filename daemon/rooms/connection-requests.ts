/** Methods of channel 0 that concern rooms, kernels and what they left behind; one handler each. */
import { RoomdError } from '../../protocol/errors.ts'
import type { LedgerMethod } from '../../protocol/ledger.ts'
import type { ConnectionMethod, MethodArguments, MethodResult } from '../../protocol/methods.ts'
import type { RoomSummary } from '../../protocol/notebook.ts'
import { readExecution, readOutputText } from '../executions/reading.ts'
import { residentMemory } from '../kernel-host/process-identity.ts'
import { mustReachRoom, reachesRoom } from './entry.ts'
import type { RoomRegistry } from './registry.ts'
import { type RoomRecord, recentRecords } from './room-record.ts'
import { isListed } from './room-state.ts'
import type { RequestContext } from './seam.ts'

/** Answered by the server itself, or by the ledger. */
type ServersOwn =
  | 'ping'
  | 'status'
  | 'shutdown'
  | 'fetch_blob'
  | 'create_token'
  | 'list_tokens'
  | 'revoke_token'
  | LedgerMethod
/** Answered by projects/. */
type ProjectsOwn =
  | 'add_project'
  | 'list_projects'
  | 'get_project'
  | 'trust_project'
  | 'remove_project'
  | 'claim_room'
  | 'archive_room'
  | 'pool_status'

export type ConnectionHandler<M extends ConnectionMethod> = (
  rooms: RoomRegistry,
  args: MethodArguments<M>,
  context: RequestContext,
) => Promise<MethodResult<M>>

export const connectionHandlers: {
  readonly [M in Exclude<ConnectionMethod, ServersOwn | ProjectsOwn>]: ConnectionHandler<M>
} & { readonly [M in ServersOwn]?: ConnectionHandler<M> } = {
  async list_rooms(rooms, { inactive, limit }, { identity }) {
    const resident = [...rooms.resident.values()]
      .filter((room) => isListed(room.record.state) && reachesRoom(identity, room.id))
      .sort((a, b) => b.record.touched_at - a.record.touched_at)
      .map((room) => room.summary())
    if (!inactive) return { rooms: resident.filter((room) => room.state !== 'inactive').slice(0, limit) }
    const known = new Set(resident.map((room) => room.notebook_id))
    const stored = recentRecords(rooms.context.store, limit)
      .filter((record) => !known.has(record.notebook_id) && reachesRoom(identity, record.notebook_id))
      .map(summaryOfRecord)
    return { rooms: [...resident, ...stored].slice(0, limit) }
  },

  async list_kernels(rooms) {
    const { kernels } = rooms.context
    const owners = new Map(
      [...rooms.resident.values()].flatMap((room) =>
        room.presentKernel ? [[room.presentKernel.id, room] as const] : [],
      ),
    )
    const ahead = new Set(
      rooms.context.store
        .all<{ kernel_id: string }>(
          "SELECT kernel_id FROM kernels JOIN rooms USING (notebook_id) WHERE state IN ('warming', 'pooled')",
        )
        .map((row) => row.kernel_id),
    )
    const somebodys = kernels.running().filter((kernel) => !ahead.has(kernel.id))
    const running = somebodys.map((kernel) => {
      const room = owners.get(kernel.id)
      const summary = room?.kernelSummary() ?? kernel.summary()
      return {
        kernel_id: kernel.id,
        pid: summary.pid,
        host_pid: summary.host_pid,
        name: kernel.name,
        notebook_id: room?.id ?? null,
        state: summary.state,
        started_at: summary.started_at,
        memory: summary.pid === null ? null : residentMemory(summary.pid),
        ...(summary.reason === undefined ? {} : { reason: summary.reason }),
      }
    })
    return { specs: await kernels.specs(), running, standbys: rooms.context.hooks?.standbys() ?? [] }
  },

  async find_room(rooms, { room: name }, { identity }) {
    const record = await rooms.findRecord(name)
    mustReachRoom(identity, record.notebook_id)
    const resident = rooms.resident.get(record.notebook_id)
    return { room: resident ? resident.summary() : summaryOfRecord(record) }
  },

  async get_execution(rooms, { execution_id }, { identity }) {
    const { store } = rooms.context
    for (const room of rooms.resident.values()) {
      const execution = room.executions.get(execution_id)
      if (!execution) continue
      // Any room reads any execution from the store.
      mustReachRoom(identity, execution.notebook_id)
      await room.settled()
      return { execution }
    }
    const execution = readExecution(store, execution_id)
    if (execution) {
      mustReachRoom(identity, execution.notebook_id)
      return { execution }
    }
    throw new RoomdError(
      'not_found',
      `no execution ${execution_id}: it never was, or its results are older than what is kept`,
    )
  },

  async read_output(rooms, { mime, ...place }, { identity }) {
    const { store, blobs } = rooms.context
    if (identity.rooms) {
      const execution = readExecution(store, place.execution_id)
      if (execution) mustReachRoom(identity, execution.notebook_id)
    }
    return readOutputText(store, blobs, { ...place, ...(mime === undefined ? {} : { mime }) })
  },

  async close_room(rooms, { notebook_id }, context) {
    mustReachRoom(context.identity, notebook_id)
    const close = async () => ({ notebook_id, kernel_ended: await rooms.close(notebook_id) })
    if (context.mutationId === undefined) return close()
    const key = {
      clientInstance: context.identity.clientInstance,
      id: context.mutationId,
      watermark: context.watermark,
    }
    const value = await rooms.mutations.run(key, 'close_room', notebook_id, async (mutation) => {
      await rooms.mutations.begin(mutation)
      const closed = await close()
      await rooms.mutations.finish(mutation, { value: closed })
      return closed
    })
    return value as MethodResult<'close_room'>
  },
}

/** A room that is not in memory, as lists show it. */
function summaryOfRecord(record: RoomRecord): RoomSummary {
  return {
    notebook_id: record.notebook_id,
    path: record.path,
    title: record.title,
    kind: record.kind,
    state: 'inactive',
    source_state: record.source.state,
    peers: [],
    kernel: null,
    queue: { running: 0, queued: 0 },
    memory: null,
    doc_seq: record.doc_seq,
    event_seq: record.event_seq,
  }
}
