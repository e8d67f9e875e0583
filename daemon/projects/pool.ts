/**
 * The warm rooms of one project: at most one in each slot, one being made at a time. A warming is one flight that claims may join: what
 * it makes is theirs as soon as the workspace is complete, while its kernel goes on booting. Failures back off, and say why.
 *
 * There is no way to ask for a room without a standby: where none may be started (gates), the room waits in the pool without one.
 */
import { messageOf } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { PoolProject, PoolSlot } from '../../protocol/projects.ts'
import type { ProjectsContext } from './context.ts'
import type { Gates } from './gates.ts'
import type { Project } from './project.ts'
import { fillWorkspace, projectSpec } from './rooms-of-project.ts'
import type { Tier, TierRoom } from './tier.ts'

interface Warming {
  readonly slot: number
  readonly calling: AbortController
  tier: TierRoom | null
  /** The room once its workspace is complete; null: it came to nothing. */
  readonly ready: Promise<TierRoom | null>
  /** When it is over, however it ended. */
  readonly over: Promise<void>
}

export class Pool {
  readonly #context: ProjectsContext
  readonly #project: Project
  readonly #tier: Tier
  readonly #gates: Gates
  readonly #slots = new Map<number, TierRoom>()
  #flight: Warming | null = null
  #cancelRetry: (() => void) | null = null
  /** Set while the next warming waits for the room that was just claimed. */
  #cancelPause: (() => void) | null = null
  #stopped = false

  constructor(context: ProjectsContext, project: Project, tier: Tier, gates: Gates) {
    this.#context = context
    this.#project = project
    this.#tier = tier
    this.#gates = gates
  }

