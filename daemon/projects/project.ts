/**
 * One project at work: its record, its cache, what its rooms are like, and the two lines in which things happen one after the other:
 * claims, and git in the cache.
 */

import { RoomdError } from '../../protocol/errors.ts'
import type { ProjectSummary } from '../../protocol/projects.ts'
import { Backoff } from './backoff.ts'
import { Breaker } from './breaker.ts'
import type { ProjectsContext } from './context.ts'
import { Cache } from './git/cache.ts'
import { countUncommitted, type Snapshot, snapshotUncommitted } from './git/uncommitted.ts'
import { Line } from './line.ts'
import type { ProjectRecord } from './project-rows.ts'
import {
  MANIFEST_FILE,
  type Manifest,
  mergeSettings,
  type ProjectSettings,
  readManifest,
} from './settings.ts'

/** What a look at the source told. */
export interface Fetched {
  readonly commit: string
  /** Why it may be old. */
  readonly stale: string | null
  readonly ms: number
}

export class Project {
  record: ProjectRecord
  readonly cache: Cache
  readonly backoff: Backoff
  readonly breaker: Breaker
  /** Claims, one after the other. */
  readonly claims = new Line()
  readonly #git = new Line()
  readonly #context: ProjectsContext
  #manifest: { commit: string; manifest: Manifest | null; problem: string | null } | null = null
  #removed = false

  constructor(context: ProjectsContext, record: ProjectRecord) {
    this.#context = context
    this.record = record
    this.cache = new Cache(context.git, record.source, context.places.cache(record.id), context.clock)
    this.backoff = new Backoff(context.clock)
    this.breaker = new Breaker(context.clock)
  }

  get path(): string {
    const { source } = this.record
    return source.kind === 'local' ? source.folder : source.url
  }

  /** Set once; work under way asks before each step that would leave something behind. */
  get removed(): boolean {
    return this.#removed
  }

  remove(): void {
    this.#removed = true
  }

  /** What its rooms are like now. The repository's own wishes count only once it is trusted. */
  get settings(): ProjectSettings {
    return mergeSettings(this.record.own, this.record.trusted ? (this.#manifest?.manifest ?? null) : null)
  }

  get manifest(): { found: boolean; problem: string | null } {
    return {
      found: this.#manifest !== null && (this.#manifest.manifest !== null || this.#manifest.problem !== null),
      problem: this.#manifest?.problem ?? null,
    }
  }

  summary(): ProjectSummary {
    const { id, name, trusted, status, reason } = this.record
    return { id, name, path: this.path, trusted, status, ...(reason === null ? {} : { reason }) }
  }

  /** Runs git in the cache, behind what runs there already. */
  inCache<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#git.run(work, signal)
  }

  /** Throws `not_found` once it was removed. */
  mustBeThere(): void {
    if (this.#removed) throw new RoomdError('not_found', `the project ${this.record.name} was removed`)
  }

  mustBeReady(): void {
    this.mustBeThere()
    const { status, reason, name } = this.record
    if (status === 'ready') return
    throw new RoomdError(
      'project_not_ready',
      status === 'cloning'
        ? `the project ${name} is still being cloned; try again in a moment ("roomd project list" shows when it is ready)`
        : `the project ${name} is not usable: ${reason ?? 'its clone failed'}. "roomd project add ${this.path}" tries again`,
      { retryable: status === 'cloning' },
    )
  }

  /**
   * Brings the cache up to the source unless it is fresh. A fetch that fails is no failure while there is a commit to start from: the
   * answer says that it may be old. `whole`: all branches, not the one that is checked out alone.
   */
  fetch(options: { force?: boolean; whole?: boolean; signal?: AbortSignal | undefined }): Promise<Fetched> {
    const { clock } = this.#context
    return this.inCache(async () => {
      const start = clock.now()
      let stale: string | null = null
      let commit: string
      try {
        commit = await this.#commit(options)
      } catch (error) {
        options.signal?.throwIfAborted()
        if (!(error instanceof RoomdError)) throw error
        const known = await this.cache.tip(options.signal).catch(() => null)
        if (known === null) throw error
        commit = known
        stale = error.message
      }
      await this.#readManifest(commit, options.signal)
      return { commit, stale, ms: clock.now() - start }
    }, options.signal)
  }

  async #commit({
    force = false,
    whole = false,
    signal,
  }: {
    force?: boolean
    whole?: boolean
    signal?: AbortSignal | undefined
  }): Promise<string> {
    const { cache } = this
    if (force || (whole && cache.partly)) return cache.fetch(signal)
    if (cache.fresh || (await cache.upToDate())) return cache.tip(signal)
    return (whole ? null : await cache.follow(signal)) ?? cache.fetch(signal)
  }

  /** How many files of the user's working copy are not in `commit`. */
  async uncommitted(commit: string, signal?: AbortSignal): Promise<number> {
    const { source } = this.record
    if (source.kind === 'remote') return 0
    return countUncommitted({ git: this.#context.git, cache: this.cache, source, commit, signal })
  }

  /** The working copy as it is, as a commit. */
  async snapshot(commit: string, signal?: AbortSignal): Promise<Snapshot> {
    const { source } = this.record
    if (source.kind === 'remote') return { commit, left: [] }
    const look = { git: this.#context.git, cache: this.cache, source, commit, signal }
    return this.inCache(() => snapshotUncommitted(look), signal)
  }

  async #readManifest(commit: string, signal?: AbortSignal): Promise<void> {
    const known = this.#manifest
    if (known?.commit === commit) return
    const advance = known && this.cache.advanceFrom(known.commit, commit)
    if (advance && !advance.paths.includes(MANIFEST_FILE)) {
      this.#manifest = { ...known, commit }
      return
    }
    const text = await this.cache.show(commit, MANIFEST_FILE, signal)
    if (text === null) this.#manifest = { commit, manifest: null, problem: null }
    else {
      const read = readManifest(text)
      this.#manifest =
        'manifest' in read
          ? { commit, manifest: read.manifest, problem: null }
          : { commit, manifest: null, problem: read.reason }
    }
  }
}
