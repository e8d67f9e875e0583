/** ROOM on the command line: an id, a unique prefix of one, or a path, which may also name a file that is no room yet. */
import { existsSync } from 'node:fs'
import { resolve, sep } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { RoomSummary } from '../../protocol/notebook.ts'
import type { Client } from '../sdk/client.ts'
import type { Room } from '../sdk/room.ts'
import type { CommandContext } from './command.ts'

/** Paths become absolute: the daemon does not know our folder. */
export function roomNamed(text: string, cwd: string): string {
  const looksLikePath = text.includes('/') || text.includes(sep) || text.endsWith('.ipynb')
  const looksLikeId = /^[0-9a-f-]+$/i.test(text)
  if (looksLikePath || (!looksLikeId && existsSync(resolve(cwd, text)))) return resolve(cwd, text)
  return text
}

/** Rejects with `not_found`; a prefix that fits several is refused by the daemon, which names them. */
export async function findRoom({ cwd }: CommandContext, client: Client, text: string): Promise<RoomSummary> {
  return (await client.call('find_room', { room: roomNamed(text, cwd) })).room
}

/** A peer in a room that exists. */
export async function attachRoom(context: CommandContext, client: Client, text: string): Promise<Room> {
  const { notebook_id } = await findRoom(context, client, text)
  return client.openRoom({ notebook_id })
}

/** A peer in a room that exists, or in a new one for a file that exists. */
export async function openOrAttachRoom(context: CommandContext, client: Client, text: string): Promise<Room> {
  try {
    return await attachRoom(context, client, text)
  } catch (error) {
    const path = resolve(context.cwd, text)
    const unknown = error instanceof RoomdError && error.code === 'not_found'
    if (!unknown || !existsSync(path)) throw error
    return client.openRoom({ path })
  }
}
