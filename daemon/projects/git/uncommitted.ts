/**
 * What the user's working copy holds beyond its last commit. It is looked at through the cache's git folder with a copy of the index:
 * nothing is written there, and nothing runs that its own configuration names (a file system monitor, a filter).
 */
import { existsSync, rmSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Source } from '../source.ts'
import { type Cache, commonFolder } from './cache.ts'
import { GitError } from './errors.ts'
import type { Git } from './git.ts'
import { indexEntries } from './index-entries.ts'
import { WITHOUT_LFS } from './lfs.ts'

export interface LocalLook {
  readonly git: Git
  readonly cache: Cache
  readonly source: Extract<Source, { kind: 'local' }>
  /** The commit that the cache's tip is: the working copy's HEAD when it was fetched. */
  readonly commit: string
  readonly signal?: AbortSignal | undefined
}

/** A file kept in Git LFS counts as changed where git-lfs is not there to tell; it is no reason to fail. */
const lfsMayBeMissing = {
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'filter.lfs.required',
  GIT_CONFIG_VALUE_0: 'false',
}

/**
 * How many files of the working copy differ from the commit or are new; ignored ones do not count. It may run beside anything else in
 * the cache.
 */
export async function countUncommitted(look: LocalLook): Promise<number> {
  // A folder that is away (a disk that is not there) holds nothing more; that the commit may be old is told with it.
  if (look.source.bare || !existsSync(look.source.folder)) return 0
  return withIndex(look, async (env) => {
    const status = (filters: Readonly<Record<string, string>>): Promise<string> =>
      look.git.run(
        [
          'status',
          '--porcelain=v1',
          '-z',
          '--untracked-files=all',
          '--no-renames',
          '--ignore-submodules=all',
        ],
        {
          ...options(look, { ...env, ...filters }),
          what: `${look.source.folder} could not be looked at`,
        },
      )
    const out = await status(lfsMayBeMissing).catch((error: unknown) => {
      if (!(error instanceof GitError) || error.failure !== 'other') throw error
      // A filter that runs as a process ends git itself when its program is not there.
      return status(WITHOUT_LFS)
    })
    return out.split('\0').filter((entry) => entry !== '').length
  })
}

export interface Snapshot {
  /** The commit itself where there was nothing to take along. */
  readonly commit: string
  /** Folders with a repository of their own that is no submodule: they are not taken along. */
  readonly left: readonly string[]
}

/** The working copy as a commit on top of its HEAD, in the cache only: what `--include-uncommitted` starts from. */
export async function snapshotUncommitted(look: LocalLook): Promise<Snapshot> {
  const { source } = look
  // A folder that is away has nothing to take along, as in `countUncommitted`.
  if (source.bare || !existsSync(source.folder)) return { commit: look.commit, left: [] }
  return withIndex(look, async (env) => {
    const what = `the changes in ${look.source.folder} could not be taken along`
    // `add` would look into a submodule by the submodule's own configuration; which commit it is at is had without.
    const submodules = await submodulesOf(look, env)
    // `add` would name their commit, which nobody could fetch, and fails where there is none yet.
    const left = await nestedRepositories(look, env)
    const others = [...submodules, ...left].map((path) => `:(exclude,literal)${path}`)
    await look.git.run(['add', '--all', '--', '.', ...others], { ...options(look, env), what })
    if (submodules.length > 0)
      await look.git.run(['update-index', '--remove', '--', ...submodules], { ...options(look, env), what })
    const tree = (await look.git.run(['write-tree'], { ...options(look, env), what })).trim()
    const before = await look.git.run(['rev-parse', `${look.commit}^{tree}`], { ...options(look, env), what })
    if (tree === before.trim()) return { commit: look.commit, left }
    const commit = await look.git.run(
      ['commit-tree', tree, '-p', look.commit, '-m', 'Uncommitted changes of the working copy'],
      {
        ...options(look, { ...env, ...author }),
        what,
      },
    )
    const name = commit.trim()
    // Named by a ref, so that a workspace can fetch it.
    await look.git.run(['update-ref', 'refs/roomd/snapshot', name], { ...options(look, env), what })
    return { commit: name, left }
  })
}

/** They are the only folders that git lists as such. */
async function nestedRepositories(look: LocalLook, env: Record<string, string>): Promise<string[]> {
  const out = await look.git.run(['ls-files', '--others', '--exclude-standard', '-z'], {
    ...options(look, env),
    what: `${look.source.folder} could not be looked at`,
  })
  return out.split('\0').flatMap((path) => (path.endsWith('/') ? [path.slice(0, -1)] : []))
}

async function submodulesOf(look: LocalLook, env: Record<string, string>): Promise<string[]> {
  const what = `${look.source.folder} could not be looked at`
  const entries = await indexEntries(look.git, { ...options(look, env), what })
  return entries.filter(({ mode }) => mode === '160000').map(({ path }) => path)
}

const author = {
  GIT_AUTHOR_NAME: 'roomd',
  GIT_AUTHOR_EMAIL: 'roomd@localhost',
  GIT_COMMITTER_NAME: 'roomd',
  GIT_COMMITTER_EMAIL: 'roomd@localhost',
}

function options(look: LocalLook, env: Record<string, string>) {
  return { cwd: look.source.folder, signal: look.signal, env }
}

/** Copies of indexes that are in use now. */
const inUse = new Set<string>()

async function withIndex<T>(look: LocalLook, use: (env: Record<string, string>) => Promise<T>): Promise<T> {
  const { cache, source } = look
  const index = freeIndex(cache.folder)
  inUse.add(index)
  const env = { GIT_DIR: cache.folder, GIT_WORK_TREE: source.folder, GIT_INDEX_FILE: index }
  try {
    // Left by a git, or a daemon, that was killed.
    rmSync(`${index}.lock`, { force: true })
    const [copied] = await Promise.all([
      copyIfThere(join(source.gitDir, 'index'), index),
      copyExcludes(source, cache.folder),
    ])
    // The user's index knows which files need not be read.
    if (copied) {
      try {
        return await use(env)
      } catch (error) {
        // An index that is split over files does not work as a copy.
        if (!(error instanceof GitError) || error.failure === 'no_git') throw error
        rmSync(index, { force: true })
      }
    }
    const what = `${source.folder} could not be looked at`
    await look.git.run(['read-tree', look.commit], { ...options(look, env), what })
    return await use(env)
  } finally {
    inUse.delete(index)
    rmSync(index, { force: true })
  }
}

function freeIndex(folder: string): string {
  for (let n = 0; ; n++) {
    const index = join(folder, `roomd-index-${n}`)
    if (!inUse.has(index)) return index
  }
}

/** `.git/info/exclude` holds patterns, no code. */
async function copyExcludes(source: LocalLook['source'], cache: string): Promise<void> {
  const target = join(cache, 'info', 'exclude')
  // The copy has the original's mode, which may forbid writing over it.
  rmSync(target, { force: true })
  await copyIfThere(join(await commonFolder(source.gitDir), 'info', 'exclude'), target)
}

/** false: there is no such file. */
async function copyIfThere(from: string, to: string): Promise<boolean> {
  try {
    await copyFile(from, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' && !existsSync(from)) return false
    throw error
  }
}
