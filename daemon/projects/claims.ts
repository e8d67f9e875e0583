/**
 * Claims: how somebody gets a room of a project. One at a time for each project, in this order: an own draft; a pooled room; the room
 * that is being made; a cold one. Whatever was begun is undone when the claim is called off, at whatever wait that happens, until the
 * last step; only then is the next room warmed, without waiting for it.
 */
import { messageOf } from '../../protocol/errors.ts'
import type { ClientInstance } from '../../protocol/ids.ts'
import type { MethodArguments } from '../../protocol/methods.ts'
import type { Claim } from '../../protocol/projects.ts'
import type { ProjectsContext } from './context.ts'
import type { Drafts } from './drafts.ts'
import type { Pool } from './pool.ts'
import type { Fetched, Project } from './project.ts'
import { updateProject } from './project-rows.ts'
import { endKernel, fillWorkspace, presentNotes, projectSpec, refreshWorkspace } from './rooms-of-project.ts'
import type { Tier, TierRoom } from './tier.ts'

export type ClaimRequest = Omit<MethodArguments<'claim_room'>, 'project'>

export interface ClaimParts {
  readonly context: ProjectsContext
  readonly tier: Tier
  readonly drafts: Drafts
  poolOf(project: Project): Pool
}

/** What only looks at the source: begun while other things of the claim are done. Failures are told to who waits for them. */
interface Look {
  readonly fetched: Promise<Start>
  readonly uncommitted: Promise<number>
}

/** What a room starts from. `left`: folders that could not be taken along although everything uncommitted was wanted. */
interface Start extends Fetched {
  readonly left: readonly string[]
}

interface Got {
  readonly tier: TierRoom
  readonly how: Claim['claim']
  readonly look: Look
  /** Undoes the getting. */
  readonly undo: () => Promise<void>
}

export class Claims {
  readonly #parts: ClaimParts

  constructor(parts: ClaimParts) {
    this.#parts = parts
  }

  /**
   * Gives a room in `draft` to the client instance. Rejects `project_not_ready`, GitError, `kernel_not_found`, and the signal's reason
   * when it is aborted; then pool and disk are as before.
   */
  async claim(
    project: Project,
    owner: ClientInstance,
    request: ClaimRequest,
    signal: AbortSignal,
  ): Promise<Claim> {
    project.mustBeReady()
    // The project's own kernel by its name is no wish for another one.
    const { kernel, ...settings } = request.settings
    const plain = kernel === project.settings.kernel ? { ...request, settings } : request
    const claim = async (): Promise<Claim> => {
      try {
        return await this.#claim(project, owner, plain, signal)
      } catch (error) {
        // Whatever failed for that reason.
        signal.throwIfAborted()
        project.mustBeThere()
        throw error
      }
    }
    return project.claims.run(claim, signal)
  }

