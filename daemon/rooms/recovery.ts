/** How rooms get their kernels back when a daemon begins, and what of the last one's ends. Before this is over no request is served. */
import { messageOf } from '../../protocol/errors.ts'
import { NotebookId } from '../../protocol/ids.ts'
import type { AdoptedKernel, GoneKernel } from '../kernels/kernel.ts'
import { RoomRegistry, UNWANTED_GRACE_MS } from './registry.ts'
import { recordById } from './room-record.ts'
import { isListed } from './room-state.ts'
import type { RoomsContext } from './rooms-context.ts'
import { removeUnfinished } from './storing.ts'

/** Makes the registry, adopts what outlived the last daemon, and ends what belongs to no room. */
export async function createRooms(context: RoomsContext): Promise<RoomRegistry> {
  await removeUnfinished(context.store)
  const rooms = new RoomRegistry(context)
  await context.hooks?.begin(rooms)
  const { kernels, gone } = await context.kernels.adopt()
  await recover(rooms, kernels, gone)
  await context.hooks?.ready()
  return rooms
}

/** Adopted kernels go back to their rooms; rooms whose kernel is gone are told. */
async function recover(
  rooms: RoomRegistry,
  adopted: readonly AdoptedKernel[],
  gone: readonly GoneKernel[],
): Promise<void> {
  const { context } = rooms
  const ending: Promise<void>[] = []
  for (const { kernel, notebookId } of adopted) {
    const record = recordById(context.store, notebookId)
    if (!record && context.store.health().incomplete) {
      // The recovery of a damaged store may have lost its room: it lives until its orphan grace is over.
      kernel.release()
      continue
    }
    // Born a standby or not: only the row tells whether anybody has it.
    if (!record || !isListed(record.state)) {
      // One that cannot be ended is no reason to serve nobody: the next start finds it again.
      const ended = kernel.shutdown(UNWANTED_GRACE_MS).catch((error: unknown) => {
        context.log.warn(
          { kernel: kernel.id, reason: messageOf(error) },
          'a kernel that nobody has could not be ended',
        )
      })
      ending.push(ended)
      continue
    }
    const room = await rooms.byId(notebookId)
    room.slot.adopt(kernel)
    room.resumeKernel()
  }
  await Promise.all(ending)
  const unfinished = context.store.all<{ notebook_id: string }>(
    `SELECT DISTINCT notebook_id FROM executions WHERE status IN ('queued', 'running', 'waiting_for_input')`,
  )
  const reasons = new Map(gone.map(({ notebookId, reason }) => [notebookId, reason]))
  for (const { notebook_id } of unfinished) {
    const room = await rooms.byId(NotebookId.parse(notebook_id))
    if (room.presentKernel) continue
    room.resumeKernel(reasons.get(room.id))
  }
}
