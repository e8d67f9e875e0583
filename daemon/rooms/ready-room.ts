/**
 * Making a new notebook out of a hidden room whose kernel runs already. The kernel is told where it is before anything is durable; then
 * one transaction takes the room out of the pool and makes it the new notebook. Whatever fails before, the notebook is made the
 * usual way.
 */
import { readFile, rm, rmdir, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { Target } from '../../protocol/channels.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { Written } from '../documents/ipynb/write.ts'
import { saveFile } from '../documents/save.ts'
import type { Statement } from '../store/store.ts'
import { baseRows } from './base-text.ts'
import { mustBeNew } from './opening.ts'
import type { Room } from './room.ts'
import { type RoomRecord, updateBinding } from './room-record.ts'
import type { RoomsContext } from './rooms-context.ts'

type Wanted = Extract<Target, { create: unknown }>['create']

/** null: there is none that fits. `path`: canonical, of its new file. `rows`: of the caller, for the same transaction. Rejects as making a room does. */
export async function takeReadyRoom(
  rooms: RoomsContext,
  wanted: Wanted,
  path: string | null,
  rows: (value: unknown) => Statement[],
): Promise<Room | null> {
  const { hooks, kernels } = rooms
  if (!hooks) return null
  const spec = await kernels.choose(wanted.kernel === undefined ? {} : { name: wanted.kernel })
  if (path !== null) mustBeNew(rooms, path)
  if (wanted.working_dir !== undefined && !(await isFolder(wanted.working_dir))) return null
  const room = await hooks.readyRoom(spec)
  if (!room) return null
  const scratch = room.record.working_dir
  const working_dir = wanted.working_dir ?? (path === null ? scratch : dirname(path))
  if (working_dir !== scratch) {
    try {
      await hooks.moveKernel(room, working_dir)
    } catch (error) {
      rooms.log.info({ room: room.id, reason: String(error) }, 'a kernel that was ready could not be used')
      await hooks.dropReady(room, 'its kernel could not be told where it is')
      return null
    }
  }
  if (!room.presentKernel) {
    await hooks.dropReady(room, 'its kernel has died')
    return null
  }
  let placed: Uint8Array | null = null
  try {
    const { metadata } = room.document
    const written = path === null ? null : await rooms.worker.write({ base: null, path, metadata, cells: [] })
    if (written !== null && path !== null) {
      await saveFile({ path, bytes: written.bytes, expectedHash: null })
      placed = written.bytes
    }
    if (room.closed)
      throw new RoomdError('shutting_down', 'the daemon is stopping; connect again when it is back')
    await become(rooms, room, { wanted, path, working_dir, written }, hooks.leaveReady(room), rows)
  } catch (error) {
    if (path !== null && placed !== null) await takeBack(path, placed)
    await hooks.dropReady(room, 'the new notebook could not be made')
    throw error
  }
  hooks.readyTaken(room)
  // Where it waited; gone unless it is also where it works.
  if (working_dir !== scratch) await rmdir(scratch).catch(() => undefined) // something is in it: it stays
  return room
}

/** The one transaction: out of the pool, and the new notebook. */
async function become(
  rooms: RoomsContext,
  room: Room,
  made: { wanted: Wanted; path: string | null; working_dir: string; written: Written | null },
  leaving: readonly Statement[],
  rows: (value: unknown) => Statement[],
): Promise<void> {
  const { wanted, path, working_dir, written } = made
  const { record } = room
  const now = rooms.clock.now()
  Object.assign(record, {
    path,
    kind: path === null ? 'standalone' : 'in-place',
    title: path === null ? 'Untitled' : basename(path),
    working_dir,
    kernel_name: wanted.kernel ?? null,
    ephemeral: wanted.ephemeral ?? false,
    source: written === null ? { state: 'none' } : { state: 'ready', hash: written.hash },
    created_at: now,
  } satisfies Partial<RoomRecord>)
  await room.commit({
    statements: [
      ...leaving,
      updateBinding(record),
      {
        sql: 'UPDATE rooms SET kernel_name = ?, ephemeral = ?, created_at = ? WHERE notebook_id = ?',
        values: [record.kernel_name, record.ephemeral ? 1 : 0, now, room.id],
      },
      ...(written === null
        ? []
        : baseRows(room.id, { hash: written.hash, text: written.bytes, cell_ids: written.cell_ids })),
      ...rows({ notebook_id: room.id }),
    ],
  })
}

/** The file of a notebook that could not be made, unless somebody has written to it meanwhile. */
async function takeBack(path: string, bytes: Uint8Array): Promise<void> {
  const present = await readFile(path).catch(() => null) // gone, or not readable any more: not ours to remove
  if (present !== null && Buffer.compare(present, bytes) === 0) await rm(path, { force: true })
}

async function isFolder(path: string): Promise<boolean> {
  const info = await stat(path).catch(() => null) // whatever the reason: no kernel can be there
  return info?.isDirectory() === true
}
