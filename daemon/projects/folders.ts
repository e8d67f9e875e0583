/** Where projects keep things: caches and workspaces with the data, what is kept of retired rooms and what runs in the state. */
import { chmod, lstat, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { NotebookId, ProjectId } from '../../protocol/ids.ts'
import type { Places } from '../../protocol/places.ts'

export interface ProjectPlaces {
  /** Records of programs that run for us. */
  readonly deputies: string
  /** Bare repository of a project. */
  cache(project: ProjectId): string
  /** Everything of one project: the cache, and what is taken from working copies. */
  project(project: ProjectId): string
  /** Checkout of one room. */
  workspace(room: NotebookId): string
  readonly workspaces: string
  /** Folders of notebooks that have no other. */
  readonly scratch: string
  /** Files of users out of workspaces that are gone. */
  kept(room: NotebookId): string
  readonly keptFolder: string
}

export function projectPlaces(places: Places): ProjectPlaces {
  const projects = join(places.data, 'projects')
  const workspaces = join(places.data, 'workspaces')
  return {
    deputies: join(places.state, 'deputies'),
    project: (project) => join(projects, project),
    cache: (project) => join(projects, project, 'cache.git'),
    workspaces,
    scratch: join(places.data, 'scratch'),
    workspace: (room) => join(workspaces, room),
    kept: (room) => join(places.state, 'kept', room),
    keptFolder: join(places.state, 'kept'),
  }
}

/** Removes a folder with all that is in it, also what was made read-only. A folder that is not there is removed already. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOTEMPTY') throw error
    await makeWritable(folder)
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
  }
}

/** Where a folder is while it is removed: half of it is never taken for it. */
export function leavingPlace(folder: string): string {
  return `${folder}.gone`
}

/** As `removeFolder`; the folder itself is gone at once, and what a daemon that died has left of it goes with the next call. */
export async function removeWhole(folder: string): Promise<void> {
  const leaving = leavingPlace(folder)
  await removeFolder(leaving)
  try {
    await rename(folder, leaving)
  } catch {
    // Not there any more, or held open where that forbids renaming: then as it is.
    return removeFolder(folder)
  }
  await removeFolder(leaving)
}

/** Removes a folder if nothing is in it. */
export async function removeEmpty(folder: string): Promise<void> {
  try {
    await rmdir(folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST' && code !== 'ENOENT' && code !== 'ENOTDIR') throw error
  }
}

async function makeWritable(folder: string): Promise<void> {
  const info = await lstat(folder).catch(() => null) // gone meanwhile: nothing to remove
  if (info === null || !info.isDirectory()) return
  await chmod(folder, 0o700)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await makeWritable(join(folder, entry.name))
  }
}

/** Whether a path is the folder or lies in it; both absolute and normal. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder + sep)
}
