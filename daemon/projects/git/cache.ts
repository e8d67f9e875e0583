/**
 * The bare repository of one project, from which workspaces are cloned. For a local working copy it is refreshed by a local fetch,
 * which only reads there; for a remote one over the network, at most once a minute unless forced. Git never tidies up by itself here
 * (it could take objects away from under a clone), and a damaged cache is made anew.
 *
 * Refs: `refs/heads/*` and `refs/tags/*` as at the source, `refs/roomd/tip` the commit that rooms start from: the working copy's
 * HEAD, or the remote's.
 */
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Clock } from '../../../protocol/clock.ts'
import { removeFolder } from '../folders.ts'
import type { Source } from '../source.ts'
import { type Advance, takeObjects, writeRef } from './advance.ts'
import { GitError } from './errors.ts'
import type { Git } from './git.ts'
import { pastLocks, removePartPacks } from './leftovers.ts'

/** A remote that was fetched within so long is fresh. */
export const FRESH_MS = 60_000
const TIP = 'refs/roomd/tip'

export class Cache {
  readonly folder: string
  readonly #git: Git
  readonly #source: Source
  readonly #clock: Clock
  /** When a fetch last worked. Not stored: a new process fetches again. */
  #fetchedAt: number | null = null
  /** What it was last brought up by without a fetch, and whether other branches may have moved since the last one. */
  #advance: Advance | null = null
  #partly = false

  constructor(git: Git, source: Source, folder: string, clock: Clock) {
    this.#git = git
    this.#source = source
    this.folder = folder
    this.#clock = clock
  }

  get address(): string {
    return this.#source.kind === 'remote' ? this.#source.url : this.#source.folder
  }

