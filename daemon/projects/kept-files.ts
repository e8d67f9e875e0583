/**
 * Files that a user put into a workspace that goes: everything that is newer than the moment in which we were done with it, but for
 * what programs leave behind by themselves. Moved to `<state>/kept/<room>`.
 */
import { constants, type Dirent, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { copyFile, lstat, mkdir, readdir, readlink, rename, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { NotebookId, type ProjectId } from '../../protocol/ids.ts'
import { ownFolder } from './git/workspace.ts'

const LEFT_BEHIND: ReadonlySet<string> = new Set([
  '.git',
  '__pycache__',
  '.ipynb_checkpoints',
  '.mypy_cache',
  '.pytest_cache',
  '.ruff_cache',
  'node_modules',
])

/** Paths relative to the workspace. */
export async function userFiles(workspace: string): Promise<string[]> {
  const mark = await lstat(join(ownFolder(workspace), 'prepared')).catch(() => null)
  // Never finished: nobody was given it.
  if (mark === null) return []
  const found: string[] = []
  const visit = async (folder: string): Promise<void> => {
    let entries: Dirent[]
    try {
      entries = await readdir(join(workspace, folder), { withFileTypes: true })
    } catch {
      // Taken away while we look.
      return
    }
    for (const entry of entries) {
      if (LEFT_BEHIND.has(entry.name)) continue
      const path = join(folder, entry.name)
      if (entry.isDirectory()) await visit(path)
      else {
        const info = await lstat(join(workspace, path)).catch(() => null)
        // The change time is the system's own; a file that is moved in keeps its modification time.
        if (info !== null && info.ctimeMs > mark.ctimeMs) found.push(path)
      }
    }
  }
  await visit('')
  return found
}

/** Returns where they are now; null: there were none. */
export async function keepUserFiles(workspace: string, target: string): Promise<string | null> {
  const paths = await userFiles(workspace)
  if (paths.length === 0) return null
  for (const path of paths) {
    const from = join(workspace, path)
    const to = join(target, path)
    await mkdir(dirname(to), { recursive: true, mode: 0o700 })
    try {
      await rename(from, to)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue
      if ((await lstat(from)).isSymbolicLink()) await symlink(await readlink(from), to)
      else await copyFile(from, to, constants.COPYFILE_EXCL)
    }
  }
  return target
}

/** Beside a folder of kept files: which project it was of. */
export function noteKept(kept: string, project: ProjectId | null): void {
  writeFileSync(`${kept}.json`, JSON.stringify({ project }), { mode: 0o600 })
}

export function readKept(folder: string, project: ProjectId): { notebook_id: NotebookId; path: string }[] {
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch {
    // Nothing was ever kept.
    return []
  }
  return names.flatMap((name) => {
    const id = NotebookId.safeParse(name.replace(/\.json$/, ''))
    if (!name.endsWith('.json') || !id.success) return []
    const noted = JSON.parse(readFileSync(join(folder, name), 'utf8')) as { project?: unknown }
    return noted.project === project ? [{ notebook_id: id.data, path: join(folder, id.data) }] : []
  })
}
