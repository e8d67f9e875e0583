/**
 * Drafts: rooms that were claimed and in which nothing has happened. A draft belongs to the client instance that claimed it, and is
 * leased: 15 minutes after its last peer left it goes back to the pool, or away. Files that somebody put into it, and commits, keep it from
 * being given to another; they are kept when it goes.
 */
import { messageOf } from '../../protocol/errors.ts'
import type { ClientInstance, NotebookId } from '../../protocol/ids.ts'
import type { ClaimSettings } from '../../protocol/projects.ts'
import type { ProjectsContext } from './context.ts'
import { isWithin } from './folders.ts'
import { isAsGiven } from './kept-commits.ts'
import { userFiles } from './kept-files.ts'
import type { Pool } from './pool.ts'
import type { Project } from './project.ts'
import { otherKernel } from './rooms-of-project.ts'
import type { Tier, TierRoom } from './tier.ts'
import { updateContent } from './workspace-rows.ts'

export const LEASE_MS = 15 * 60_000

export class Drafts {
  readonly #context: ProjectsContext
  readonly #tier: Tier
  readonly #poolOf: (project: Project) => Pool
  /** Cancels the end of a lease. */
  readonly #leases = new Map<NotebookId, () => void>()
  /** Rises whenever somebody comes to a draft: what was begun before because nobody was there is not gone on with. */
  readonly #turns = new WeakMap<TierRoom, number>()
  #disposed = false

  constructor(context: ProjectsContext, tier: Tier, poolOf: (project: Project) => Pool) {
    this.#context = context
    this.#tier = tier
    this.#poolOf = poolOf
  }

  leaseEnd(): number {
    return this.#context.clock.now() + LEASE_MS
  }

  /** The newest draft of this client instance in which nothing has happened and nothing was set; taken off its lease. */
  own(
    project: Project,
    owner: ClientInstance,
    settings: ClaimSettings,
    exclude: ReadonlySet<NotebookId>,
  ): TierRoom | null {
    const own = this.#tier
      .of(project.record.id)
      .filter(({ room, workspace, leaving, id }) => {
        if (leaving || exclude.has(id) || room.record.state !== 'draft' || room.fault) return false
        if (workspace.owner !== owner || !workspace.interactive || otherKernel(room)) return false
        return sameSettings(workspace.detail.settings, settings)
      })
      .sort((a, b) => b.room.record.created_at - a.room.record.created_at)
    const draft = own[0] ?? null
    if (draft) this.#endLease(draft)
    return draft
  }

  /** It was given to its owner: from now on its lease runs whenever nobody is in it. */
  given(tier: TierRoom): void {
    tier.given = true
    tier.letGo()
    this.peersChanged(tier)
  }

  peersChanged(tier: TierRoom): void {
    if (tier.room.record.state !== 'draft' || tier.leaving || tier.room.peers.size > 0) {
      this.#endLease(tier)
      return
    }
    if (this.#leases.has(tier.id)) return
    const until = this.leaseEnd()
    tier.workspace.leaseUntil = until
    this.#leases.set(
      tier.id,
      this.#context.clock.after(LEASE_MS, () => {
        this.#leases.delete(tier.id)
        this.expire(tier)
          .catch((error: unknown) => {
            this.#context.log.warn(
              { room: tier.id, reason: messageOf(error) },
              'a draft could not be taken back',
            )
          })
          // Whatever it stayed for: another lease runs while nobody is in it.
          .then(() => {
            if (!this.#disposed) this.peersChanged(tier)
          })
      }),
    )
    // Told to the store for who reads it; what counts is the timer, and drafts do not survive the process.
    this.#context.store.write([updateContent(tier.workspace)]).catch((error: unknown) => {
      this.#context.log.warn({ room: tier.id, reason: messageOf(error) }, 'a lease was not written')
    })
  }

  graduated(notebookId: NotebookId): void {
    this.#cancelLease(notebookId)
  }

  /** Its workspace is not as it was given: something lies in it that is not the project's, was taken away, or was committed. */
  async holdsWork({ workspace }: TierRoom): Promise<boolean> {
    if ((await userFiles(workspace.folder)).length > 0) return true
    return !(await isAsGiven(this.#context, workspace))
  }

  /** The lease is over: back to the pool where there is room and it is as it was, else away. Does nothing when somebody came. */
  async expire(tier: TierRoom): Promise<void> {
    const { steps } = this.#context
    if (!this.#abandoned(tier)) return
    const turn = this.#turn(tier)
    /** Its owner may have claimed it again while we looked, or been in it. */
    const still = (): boolean => this.#turn(tier) === turn && this.#abandoned(tier)
    const reusable = await steps.wait('expire: look', () => this.#reusable(tier))
    await steps.wait('expire: leave', async () => {
      if (still()) await this.#leave(tier, reusable)
    })
  }

  /** Where it goes is settled before the first wait: nobody can come to it in between. */
  async #leave(tier: TierRoom, reusable: boolean): Promise<void> {
    const { project } = tier
    const pool = project && reusable ? this.#poolOf(project) : null
    const place = pool?.place(tier) ?? null
    if (place === null) return this.#tier.discard(tier, 'nobody was in it for 15 minutes')
    try {
      await this.#tier.backToPool(tier, place.slot)
    } catch (error) {
      pool?.forget(tier)
      this.#context.log.warn(
        { room: tier.id, reason: messageOf(error) },
        'a draft could not go back to the pool',
      )
      // No lease runs any more: it would wait for nobody.
      await this.#tier.discard(tier, 'nobody was in it for 15 minutes')
    }
  }

  dispose(): void {
    this.#disposed = true
    for (const cancel of this.#leases.values()) cancel()
    this.#leases.clear()
  }

  #endLease(tier: TierRoom): void {
    this.#turns.set(tier, this.#turn(tier) + 1)
    this.#cancelLease(tier.id)
  }

  #cancelLease(notebookId: NotebookId): void {
    this.#leases.get(notebookId)?.()
    this.#leases.delete(notebookId)
  }

  #turn(tier: TierRoom): number {
    return this.#turns.get(tier) ?? 0
  }

  #abandoned(tier: TierRoom): boolean {
    const { room, leaving } = tier
    if (leaving || room.record.state !== 'draft' || room.peers.size > 0 || room.pending || room.fault)
      return false
    return !this.#isUsed(tier.workspace.folder)
  }

  /** A notebook that lies in the workspace is open: it would lose its folder under its kernel. */
  #isUsed(folder: string): boolean {
    for (const { record, unused } of this.#context.rooms().resident.values())
      if (record.path !== null && isWithin(folder, record.path) && !unused) return true
    return false
  }

  async #reusable(tier: TierRoom): Promise<boolean> {
    const { settings } = tier.workspace.detail
    const plain = settings.kernel === undefined && !settings.include_uncommitted && !otherKernel(tier.room)
    return plain && tier.workspace.base !== null && !(await this.holdsWork(tier))
  }
}

function sameSettings(a: ClaimSettings, b: ClaimSettings): boolean {
  return a.kernel === b.kernel && (a.include_uncommitted ?? false) === (b.include_uncommitted ?? false)
}