  /** Whether a claim would have to fetch. A local source always is: it costs milliseconds. */
  get fresh(): boolean {
    if (this.#source.kind === 'local' || this.#fetchedAt === null) return false
    return this.#clock.now() - this.#fetchedAt < FRESH_MS && existsSync(join(this.folder, 'HEAD'))
  }

  /**
   * Brings the cache up to the source, making it where it is missing, and anew where it is damaged. Returns the tip's commit.
   * Throws GitError. Not for two callers at once: projects fetch in line.
   */
  async fetch(signal?: AbortSignal): Promise<string> {
    if (!existsSync(join(this.folder, 'HEAD'))) await this.#make(signal)
    else {
      try {
        await this.#fetchInto(signal)
      } catch (error) {
        if (!(await this.#damaged(error, signal))) throw error
        await this.#make(signal)
      }
    }
    this.#fetchedAt = this.#clock.now()
    this.#partly = false
    return this.tip(signal)
  }

  /** The commit that rooms start from. Throws GitError when there is none. */
  async tip(signal?: AbortSignal): Promise<string> {
    const loose = await looseRef(this.folder, TIP)
    if (loose !== null) return loose
    const out = await this.#git.run(['rev-parse', '--verify', '--quiet', `${TIP}^{commit}`], {
      cwd: this.folder,
      what: `the cache of ${this.address} has no commit`,
      signal,
    })
    return out.trim()
  }

  /**
   * Whether the local source's HEAD is the tip, known from two files without starting git. false also when it cannot be known so
   * (packed or other kinds of refs): then a fetch finds out.
   */
  async upToDate(): Promise<boolean> {
    if (this.#source.kind !== 'local' || this.#fetchedAt === null) return false
    // Damaged: the fetch makes it anew.
    if (!existsSync(join(this.folder, 'HEAD'))) return false
    const [tip, head] = await Promise.all([looseRef(this.folder, TIP), headOf(this.#source.gitDir)])
    return tip !== null && tip === head?.commit
  }

  /** Only the branch that is checked out was looked at since the last fetch. */
  get partly(): boolean {
    return this.#partly
  }

  /** How the cache came from one commit to the next, if that was a step without a fetch. */
  advanceFrom(from: string, to: string): Advance | null {
    const advance = this.#advance
    return advance?.from === from && advance.to === to ? advance : null
  }

  /**
   * Follows the branch that is checked out in a local source, without a fetch. null: a fetch must do it. As with `fetch`: not for two
   * callers at once.
   */
  async follow(signal?: AbortSignal): Promise<string | null> {
    if (this.#source.kind !== 'local' || this.#fetchedAt === null) return null
    const [from, head] = await Promise.all([looseRef(this.folder, TIP), headOf(this.#source.gitDir)])
    if (from === null || head === null) return null
    const { commit, ref, common } = head
    const advance = await takeObjects({
      git: this.#git,
      cache: this.folder,
      common,
      from,
      to: commit,
      signal,
    })
    if (advance === null) return null
    try {
      if (ref !== null) await writeRef(this.folder, ref, commit)
      await writeRef(this.folder, TIP, commit)
    } catch {
      // A reference in the way, or a lock of a git that was killed: a fetch puts it right, or says why not.
      return null
    }
    this.#advance = advance
    this.#partly = true
    return commit
  }

  /** A file's text at a commit; null where it is not there. */
  async show(commit: string, path: string, signal?: AbortSignal): Promise<string | null> {
    const end = await this.#git.end(['cat-file', 'blob', `${commit}:${path}`], {
      cwd: this.folder,
      what: `${path} could not be read`,
      signal,
      answers: [128],
    })
    return end.code === 0 ? end.stdout : null
  }

  /** Object names of paths at a commit; paths that are not there are left out. */
  async objects(
    commit: string,
    paths: readonly string[],
    signal?: AbortSignal,
  ): Promise<Map<string, string>> {
    const out = await this.#git.run(['ls-tree', '-r', '-z', '--full-tree', commit, '--', ...paths], {
      cwd: this.folder,
      what: 'the project could not be looked at',
      signal,
    })
    const found = new Map<string, string>()
    for (const line of out.split('\0')) {
      const match = /^\d+ \w+ ([0-9a-f]+)\t([\s\S]+)$/.exec(line)
      if (match?.[1] && match[2]) found.set(match[2], match[1])
    }
    return found
  }

  /** Whether it cannot give this commit, as far as a failure of git's may come from that: it is gone, or not whole. */
  async lacks(commit: string, error: GitError, signal?: AbortSignal): Promise<boolean> {
    if (error.failure === 'damaged' || !existsSync(join(this.folder, 'HEAD'))) return true
    const end = await this.#git.end(['rev-list', '--objects', '--quiet', commit], {
      cwd: this.folder,
      what: 'the cache could not be looked at',
      signal,
      answers: [1, 128],
    })
    return end.code !== 0
  }

  /** Made anew from the source. Throws GitError. */
  async renew(signal?: AbortSignal): Promise<void> {
    await this.#make(signal)
    this.#fetchedAt = this.#clock.now()
    this.#partly = false
  }

  /**
   * In a folder of another name until it is whole: a clone that was cut off is never taken for a cache, and where it is the source that
   * is damaged, what there was stays.
   */
  async #make(signal?: AbortSignal): Promise<void> {
    try {
      await this.#makeWith('sha1', signal)
    } catch (error) {
      if (!otherNames(error)) throw error
      await this.#makeWith('sha256', signal)
    }
  }

  /** `names`: how objects are named, which only the source knows. */
  async #makeWith(names: 'sha1' | 'sha256', signal?: AbortSignal): Promise<void> {
    const making = `${this.folder}.new`
    await removeFolder(making)
    await mkdir(dirname(this.folder), { recursive: true, mode: 0o700 })
    const what = `the cache of ${this.address} could not be made`
    try {
      await this.#git.run(['init', '--quiet', '--bare', '--template=', `--object-format=${names}`, making], {
        cwd: dirname(this.folder),
        what,
        signal,
      })
      await writeFile(join(making, 'config'), cacheConfig(this.address, names), { mode: 0o600 })
      await writeFile(join(making, 'HEAD'), `ref: ${TIP}\n`)
      await mkdir(join(making, 'info'), { recursive: true })
      await this.#fetch(making, signal)
      await removeFolder(this.folder)
      await rename(making, this.folder)
    } catch (error) {
      await removeFolder(making)
      throw error
    }
  }

  /** What was left by one that was killed is no reason to be old for ever. */
  async #fetchInto(signal?: AbortSignal): Promise<void> {
    await removePartPacks(this.folder)
    await pastLocks(this.folder, () => this.#fetch(this.folder, signal))
  }

  async #fetch(folder: string, signal?: AbortSignal): Promise<void> {
    await this.#git.run(
      [
        'fetch',
        this.#source.kind === 'remote' ? '--progress' : '--quiet',
        '--prune',
        '--force',
        '--update-shallow',
        '--no-write-fetch-head',
        '--no-auto-maintenance',
        'origin',
      ],
      {
        cwd: folder,
        what: `${this.address} could not be fetched`,
        signal,
        transfer: this.#source.kind === 'remote',
      },
    )
  }

  /** Whether it is the cache itself that is broken, and not the way to the source. */
  async #damaged(error: unknown, signal?: AbortSignal): Promise<boolean> {
    if (!(error instanceof GitError)) return false
    if (error.failure === 'damaged' || otherNames(error)) return true
    if (error.failure !== 'other' && error.failure !== 'no_repository') return false
    if (!existsSync(join(this.folder, 'HEAD'))) return true
    const end = await this.#git.end(['rev-parse', '--git-dir'], {
      cwd: this.folder,
      what: 'the cache could not be looked at',
      signal,
      answers: [128],
    })
    return end.code !== 0
  }
}

