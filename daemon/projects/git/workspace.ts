/**
 * The checkout of one room: a full clone of the project's cache (objects hard-linked where both lie on one file system) on a branch
 * of its own, `roomd/<short id>`. It is complete by itself: deleting the cache takes nothing from it. Nothing in it points to the
 * cache, and nothing pushed from it reaches the user's own folder: results are fetched from here.
 */
import { existsSync } from 'node:fs'
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { NotebookId } from '../../../protocol/ids.ts'
import { removeFolder } from '../folders.ts'
import type { Source } from '../source.ts'
import { withoutCredentials } from '../source.ts'
import { type Advance, giveObjects, writeRef } from './advance.ts'
import { type Cache, quoted } from './cache.ts'
import { GitError } from './errors.ts'
import type { Git } from './git.ts'
import { pastLocks } from './leftovers.ts'
import { fillLfs, mayTouchLfs, WITHOUT_LFS } from './lfs.ts'
import { fillSubmodules } from './submodules.ts'

/** Our own files of a workspace, inside its git folder so that no commit can hold them. */
export function ownFolder(workspace: string): string {
  return join(workspace, '.git', 'roomd')
}

export function branchOf(room: NotebookId): string {
  return `roomd/${room.slice(0, 8)}`
}

export interface WorkspaceRequest {
  readonly git: Git
  readonly cache: Cache
  readonly source: Source
  readonly folder: string
  readonly branch: string
  /** Where the branch begins. */
  readonly commit: string
  /** Submodules may only be fetched for a trusted project: their addresses are the repository's own. */
  readonly trusted: boolean
  readonly signal?: AbortSignal | undefined
}

/** Makes the checkout. Nothing is left of it when that fails. Returns what is not as it should be, in words. */
export async function cloneWorkspace(request: WorkspaceRequest): Promise<string[]> {
  const { cache, folder, signal } = request
  try {
    try {
      return await clone(request)
    } catch (error) {
      if (!(error instanceof GitError) || error.failure === 'no_space') throw error
      if (!(await cache.lacks(request.commit, error, signal))) throw error
      // The cache was taken away under us, or is damaged: made anew, once.
      await removeFolder(folder)
      await cache.renew(signal)
      return await clone(request)
    }
  } catch (error) {
    await removeFolder(folder)
    throw error
  }
}

async function clone(request: WorkspaceRequest): Promise<string[]> {
  const { git, cache, source, folder, branch, commit, signal } = request
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
  const what = `the workspace could not be made from ${cache.address}`
  await git.run(['clone', '--quiet', '--local', '--no-checkout', '--template=', cache.folder, folder], {
    cwd: dirname(folder),
    what,
    signal,
  })
  // What is on no branch comes with the objects; a shallow cache is cloned like a remote one.
  if (existsSync(join(cache.folder, 'shallow'))) await fetchFromCache(git, cache, folder, what, signal)
  await configure(git, source, folder, signal)
  await git.run(['checkout', '--quiet', '--no-track', '-b', branch, commit], {
    cwd: folder,
    what,
    signal,
    env: WITHOUT_LFS,
  })
  await mkdir(ownFolder(folder), { recursive: true, mode: 0o700 })
  return await fill(request)
}

/** What a checkout alone does not bring. */
async function fill(request: WorkspaceRequest): Promise<string[]> {
  return [...(await fillSubmodules(request)), ...(await fillLfs(request))]
}

/**
 * Moves an untouched workspace to another commit: everything in it becomes as it is there. Only for rooms that hold no work; the
 * files that setup made and git ignores stay. `advance`: how the cache came to the commit from the one the workspace is at.
 */
export function moveWorkspace(request: WorkspaceRequest, advance: Advance | null): Promise<string[]> {
  // Locks of a git that was ended with the claim it worked for; nobody else works here.
  return pastLocks(join(request.folder, '.git'), () => move(request, advance))
}

async function move(request: WorkspaceRequest, advance: Advance | null): Promise<string[]> {
  const { git, cache, folder, commit, signal } = request
  const what = 'the workspace could not be brought up to date'
  if (advance) {
    await giveObjects(advance, cache.folder, join(folder, '.git'))
    await writeRef(join(folder, '.git'), 'refs/roomd/tip', commit)
  } else await fetchFromCache(git, cache, folder, what, signal)
  await git.run(['reset', '--quiet', '--hard', commit], {
    cwd: folder,
    what,
    signal,
    env: WITHOUT_LFS,
  })
  if (advance && !mayTouchLfs(folder, advance)) return fillSubmodules(request)
  return await fill(request)
}

