/**
 * Nothing warm survives a daemon. In order, before any request on rooms or projects is served: programs of the last daemon are ended;
 * every warming, pooled and draft row becomes discarded, so that no kernel of such a room is adopted as anybody's; and, once kernels
 * are adopted and the unwanted ones ended, what is left of those rooms goes. What had graduated is not touched.
 */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../../protocol/errors.ts'
import { ClientInstance, NotebookId, ProjectId } from '../../protocol/ids.ts'
import { Breathing } from '../breathing.ts'
import { type RoomState, step } from '../rooms/room-state.ts'
import type { ProjectsContext } from './context.ts'
import { removeEmpty, removeFolder } from './folders.ts'
import type { Tier } from './tier.ts'

interface Row {
  notebook_id: string
  state: RoomState
  generation: number
  working_dir: string
  folder: string | null
  project_id: string | null
  owner: string | null
}

export interface Retired {
  readonly notebookId: NotebookId
  readonly folder: string
  readonly project: ProjectId | null
  readonly owner: ClientInstance | null
}

/** Rows first. Returns whose folders have to go. Also what an earlier retirement left behind. */
export async function retireRows(context: ProjectsContext): Promise<Retired[]> {
  const rows = context.store.all<Row>(
    `SELECT rooms.notebook_id, rooms.state, rooms.generation, rooms.working_dir, workspaces.folder, workspaces.project_id,
       workspaces.owner
     FROM rooms LEFT JOIN workspaces USING (notebook_id)
     WHERE rooms.state IN ('warming', 'pooled', 'draft', 'discarded')`,
  )
  await Promise.all(
    rows.map((row) => {
      if (row.state === 'discarded') return Promise.resolve()
      return context.store.write([
        { sql: 'UPDATE workspaces SET slot = NULL WHERE notebook_id = ?', values: [row.notebook_id] },
        step({ ...row }, 'discarded'),
      ])
    }),
  )
  return rows.map((row) => ({
    notebookId: NotebookId.parse(row.notebook_id),
    folder: row.folder ?? row.working_dir,
    project: row.project_id === null ? null : ProjectId.parse(row.project_id),
    owner: row.owner === null ? null : ClientInstance.parse(row.owner),
  }))
}

/** Folders and what is left of the rows. Errors of one do not hold up the others: the next start, or sweep, tries again. */
export async function clearRetired(
  context: ProjectsContext,
  tier: Tier,
  retired: readonly Retired[],
): Promise<void> {
  const reason = 'the daemon was started again'
  await Promise.all(
    retired.map(async ({ notebookId, folder, owner, project }) => {
      try {
        tier.remember(
          notebookId,
          `room ${notebookId} was a draft in which nothing had happened, and ${reason}; claim a room again`,
        )
        const kept = await tier.clear(notebookId, folder, project)
        if (owner === null) return
        context.tell({
          type: 'draft_retired',
          notebook_id: notebookId,
          client_instance: owner,
          reason,
          ...(kept === null ? {} : { kept }),
        })
      } catch (error) {
        context.log.warn(
          { room: notebookId, reason: messageOf(error) },
          'what was left of a retired room is still there',
        )
      }
    }),
  )
}

/**
 * Folders whose room is not known: a daemon that died between a folder and its row. They are listed now, when nobody makes a room, and
 * looked at by the returned function, which may run beside everything else.
 */
export async function listFolders(context: ProjectsContext): Promise<() => Promise<void>> {
  const { workspaces, scratch } = context.places
  const [ofWorkspaces, ofScratch] = await Promise.all([namesIn(workspaces), namesIn(scratch)])
  return async () => {
    for await (const folder of foldersWithoutRoom(context, workspaces, ofWorkspaces))
      await removeFolder(folder)
    // A scratch folder may be older than a store that was repaired: only an empty one is nobody's for certain.
    for await (const folder of foldersWithoutRoom(context, scratch, ofScratch)) await removeEmpty(folder)
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []) // no room has had such a folder yet
}

async function* foldersWithoutRoom(
  context: ProjectsContext,
  parent: string,
  names: readonly string[],
): AsyncGenerator<string> {
  const breathing = new Breathing()
  for (const name of names) {
    if (breathing.due) await breathing.pause()
    const id = NotebookId.safeParse(name)
    if (!id.success) continue
    if (context.store.get('SELECT 1 FROM rooms WHERE notebook_id = ?', id.data) !== undefined) continue
    yield join(parent, name)
  }
}

/** Clears discarded rooms whose clearing had failed. Returns how many there were. */
export async function retireLeftovers(context: ProjectsContext, tier: Tier): Promise<number> {
  const left = (await retireRowsLeft(context)).filter(({ notebookId }) => tier.get(notebookId) === undefined)
  await clearRetired(context, tier, left)
  return left.length
}

async function retireRowsLeft(context: ProjectsContext): Promise<Retired[]> {
  const rows = context.store.all<{ notebook_id: string; working_dir: string; project_id: string | null }>(
    `SELECT notebook_id, working_dir, project_id FROM rooms LEFT JOIN workspaces USING (notebook_id)
     WHERE state = 'discarded'`,
  )
  const rooms = context.rooms().resident
  return rows
    .map(({ notebook_id, working_dir, project_id }) => ({
      notebookId: NotebookId.parse(notebook_id),
      folder: working_dir,
      project: project_id === null ? null : ProjectId.parse(project_id),
      owner: null,
    }))
    .filter(({ notebookId }) => !rooms.has(notebookId))
}