const OBJECT = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/

async function looseRef(gitDir: string, ref: string): Promise<string | null> {
  const text = (await readFile(join(gitDir, ref), 'utf8').catch(() => '')).trim()
  return OBJECT.test(text) ? text : null
}

interface Head {
  readonly commit: string
  /** The branch that is checked out; null: none. */
  readonly ref: string | null
  /** Where branches and objects are. */
  readonly common: string
}

/** The git folder that holds what all working trees of a repository share: branches, objects, excludes. */
export async function commonFolder(gitDir: string): Promise<string> {
  const named = (await readFile(join(gitDir, 'commondir'), 'utf8').catch(() => '')).trim()
  return named === '' ? gitDir : resolve(gitDir, named)
}

/** null: it cannot be known from plain files. */
async function headOf(gitDir: string): Promise<Head | null> {
  const read = async (name: string): Promise<string> =>
    (await readFile(join(gitDir, name), 'utf8').catch(() => '')).trim()
  // A linked working tree keeps its branches with the main one.
  const [head, common] = await Promise.all([read('HEAD'), commonFolder(gitDir)])
  if (OBJECT.test(head)) return { commit: head, ref: null, common }
  const ref = /^ref: (refs\/heads\/[^\0]+)$/.exec(head)?.[1]
  if (ref === undefined || ref.split('/').includes('..')) return null
  const commit = await looseRef(common, ref)
  return commit === null ? null : { commit, ref, common }
}

/** The source names its objects by another hash than the cache. */
function otherNames(error: unknown): boolean {
  return error instanceof GitError && /mismatched algorithms|mismatched object format/i.test(error.stderr)
}

function cacheConfig(address: string, names: 'sha1' | 'sha256'): string {
  return `${names === 'sha1' ? '' : `[extensions]\n\tobjectFormat = ${names}\n`}[core]
	repositoryformatversion = ${names === 'sha1' ? 0 : 1}
	filemode = true
	bare = true
[gc]
	auto = 0
[remote "origin"]
	url = ${quoted(address)}
	fetch = +refs/heads/*:refs/heads/*
	fetch = +refs/tags/*:refs/tags/*
	fetch = +HEAD:${TIP}
`
}

/** A value of a git configuration file. */
export function quoted(value: string): string {
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`
}