  /** Rooms that can be claimed at once. */
  get pooled(): TierRoom[] {
    return [...this.#slots.values()].filter((tier) => tier.room.record.state === 'pooled' && !tier.leaving)
  }

  get rooms(): TierRoom[] {
    return [...this.#slots.values()]
  }

  get warming(): boolean {
    return this.#flight !== null
  }

  /** Resolves when no warming is under way. */
  async settled(): Promise<void> {
    while (this.#flight) await this.#flight.over
  }

  /**
   * Begins to fill the first empty slot, if the project wants it and none is being filled. A slot counts as filled as soon as its room's
   * row is there, so that a burst of calls makes one room.
   */
  ensure(): void {
    this.#endPause()
    const { settings } = this.#context
    const { record, backoff } = this.#project
    if (
      this.#flight ||
      this.#stopped ||
      this.#project.removed ||
      !settings.enabled ||
      record.status !== 'ready'
    )
      return
    const slot = this.#emptySlot()
    if (slot === null || this.#gates.full()) return
    const wait = backoff.waitMs
    this.#cancelRetry?.()
    this.#cancelRetry = null
    if (wait > 0) {
      this.#cancelRetry = this.#context.clock.after(wait, () => this.ensure())
      return
    }
    this.#flight = this.#begin(slot)
  }

  /**
   * As `ensure`, after a moment: a clone and a kernel's start right behind a claim take the machine from the very room that somebody
   * begins to work in. Whoever finds the pool empty meanwhile does not wait for the moment to pass.
   */
  ensureSoon(): void {
    const { clock, rewarmPauseMs } = this.#context
    if (rewarmPauseMs === 0) this.ensure()
    else this.#cancelPause ??= clock.after(rewarmPauseMs, () => this.ensure())
  }

  /** Takes a pooled room out, in memory, at once: nobody else can get it. */
  take(exclude: ReadonlySet<NotebookId>): TierRoom | null {
    for (const [slot, tier] of this.#slots) {
      if (tier.room.record.state !== 'pooled' || tier.leaving || exclude.has(tier.id)) continue
      this.#slots.delete(slot)
      return tier
    }
    return null
  }

  /** Waits for the room that is being made and takes it; null: none is, or it came to nothing. */
  async join(signal: AbortSignal): Promise<TierRoom | null> {
    if (this.#cancelPause) this.ensure()
    const flight = this.#flight
    if (!flight) return null
    const tier = await unlessAborted(flight.ready, signal)
    // Somebody else may have it by now, or it entered the pool: both are known without another wait.
    if (tier === null || this.#slots.get(flight.slot) !== tier || tier.leaving || !tier.untouched) return null
    this.#slots.delete(flight.slot)
    if (this.#flight === flight) this.#flight = null
    return tier
  }

  /** The name of an empty slot for a room that comes back; null: none is empty. */
  place(tier: TierRoom): { slot: string; number: number } | null {
    if (this.#stopped || this.#project.removed) return null
    const number = this.#emptySlot()
    if (number === null) return null
    this.#slots.set(number, tier)
    return { slot: this.#name(number), number }
  }

  /** A room that is no longer of the pool. */
  forget(tier: TierRoom): void {
    for (const [slot, each] of this.#slots) if (each === tier) this.#slots.delete(slot)
  }

  /** Starts the standby of a room that has none, if the gates let it. Rejects with why the start failed. */
  async boot(tier: TierRoom): Promise<void> {
    const closed = await this.#gates.boot(this.#project, tier)
    if (closed !== null)
      this.#context.log.info({ room: tier.id, project: this.#project.record.name, closed }, 'no standby')
  }

  status(): PoolProject {
    const { record, backoff, settings, path } = this.#project
    const slots: PoolSlot[] = this.rooms.map((tier) => {
      const { pid } = tier
      return {
        state: tier.room.record.state === 'pooled' ? 'pooled' : 'warming',
        notebook_id: tier.id,
        standby: tier.standby,
        ...(pid === null ? {} : { pid }),
      }
    })
    const reason = record.reason ?? backoff.reason ?? this.#gates.whyClosed(this.#project)
    return {
      project: record.id,
      name: record.name,
      path,
      status: record.status,
      ...(reason === null ? {} : { reason }),
      trusted: record.trusted,
      depth: settings.depth,
      slots,
      warming: this.warming,
      ...(backoff.waitMs > 0 ? { retry_in_ms: backoff.waitMs } : {}),
    }
  }

  /** Discards all rooms and makes no more. */
  async close(reason: string): Promise<void> {
    this.stop()
    const flight = this.#flight
    flight?.calling.abort(new Error(reason))
    await flight?.over
    await Promise.all(this.rooms.map((tier) => this.#tier.discard(tier, reason)))
    this.#slots.clear()
  }

  /** Discards what waits and fills up again: something that all of it was made from has changed. */
  async renew(reason: string): Promise<void> {
    const flight = this.#flight
    flight?.calling.abort(new Error(reason))
    await flight?.over
    const old = this.rooms
    this.#slots.clear()
    await Promise.all(old.map((tier) => this.#tier.discard(tier, reason)))
    this.#project.backoff.worked()
    this.ensure()
  }

  stop(): void {
    this.#stopped = true
    this.#cancelRetry?.()
    this.#endPause()
  }

  #endPause(): void {
    this.#cancelPause?.()
    this.#cancelPause = null
  }

  /**
   * A slot is not empty either while it is being filled (its row may not be there yet), or while the room that was taken out of it has
   * it in the store: the store has no place for two.
   */
  #emptySlot(): number | null {
    const held = new Set(this.#tier.of(this.#project.record.id).map(({ workspace }) => workspace.slot))
    for (let slot = 0; slot < this.#project.settings.depth; slot++)
      if (!this.#slots.has(slot) && slot !== this.#flight?.slot && !held.has(this.#name(slot))) return slot
    return null
  }

  #name(slot: number): string {
    return `${this.#project.record.id}/${slot}`
  }

  #begin(slot: number): Warming {
    const calling = new AbortController()
    let tell: (tier: TierRoom | null) => void = () => {}
    const ready = new Promise<TierRoom | null>((resolve) => {
      tell = resolve
    })
    const warming: { tier: TierRoom | null } = { tier: null }
    const over = this.#warm(slot, calling.signal, (tier) => {
      warming.tier = tier
      tell(tier)
    })
      .then(
        () => this.#project.backoff.worked(),
        (error: unknown) => this.#failed(error, calling.signal),
      )
      .finally(() => {
        tell(null)
        if (this.#flight?.calling === calling) this.#flight = null
        this.ensure()
      })
    return Object.assign(warming, { slot, calling, ready, over })
  }

  async #warm(slot: number, signal: AbortSignal, complete: (tier: TierRoom) => void): Promise<void> {
    const { steps, clock } = this.#context
    const project = this.#project
    const spec = await steps.wait('warm: kernelspec', () => projectSpec(this.#context, project))
    signal.throwIfAborted()
    const tier = await steps.wait('warm: row', () =>
      this.#tier.make(project, { spec, kernel_name: spec.name, slot: this.#name(slot) }),
    )
    this.#slots.set(slot, tier)
    const start = clock.now()
    try {
      signal.throwIfAborted()
      const { commit } = await steps.wait('warm: fetch', () => project.fetch({ whole: true, signal }))
      await fillWorkspace(this.#context, tier, commit, signal)
      await steps.wait('warm: save', () => this.#tier.save(tier))
      signal.throwIfAborted()
      complete(tier)
      await steps.wait('warm: boot', () => this.boot(tier))
      signal.throwIfAborted()
    } catch (error) {
      if (this.#slots.get(slot) === tier) {
        this.#slots.delete(slot)
        await this.#tier.discard(tier, messageOf(error))
      }
      throw error
    }
    const entered = await steps.wait('warm: pool', async () => {
      // Somebody joined: it is theirs.
      if (this.#slots.get(slot) !== tier || tier.room.record.state !== 'warming') return false
      await this.#tier.enterPool(tier)
      return true
    })
    if (!entered) return
    this.#context.log.info(
      { room: tier.id, project: project.record.name, standby: tier.standby, ms: clock.now() - start },
      'warm',
    )
    this.#context.tell({ type: 'project_warm_ready', project: project.record.id, notebook_id: tier.id })
  }

  #failed(error: unknown, signal: AbortSignal): void {
    if (signal.aborted || this.#stopped) return
    const reason = messageOf(error)
    const retry_in_ms = this.#project.backoff.failed(reason)
    this.#context.log.warn({ project: this.#project.record.name, reason, retry_in_ms }, 'warming failed')
    this.#context.tell({ type: 'project_warm_failed', project: this.#project.record.id, reason, retry_in_ms })
  }
}

/** The promise, or the signal's reason. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