  async #claim(
    project: Project,
    owner: ClientInstance,
    request: ClaimRequest,
    signal: AbortSignal,
  ): Promise<Claim> {
    const { context } = this.#parts
    project.mustBeReady()
    // First of all: whoever looks for unused projects must not take this one for one.
    project.record.usedAt = context.clock.now()
    const pool = this.#parts.poolOf(project)
    const start = context.clock.now()
    const got = await this.#get(project, pool, owner, request, signal)
    try {
      signal.throwIfAborted()
      const claim = await this.#finish(project, pool, got, signal)
      signal.throwIfAborted()
      // With its project went the room.
      project.mustBeThere()
      const { standby, fetch_ms, stale } = claim
      context.log.info(
        {
          project: project.record.name,
          room: got.tier.id,
          claim: got.how,
          standby,
          fetch_ms,
          ms: context.clock.now() - start,
          ...(stale === undefined ? {} : { stale }),
        },
        'claim',
      )
      this.#parts.drafts.given(got.tier)
      pool.ensureSoon()
      return claim
    } catch (error) {
      await got.undo()
      pool.ensure()
      throw error
    }
  }

  async #get(
    project: Project,
    pool: Pool,
    owner: ClientInstance,
    request: ClaimRequest,
    signal: AbortSignal,
  ): Promise<Got> {
    const exclude = new Set(request.exclude)
    if (request.interactive && !request.skip_warm) {
      const draft = this.#parts.drafts.own(project, owner, request.settings, exclude)
      if (draft) {
        const look = this.#look(project, request, signal)
        return { tier: draft, how: 'draft', look, undo: async () => this.#parts.drafts.given(draft) }
      }
    }
    if (!request.skip_warm && request.settings.kernel === undefined) {
      const pooled = pool.take(exclude)
      if (pooled) return this.#own(project, pool, pooled, 'warm', owner, request, signal)
      const joined = await this.#parts.context.steps.wait('join', () => pool.join(signal))
      if (joined) {
        const { state } = joined.room.record
        const how = state === 'pooled' ? 'warm' : 'joined'
        return this.#own(project, pool, joined, how, owner, request, signal)
      }
      signal.throwIfAborted()
    }
    return this.#cold(project, owner, request, signal)
  }

  /** Out of the pool and into the owner's hands, before any other wait. */
  async #own(
    project: Project,
    pool: Pool,
    tier: TierRoom,
    how: Claim['claim'],
    owner: ClientInstance,
    request: ClaimRequest,
    signal: AbortSignal,
  ): Promise<Got> {
    const undo = (): Promise<void> => this.#giveBack(pool, tier)
    const taken = this.#parts.context.steps.wait('take', () => this.#become(project, tier, owner, request))
    // Handed over; while it becomes durable the source is looked at.
    const look = this.#look(project, request, signal)
    try {
      await taken
    } catch (error) {
      await undo()
      throw error
    }
    return { tier, how, look, undo }
  }

  #look(project: Project, request: ClaimRequest, signal: AbortSignal): Look {
    const { steps } = this.#parts.context
    const fetched = this.#source(project, request, signal)
    const uncommitted = fetched.then(({ commit, left }) =>
      request.settings.include_uncommitted
        ? left.length
        : steps.wait('uncommitted', () => project.uncommitted(commit, signal)),
    )
    for (const begun of [fetched, uncommitted]) begun.catch(() => {})
    return { fetched, uncommitted }
  }

  /** A claim that came to nothing: the room goes back to where it was, or is discarded where its place is taken. */
  async #giveBack(pool: Pool, tier: TierRoom): Promise<void> {
    const { tier: rooms } = this.#parts
    // Somebody attached and worked meanwhile: it is a room now.
    if (!tier.untouched) return
    // Without a base it was being moved: its files are of no commit.
    const whole = tier.room.record.state === 'draft' && !tier.room.fault && tier.workspace.base !== null
    const place = whole ? pool.place(tier) : null
    if (place === null) {
      pool.forget(tier)
      return rooms.discard(tier, 'its claim was called off')
    }
    try {
      await rooms.backToPool(tier, place.slot)
    } catch (error) {
      pool.forget(tier)
      this.#parts.context.log.warn(
        { room: tier.id, reason: messageOf(error) },
        'a room could not go back to the pool',
      )
      // Nobody has it, and nobody would ever come for it.
      await rooms.discard(tier, 'its claim was called off')
    }
  }

  async #cold(
    project: Project,
    owner: ClientInstance,
    request: ClaimRequest,
    signal: AbortSignal,
  ): Promise<Got> {
    const { context, tier: rooms } = this.#parts
    const { steps, kernels } = context
    const wanted = request.settings.kernel
    const spec = await steps.wait('cold: kernelspec', () =>
      wanted === undefined ? projectSpec(context, project) : kernels.choose({ name: wanted }),
    )
    signal.throwIfAborted()
    const tier = await steps.wait('cold: row', () =>
      rooms.make(project, { spec, kernel_name: spec.name, slot: 'claim' }, [updateProject(project.record)]),
    )
    const undo = (): Promise<void> => rooms.discard(tier, 'its claim was called off')
    try {
      signal.throwIfAborted()
      const look = this.#look(project, request, signal)
      const { commit } = await look.fetched
      await fillWorkspace(context, tier, commit, signal)
      signal.throwIfAborted()
      await steps.wait('cold: draft', () => this.#become(project, tier, owner, request))
      return { tier, how: 'cold', look, undo }
    } catch (error) {
      await undo()
      throw error
    }
  }

  #become(project: Project, tier: TierRoom, owner: ClientInstance, request: ClaimRequest): Promise<void> {
    const { interactive, settings } = request
    const lease = this.#parts.drafts.leaseEnd()
    return this.#parts.tier.claim(tier, { owner, interactive, settings, lease }, [
      updateProject(project.record),
    ])
  }

  /** The commit to be at; with uncommitted changes when they are wanted. */
  async #source(project: Project, request: ClaimRequest, signal: AbortSignal): Promise<Start> {
    const { steps } = this.#parts.context
    const fetched = await steps.wait('fetch', () => project.fetch({ force: request.force_fetch, signal }))
    if (!request.settings.include_uncommitted) return { ...fetched, left: [] }
    const snapshot = await steps.wait('snapshot', () => project.snapshot(fetched.commit, signal))
    return { ...fetched, ...snapshot }
  }

  /** Brings it up to date, replaces a standby that was started from something else, and says how it is. */
  async #finish(project: Project, pool: Pool, got: Got, signal: AbortSignal): Promise<Claim> {
    const { context, tier: rooms, drafts } = this.#parts
    const { steps } = context
    const { tier, look } = got
    const fetched = await look.fetched
    if (got.how !== 'cold' && !(got.how === 'draft' && (await drafts.holdsWork(tier)))) {
      const { base } = tier.workspace
      const changed = await refreshWorkspace(context, tier, fetched.commit, signal)
      if (base !== tier.workspace.base) await steps.wait('save', () => rooms.save(tier))
      signal.throwIfAborted()
      if (changed.length > 0) await this.#replaceStandby(pool, tier, changed)
      else if (got.how === 'warm' && tier.standby === 'missing')
        await this.#replaceStandby(pool, tier, ['its kernel'])
    }
    // Where the cache was made anew under that look, it is had once more.
    const uncommitted = await look.uncommitted.catch(() =>
      steps.wait('uncommitted', () => project.uncommitted(fetched.commit, signal)),
    )
    const notes = await steps.wait('notes', () => presentNotes(tier))
    return {
      notebook_id: tier.id,
      project: project.summary(),
      workspace: tier.workspace.folder,
      branch: tier.workspace.branch ?? '',
      claim: got.how,
      standby: tier.standby,
      ...(fetched.stale === null ? {} : { stale: fetched.stale }),
      fetch_ms: fetched.ms,
      uncommitted,
      notes: [...notes, ...fetched.left.map(notTaken)],
    }
  }

  async #replaceStandby(pool: Pool, tier: TierRoom, changed: readonly string[]): Promise<void> {
    const { context } = this.#parts
    context.log.info({ room: tier.id, changed }, 'the standby is of no use any more: replaced')
    // Also one that is dead and of which nobody has told yet.
    await context.steps.wait('end standby', () => endKernel(tier.room, `${changed[0]} is not as it was`))
    this.#bootInBackground(pool, tier)
  }

  /** The claim does not wait for it; whoever attaches sees the kernel starting. */
  #bootInBackground(pool: Pool, tier: TierRoom): void {
    const { context } = this.#parts
    pool.boot(tier).catch((error: unknown) => {
      context.log.warn(
        { room: tier.id, reason: messageOf(error) },
        'the standby of a claimed room did not start',
      )
    })
  }
}

function notTaken(path: string): string {
  return `${path} has a repository of its own and is not in the workspace; make it a submodule, or name it as data`
}
