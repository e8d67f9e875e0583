/**
 * Files that a user put into a workspace that goes: everything that came since the moment in which we were done with it (prepared.ts),
 * but for what programs leave behind by themselves. Moved to `<state>/kept/<room>`; what was moved when a daemon died stays moved, and
 * the next one goes on.
 */
import { type Dirent, readdirSync, readFileSync } from 'node:fs'
import { copyFile, lstat, mkdir, readdir, readlink, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { NotebookId, type ProjectId } from '../../protocol/ids.ts'
import { replaceFile } from '../../protocol/small-files.ts'
import { preparedAt, readTheirs } from './prepared.ts'

const LEFT_BEHIND: ReadonlySet<string> = new Set([
  '__pycache__',
  '.ipynb_checkpoints',
  '.mypy_cache',
  '.pytest_cache',
  '.ruff_cache',
  'node_modules',
])

/** Name of the files among them that hold commits (kept-commits.ts). */
export const BUNDLE = 'branch.bundle'

/** Paths relative to the workspace. */
export async function userFiles(workspace: string): Promise<string[]> {
  const mark = await preparedAt(workspace)
  // Never finished: nobody was given it.
  if (mark === null) return []
  const theirs = new Set(await readTheirs(workspace))
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
      if (LEFT_BEHIND.has(entry.name) || isOurGit(folder, entry)) continue
      const path = join(folder, entry.name)
      if (entry.isDirectory()) await visit(path)
      else {
        // Pipes and sockets hold nothing.
        if (!entry.isFile() && !entry.isSymbolicLink()) continue
        const info = await lstat(join(workspace, path), { bigint: true }).catch(() => null)
        // The change time is the system's own; a file that is moved in keeps its modification time.
        if (info !== null && (info.ctimeNs >= mark || theirs.has(path))) found.push(path)
      }
    }
  }
  await visit('')
  return found
}

/** The workspace's own git folder, and the file that leads from a submodule into it. A repository that a user put there is his. */
function isOurGit(folder: string, entry: Dirent): boolean {
  return entry.name === '.git' && (folder === '' || !entry.isDirectory())
}

/** Moves them; `target` is made where there are some. Rejects with the system's error; what was moved stays moved. */
export async function keepUserFiles(workspace: string, target: string): Promise<void> {
  for (const path of await userFiles(workspace)) {
    // Commits have that name; of a submodule in its folder.
    const to = join(target, basename(path) === BUNDLE ? `${path}.file` : path)
    await mkdir(dirname(to), { recursive: true, mode: 0o700 })
    await moveFile(join(workspace, path), to)
  }
}

/** Whole or not at all, also from one file system to another. */
async function moveFile(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    // Of an earlier attempt that was cut off.
    const making = `${to}.roomd-new`
    await rm(making, { force: true })
    if ((await lstat(from)).isSymbolicLink()) await symlink(await readlink(from), making)
    else await copyFile(from, making)
    await rename(making, to)
  }
}

/** Beside a folder of kept files: which project it was of. */
export function noteKept(kept: string, project: ProjectId | null): void {
  replaceFile(`${kept}.json`, JSON.stringify({ project }), { outlives: 'machine' })
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
