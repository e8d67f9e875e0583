/**
 * Files that git keeps as LFS pointers. A clone is made without them, and they are filled in before anything is set up: from the
 * objects that the user's working copy has, by git-lfs, with the network only for what is missing.
 */
import { existsSync } from 'node:fs'
import { copyFile, link, lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { RoomdError } from '../../../protocol/errors.ts'
import type { Advance } from './advance.ts'
import { commonFolder } from './cache.ts'
import type { WorkspaceRequest } from './workspace.ts'

const POINTER = 'version https://git-lfs.github.com/spec/'
/** Bytes; what git-lfs itself takes for one. */
const LARGEST_POINTER = 1024

/**
 * Environment of git commands that leave pointers as they are: many a machine's configuration names git-lfs as a required filter, and a
 * checkout fails where the program itself is not installed.
 */
export const WITHOUT_LFS: Readonly<Record<string, string>> = {
  // Of gits that are too old for the rest.
  GIT_LFS_SKIP_SMUDGE: '1',
  GIT_CONFIG_COUNT: '4',
  GIT_CONFIG_KEY_0: 'filter.lfs.process',
  GIT_CONFIG_VALUE_0: '',
  GIT_CONFIG_KEY_1: 'filter.lfs.smudge',
  GIT_CONFIG_VALUE_1: '',
  GIT_CONFIG_KEY_2: 'filter.lfs.clean',
  GIT_CONFIG_VALUE_2: '',
  GIT_CONFIG_KEY_3: 'filter.lfs.required',
  GIT_CONFIG_VALUE_3: 'false',
}

/** Returns what is not as it should be, in words. */
export async function fillLfs(request: WorkspaceRequest): Promise<string[]> {
  const { git, source, folder, trusted, signal } = request
  const what = 'the files kept in Git LFS could not be filled in'
  const files = await lfsFiles(request)
  const mark = join(folder, '.git', 'roomd', 'lfs')
  if (files.length === 0) {
    await rm(mark, { force: true })
    return []
  }
  await mkdir(dirname(mark), { recursive: true, mode: 0o700 })
  await writeFile(mark, '')
  if ((await pointers(folder, files)) === 0) return []
  const version = await git.end(['lfs', 'version'], { cwd: folder, what, signal, answers: [1] })
  const left = async (why: string): Promise<string[]> => {
    const count = await pointers(folder, files)
    const is =
      count === 1
        ? '1 file is a Git LFS pointer, not its content'
        : `${count} files are Git LFS pointers, not their content`
    return count === 0 ? [] : [`${is}: ${why}`]
  }
  if (version.code !== 0)
    return left(`git-lfs is not installed; install it, then run "git lfs pull" in ${folder}`)
  try {
    if (source.kind === 'local')
      await shareObjects(
        join(await commonFolder(source.gitDir), 'lfs', 'objects'),
        join(folder, '.git', 'lfs', 'objects'),
      )
    await git.run(['lfs', 'install', '--local', '--skip-repo'], { cwd: folder, what, signal })
    // What is here already needs no network; `pull` would ask for it even then where the remote is a folder.
    await git.run(['lfs', 'checkout'], { cwd: folder, what, signal })
    if ((await pointers(folder, files)) === 0) return []
    // Whom git-lfs asks is then the repository's own word.
    if (!trusted && existsSync(join(folder, '.lfsconfig')))
      return left(
        'the repository names a server for them (.lfsconfig), which is asked once the project is trusted',
      )
    await git.run(['lfs', 'pull'], { cwd: folder, what, signal, transfer: true })
    return []
  } catch (error) {
    if (!(error instanceof RoomdError)) throw error
    return left(error.message)
  }
}

/** Whether a move along these paths may concern files of LFS. */
export function mayTouchLfs(folder: string, { paths }: Advance): boolean {
  return (
    existsSync(join(folder, '.git', 'roomd', 'lfs')) ||
    paths.some((path) => path === '.gitattributes' || path.endsWith('/.gitattributes'))
  )
}

/** Tracked files that `.gitattributes`, at whatever depth, gives to LFS, and of which the commit has a pointer. */
async function lfsFiles({ git, folder, signal }: WorkspaceRequest): Promise<string[]> {
  const search = [
    'grep',
    '--cached',
    '-l',
    '-z',
    '--fixed-strings',
    '-e',
    POINTER,
    '--',
    ':(attr:filter=lfs)',
  ]
  const end = await git.end(search, {
    cwd: folder,
    what: 'the files kept in Git LFS could not be listed',
    signal,
    // There are none.
    answers: [1],
  })
  return end.stdout.split('\0').filter((path) => path !== '')
}

/** How many of them hold the few lines that stand for their content. */
async function pointers(folder: string, files: readonly string[]): Promise<number> {
  let count = 0
  for (const path of files) {
    const file = join(folder, path)
    const info = await lstat(file).catch(() => null) // not checked out, or another's link: no pointer
    if (info?.isFile() && info.size < LARGEST_POINTER && (await readFile(file, 'utf8')).startsWith(POINTER))
      count++
  }
  return count
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
