/** Opening the room of a target, bound to one daemon incarnation. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Client, RoomTarget } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import { connectArguments, type Target } from './target.ts'

/** How often an attach is repeated when the daemon was replaced in the middle of it. */
const REPLACED_RETRIES = 3

/** A room is bound only if one incarnation answered from the first to the last byte of the attach; else it is done again. */
export async function openBound(
  client: Client,
  target: RoomTarget,
  options: {
    generation?: number
    signal?: AbortSignal
    mutationId?: number | undefined
    scope?: 'viewer' | undefined
  },
): Promise<{ room: Room; bootId: string }> {
  let wanted = target
  for (let attempt = 0; ; attempt++) {
    const before = client.daemon?.boot_id
    const room = await client.openRoom(wanted, {
      activationGeneration: options.generation,
      mutationId: 'create' in wanted ? options.mutationId : undefined,
      signal: options.signal,
      scope: options.scope,
    })
    const after = client.daemon?.boot_id
    if (after !== undefined && before === after) return { room, bootId: after }
    // The room that was made exists from now on.
    if ('create' in wanted) wanted = { notebook_id: room.id }
    await room.close()
    if (attempt === REPLACED_RETRIES) {
      throw new RoomdError(
        'daemon_replaced',
        'the daemon was replaced again and again while the notebook was being opened; call again',
        { cause: { notebook_id: room.id }, next: nextConnect({ kind: 'id', id: room.id }) },
      )
    }
  }
}

export function roomTarget(target: Target): RoomTarget {
  return target.kind === 'path' ? { path: target.path } : { notebook_id: target.id }
}

/** The call that opens it, for errors. */
export function nextConnect(target: Target) {
  return { tool: 'connect_notebook', arguments: connectArguments(target) }
}
