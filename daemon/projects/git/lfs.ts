/**
 * Files that git keeps as LFS pointers. A clone is made without them, and they are filled in before anything is set up: from the
 * objects that the user's working copy has, by git-lfs, with the network only for what is missing.
 */
import { existsSync } from 'node:fs'
import { copyFile, link, mkdir, readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { RoomdError } from '../../../protocol/errors.ts'
import type { WorkspaceRequest } from './workspace.ts'

export async function fillLfs(request: WorkspaceRequest): Promise<string[]> {
  const { git, source, folder, signal } = request
  if (!(await usesLfs(folder))) return []
  const what = 'the files kept in Git LFS could not be filled in'
  const version = await git.end(['lfs', 'version'], { cwd: folder, what, signal, answers: [1] })
  if (version.code !== 0)
    return [
      'this project keeps files in Git LFS and git-lfs is not installed: they are pointers, not their content',
    ]
  try {
    if (source.kind === 'local')
      await shareObjects(join(source.gitDir, 'lfs', 'objects'), join(folder, '.git', 'lfs', 'objects'))
    await git.run(['lfs', 'install', '--local', '--skip-repo'], { cwd: folder, what, signal })
    // What is here already needs no network; `pull` would ask for it even then where the remote is a folder.
    await git.run(['lfs', 'checkout'], { cwd: folder, what, signal })
    const missing = await git.run(['lfs', 'ls-files'], { cwd: folder, what, signal })
    // `*` stands before a file whose content is there, `-` before a pointer.
    if (!/^[0-9a-f]+ - /m.test(missing)) return []
    await git.run(['lfs', 'pull'], { cwd: folder, what, signal, transfer: true })
    return []
  } catch (error) {
    if (!(error instanceof RoomdError)) throw error
    return [error.message]
  }
}

async function usesLfs(folder: string): Promise<boolean> {
  for (const file of await attributeFiles(folder)) {
    if (/\bfilter=lfs\b/.test(await readFile(file, 'utf8'))) return true
  }
  return false
}

/** `.gitattributes` at the top and one level below, where nearly all are. */
async function attributeFiles(folder: string): Promise<string[]> {
  const found: string[] = []
  const top = join(folder, '.gitattributes')
  if (existsSync(top)) found.push(top)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const file = join(folder, entry.name, '.gitattributes')
    if (entry.isDirectory() && entry.name !== '.git' && existsSync(file)) found.push(file)
  }
  return found
}

/** Hard links where that works: content is named by its hash and never written again. */
async function shareObjects(from: string, to: string): Promise<void> {
  if (!existsSync(from)) return
  for (const entry of await readdir(from, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const target = join(to, path.slice(from.length))
    if (existsSync(target)) continue
    await mkdir(dirname(target), { recursive: true })
    await link(path, target).catch(() => copyFile(path, target))
  }
}
