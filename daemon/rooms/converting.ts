/**
 * Upgrading the file of a room from an old format, when the user asked for it. The room shows an old file as format 4 has it already,
 * so that nothing of it changes but that it may be edited and saved now.
 */
import { upgradeRequest } from '../documents/ipynb/upgrade.ts'
import { saveFile } from '../documents/save.ts'
import { baseRows, readBase } from './base-text.ts'
import { lookAtFile, tell } from './disk-changes.ts'
import type { Room } from './room.ts'
import { settled } from './source-after.ts'

/** The caller holds the room's source line. Does nothing to a file of format 4. Rejects with what keeps it from being written. */
export async function convert(room: Room): Promise<void> {
  await lookAtFile(room, false)
  const { path, source } = room.record
  if (path === null || source.read_only !== 'format') return
  const { worker, store } = room.surroundings.context
  const base = readBase(store, room.id)
  if (base === null) return
  const file = await worker.read(base.text, path)
  const { bytes, hash, cell_ids } = await worker.write(upgradeRequest(file, path))
  // Killed behind this, the next look finds the same cells in the new format.
  await saveFile({ path, bytes, expectedHash: base.hash })
  const { warnings: _, ...kept } = settled(source)
  await tell(room, { ...kept, hash }, baseRows(room.id, { hash, text: bytes, cell_ids }))
}