async function fetchFromCache(
  git: Git,
  cache: Cache,
  folder: string,
  what: string,
  signal?: AbortSignal,
): Promise<void> {
  const refs = '+refs/roomd/*:refs/roomd/*'
  await git.run(
    [
      'fetch',
      '--quiet',
      '--update-shallow',
      '--no-write-fetch-head',
      '--no-auto-maintenance',
      cache.folder,
      refs,
    ],
    { cwd: folder, what, signal },
  )
}

/** Paths that differ between two commits that the repository has. */
export async function changedPaths(
  git: Git,
  folder: string,
  from: string,
  to: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const out = await git.run(['diff', '--name-only', '-z', '--no-renames', '--no-ext-diff', from, to], {
    cwd: folder,
    what: 'the workspace could not be compared',
    signal,
  })
  return out.split('\0').filter((path) => path !== '')
}

/**
 * Where pushes and fetches go. A remote project keeps its remote, without credentials: the user's helper has them. For a local one,
 * `origin` is the user's folder, for fetching only, and its own remote is `upstream`.
 */
async function configure(git: Git, source: Source, folder: string, signal?: AbortSignal): Promise<void> {
  const file = join(folder, '.git', 'config')
  const text = await readFile(file, 'utf8')
  const start = text.indexOf('[remote "origin"]')
  const kept = start < 0 ? text : text.slice(0, start)
  const lines = [kept.trimEnd(), '[gc]', '\tauto = 0', '[remote "origin"]']
  if (source.kind === 'remote') lines.push(`\turl = ${quoted(source.url)}`)
  else {
    lines.push(`\turl = ${quoted(source.folder)}`)
    lines.push('\tpushurl = "(nothing is pushed into the working copy: fetch the branch from here)"')
  }
  lines.push('\tfetch = "+refs/heads/*:refs/remotes/origin/*"')
  if (source.kind === 'local') lines.push(...(await fromWorkingCopy(git, source.folder, signal)))
  await writeFile(file, `${lines.join('\n')}\n`)
}

/**
 * What commits made here need of the working copy's own configuration: who commits, and the remote's address. Of one that is away (a disk
 * that is not there) nothing: rooms are made without it.
 */
async function fromWorkingCopy(git: Git, folder: string, signal?: AbortSignal): Promise<string[]> {
  if (!existsSync(folder)) return []
  const end = await git.end(
    ['config', '--local', '--null', '--get-regexp', '^(user\\.(name|email)|remote\\.origin\\.url)$'],
    { cwd: folder, what: `the configuration of ${folder} could not be read`, signal, answers: [1, 128] },
  )
  const values = new Map(
    end.stdout
      .split('\0')
      .filter((entry) => entry.includes('\n'))
      .map((entry) => [entry.slice(0, entry.indexOf('\n')), entry.slice(entry.indexOf('\n') + 1)] as const),
  )
  const lines: string[] = []
  const user = (['name', 'email'] as const).flatMap((field) => {
    const value = values.get(`user.${field}`)
    return value === undefined ? [] : [`\t${field} = ${quoted(value)}`]
  })
  if (user.length > 0) lines.push('[user]', ...user)
  const upstream = values.get('remote.origin.url')
  if (upstream !== undefined) {
    lines.push('[remote "upstream"]', `\turl = ${quoted(withoutCredentials(upstream))}`)
    lines.push('\tfetch = "+refs/heads/*:refs/remotes/upstream/*"')
  }
  return lines
}

/** Paths that git shall not show as new. */
export async function excludePaths(workspace: string, paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return
  const file = join(workspace, '.git', 'info', 'exclude')
  await mkdir(dirname(file), { recursive: true })
  await appendFile(
    file,
    `${paths.map((path) => `/${path.replaceAll(/([*?[\]\\!#])/g, '\\$1')}`).join('\n')}\n`,
  )
}

/**
 * Paths that git tracks, those of submodules too; `changed`: those that are new and not ignored, or not as they were committed; `ignored
 * alone`: files that git ignores each by itself, not with the folder that they are in. A folder, which ends with a slash, stands for all
 * that is in it: a repository of its own, or ignored as a whole.
 */
export async function listedPaths(
  git: Git,
  folder: string,
  which: 'tracked' | 'changed' | 'ignored alone',
  signal?: AbortSignal,
): Promise<Set<string>> {
  const out = await git.run(['ls-files', '-z', ...choices[which]], {
    cwd: folder,
    what: 'the workspace could not be looked at',
    signal,
  })
  return new Set(out.split('\0').filter((path) => path !== ''))
}

const choices = {
  tracked: ['--recurse-submodules'],
  changed: ['--others', '--modified', '--exclude-standard'],
  'ignored alone': ['--others', '--ignored', '--exclude-standard', '--directory'],
} as const
