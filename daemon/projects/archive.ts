/**
 * Archiving a room of a project: its notebook with all outputs stays and can be read, its workspace is given back. What somebody put
 * into the workspace goes to `<state>/kept/<room>`, and so do commits that were made there (kept-commits.ts).
 *
 * The row comes first, in one transaction: from then on nothing starts in the room and nobody edits it. Kernel, files and folder follow;
 * a daemon that dies in between goes on with them when it is back.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import { updateBinding } from '../rooms/room-record.ts'
import { step } from '../rooms/room-state.ts'
import type { ProjectsContext } from './context.ts'
import { isWithin, leavingPlace } from './folders.ts'
import { keepCommits } from './kept-commits.ts'
import { BUNDLE } from './kept-files.ts'
import type { Tier } from './tier.ts'
import { readWorkspace, type Workspace } from './workspace-rows.ts'

const GRACE_MS = 2_000

/** Commits of the branch of a room that was archived. */
export function bundleOf(kept: string): string {
  return join(kept, BUNDLE)
}

/**
 * Returns where files and commits are now; null: there were none. Throws `invalid_argument` for a room of no project, `conflict` while
 * something runs in it or (unless forced) somebody is in it. Done already: does nothing more.
 */
export function archiveRoom(
  context: ProjectsContext,
  tier: Tier,
  notebookId: NotebookId,
  force: boolean,
): Promise<string | null> {
  return tier.archiving.run(() => archive(context, tier, notebookId, force))
}

async function archive(
  context: ProjectsContext,
  tier: Tier,
  notebookId: NotebookId,
  force: boolean,
): Promise<string | null> {
  const room = await context.rooms().byId(notebookId)
  const workspace = readWorkspace(context.store, notebookId)
  const { record } = room
  if (workspace === null || workspace.branch === null)
    throw new RoomdError(
      'invalid_argument',
      `room ${notebookId} has no workspace of a project that could be given back; "roomd close" ends its kernel`,
    )
  if (record.state !== 'archived') {
    if (tier.get(notebookId))
      throw new RoomdError(
        'conflict',
        `nothing has happened in room ${notebookId} yet: it goes back to the pool by itself when its lease is over`,
      )
    await room.source.flush()
    await room.settled()
    mayArchive(context, room.id, workspace, force)
    // A file of it that lies elsewhere is a notebook like any other from now on; one in the workspace is kept with the other files.
    record.path = null
    record.source = {
      state: 'read_only',
      reason: 'the room is archived; claim another room of the project to go on',
      read_only: 'archived',
    }
    await room.commit({ statements: [step(record, 'archived'), updateBinding(record)] })
  }
  await context.rooms().retire(room, 'the room was archived', GRACE_MS)
  return clearArchived(context, tier, workspace)
}

/** What was archived and still has its folder: its daemon died, or something was in the way. */
export async function clearArchivedLeftovers(context: ProjectsContext, tier: Tier): Promise<void> {
  const rows = context.store.all<{ notebook_id: NotebookId }>(
    "SELECT notebook_id FROM rooms JOIN workspaces USING (notebook_id) WHERE state = 'archived'",
  )
  for (const { notebook_id } of rows) {
    const workspace = readWorkspace(context.store, notebook_id)
    if (workspace === null) continue
    const { folder } = workspace
    if (!existsSync(folder) && !existsSync(leavingPlace(folder))) continue
    try {
      await clearArchived(context, tier, workspace)
    } catch (error) {
      context.log.warn(
        { room: notebook_id, reason: messageOf(error) },
        'the workspace of an archived room is still there',
      )
    }
  }
}

function mayArchive(
  context: ProjectsContext,
  notebookId: NotebookId,
  workspace: Workspace,
  force: boolean,
): void {
  for (const room of context.rooms().resident.values()) {
    const own = room.id === notebookId
    const { path } = room.record
    if (!own && !(path !== null && isWithin(workspace.folder, path))) continue
    const what = own ? `room ${room.id}` : `the notebook ${path}, which lies in its workspace,`
    if (!room.executions.idle)
      throw new RoomdError(
        'conflict',
        `something runs in ${what}: interrupt it first ("roomd interrupt ${room.id.slice(0, 8)}"), or wait until it is over`,
      )
    if (room.peers.size > 0 && !force)
      throw new RoomdError(
        'conflict',
        `somebody is in ${what}: ${[...room.peers].map((peer) => peer.summary().label).join(', ')}; with --force they are sent away`,
      )
  }
}

async function clearArchived(
  context: ProjectsContext,
  tier: Tier,
  workspace: Workspace,
): Promise<string | null> {
  const { notebookId, folder, projectId } = workspace
  if (existsSync(folder)) await keepCommits(context, workspace, context.places.kept(notebookId))
  return tier.clear(notebookId, folder, projectId, true)
}
