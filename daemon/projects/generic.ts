/**
 * Kernels ready for any new notebook: one hidden room for each kernelspec that was used in the last 24 hours and that can be told where
 * it is (its working directory is changed when somebody takes it). Nothing of any project is in them. None at a gateway: there it would
 * cost somebody's cluster a kernel that nobody asked for, and folders of this machine mean nothing.
 */

import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../../protocol/errors.ts'
import { NotebookId } from '../../protocol/ids.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import { isAtGateway } from '../kernels/gateways.ts'
import type { Room } from '../rooms/room.ts'
import { step } from '../rooms/room-state.ts'
import type { Statement } from '../store/store.ts'
import { Backoff } from './backoff.ts'
import type { ProjectsContext } from './context.ts'
import { programMark } from './fingerprint.ts'
import { removeFolder } from './folders.ts'
import type { Gates } from './gates.ts'
import { silently } from './preload.ts'
import type { Tier, TierRoom } from './tier.ts'
import { updateWorkspace } from './workspace-rows.ts'

/** A kernelspec that was used within so long is kept ready. */
export const USED_MS = 24 * 3_600_000

/** By language: code that changes a kernel's working directory to the JSON text given. */
const moves: Readonly<Record<string, (folder: string) => string>> = {
  // `_dh` is IPython's list of folders that `%cd -` and `_dh[0]` go by.
  python: (folder) =>
    `import os as _o; _o.chdir(${folder}); _o.environ['PWD'] = ${folder}; globals().get('_dh', [])[:] = [${folder}]; del _o`,
  javascript: (folder) => `process.chdir(${folder}); process.env.PWD = ${folder}; undefined`,
  r: (folder) => `invisible(setwd(${folder})); Sys.setenv(PWD = ${folder})`,
}

export interface GenericParts {
  readonly context: ProjectsContext
  readonly tier: Tier
  readonly gates: Gates
}

export class GenericPool {
  readonly #parts: GenericParts
  readonly #rooms = new Map<string, TierRoom>()
  /** What each was started from. */
  readonly #marks = new WeakMap<TierRoom, string>()
  readonly #flights = new Map<string, Promise<void>>()
  readonly #backoffs = new Map<string, Backoff>()
  readonly #retries = new Map<string, () => void>()
  /** Kernelspecs used in this process; epoch ms. */
  readonly #used = new Map<string, number>()
  #stopped = false

  constructor(parts: GenericParts) {
    this.#parts = parts
  }

  get rooms(): TierRoom[] {
    return [...this.#rooms.values()]
  }

  /** A kernel of this kind was started for somebody: the next one is kept ready, when the machine is less busy with this one. */
  used(name: string): void {
    this.#used.set(name, this.#parts.context.clock.now())
    if (this.#enabled && !isAtGateway(name) && !this.#rooms.has(name)) this.#retryLater(name, SETTLE_MS)
  }

  /** At the start: what was used lately, by the store. */
  async recall(): Promise<void> {
    const { context } = this.#parts
    if (!this.#enabled) return
    const since = context.clock.now() - USED_MS
    const used = context.store.all<{ name: string; at: number }>(
      'SELECT name, used_at AS at FROM kernel_use WHERE used_at > ?',
      since,
    )
    for (const { name, at } of used) this.#used.set(name, Math.max(at, this.#used.get(name) ?? 0))
    await Promise.all([...this.#used.keys()].map((name) => this.ensure(name)))
  }

  /** Keeps one ready if the kernelspec was used lately and none is or is being made. Resolves when that is settled; never rejects. */
  ensure(name: string): Promise<void> {
    const flying = this.#flights.get(name)
    if (flying) return flying
    if (!this.#wanted(name)) return Promise.resolve()
    const backoff = this.#backoff(name)
    if (backoff.waitMs > 0) {
      this.#retryLater(name, backoff.waitMs)
      return Promise.resolve()
    }
    const flight = this.#make(name)
      .then(
        () => backoff.worked(),
        (error: unknown) => {
          if (this.#stopped) return
          const pause = backoff.failed(messageOf(error))
          this.#parts.context.log.warn({ kernel: name, reason: messageOf(error) }, 'no kernel is kept ready')
          this.#retryLater(name, pause)
        },
      )
      .finally(() => this.#flights.delete(name))
    this.#flights.set(name, flight)
    return flight
  }

  /** A room whose kernel runs and was started from what the kernelspec says now, taken out; null: none is ready. */
  async take(spec: KernelSpecSummary): Promise<TierRoom | null> {
    if (!this.#ready(spec.name)) return null
    const mark = await this.#mark(spec)
    // Looked at again, and taken at once: another may have come meanwhile.
    const tier = this.#ready(spec.name)
    if (!tier) return null
    this.#rooms.delete(spec.name)
    if (this.#marks.get(tier) === mark) return tier
    void this.discard(tier, 'its kernelspec is not as it was').then(() => this.ensure(spec.name))
    return null
  }

  #ready(name: string): TierRoom | null {
    const tier = this.#rooms.get(name)
    return tier && !tier.leaving && tier.standby === 'ready' && tier.room.record.state === 'pooled'
      ? tier
      : null
  }

  /** The kernelspec's own file and the program it names: a kernel that was started from others is not what is asked for. */
  async #mark(spec: KernelSpecSummary): Promise<string> {
    const program = await this.#parts.context.kernels.program(spec.name)
    return `${programMark(spec.path)}\n${programMark(program)}`
  }

  /** Rows and memory of its way out of the pool: pooled → draft → active, as part of the caller's transaction. */
  leave(tier: TierRoom): Statement[] {
    const { workspace, room } = tier
    workspace.slot = null
    return [
      updateWorkspace(workspace),
      step(room.record, 'draft'),
      step(room.record, 'active'),
      { sql: 'DELETE FROM workspaces WHERE notebook_id = ?', values: [room.id] },
    ]
  }

  /** Whether kernels of this language can be told where they are. */
  canMove(language: string): boolean {
    return moves[language.toLowerCase()] !== undefined
  }

  /** Rejects when the kernel did not do it. */
  async move(room: Room, folder: string): Promise<void> {
    const kernel = room.presentKernel
    const code = kernel && moves[kernel.language.toLowerCase()]?.(JSON.stringify(folder))
    if (!kernel || !code) throw new Error('this kernel cannot be told where it is')
    const reply = await silently(kernel, code, {}, AbortSignal.timeout(MOVE_MS))
    if (reply.status !== 'ok')
      throw new Error(`the kernel could not change to ${folder}: ${String(reply.evalue)}`)
  }

  /** A standby was ended for its memory, or died. */
  async lost(tier: TierRoom, reason: string): Promise<void> {
    for (const [name, each] of this.#rooms) if (each === tier) this.#rooms.delete(name)
    await this.discard(tier, reason)
  }

  async discard(tier: TierRoom, reason: string): Promise<void> {
    await this.#parts.tier.discard(tier, reason).catch((error: unknown) => {
      this.#parts.context.log.warn(
        { room: tier.id, reason: messageOf(error) },
        'a room could not be discarded',
      )
    })
  }

  /** Looks at what is kept: dead ones and those of kernelspecs that nobody uses any more go, missing ones come. */
  async sweep(): Promise<void> {
    const kept = new Set(this.#rooms.values())
    // One that somebody was about to take, and that could not be discarded when that failed.
    for (const tier of this.#parts.tier.all())
      if (tier.project === null && tier.leaving && !kept.has(tier)) await this.discard(tier, 'nobody has it')
    for (const [name, tier] of [...this.#rooms]) {
      if (!this.#wanted(name)) await this.lost(tier, 'its kernelspec was not used for a day')
      else if (tier.room.record.state === 'pooled' && tier.standby === 'missing')
        await this.lost(tier, 'its kernel has died')
    }
    await Promise.all([...this.#used.keys()].map((name) => this.ensure(name)))
  }

  stop(): void {
    this.#stopped = true
    for (const cancel of this.#retries.values()) cancel()
    this.#retries.clear()
  }

  async settled(): Promise<void> {
    await Promise.all(this.#flights.values())
  }

  get #enabled(): boolean {
    const { settings } = this.#parts.context
    return settings.enabled && settings.generic && !this.#stopped
  }

  #wanted(name: string): boolean {
    const at = this.#used.get(name)
    return (
      this.#enabled &&
      !isAtGateway(name) &&
      at !== undefined &&
      this.#parts.context.clock.now() - at < USED_MS
    )
  }

  async #make(name: string): Promise<void> {
    if (this.#rooms.has(name)) return
    const { context, tier: rooms, gates } = this.#parts
    const spec = await context.kernels.choose({ name })
    if (spec.name !== name || !this.canMove(spec.language) || gates.full()) return
    const mark = await this.#mark(spec)
    const id = NotebookId.parse(randomUUID())
    const folder = join(context.places.scratch, id)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    let tier: TierRoom
    try {
      tier = await rooms.makeGeneric(spec, `generic/${name}`, folder, id)
    } catch (error) {
      await removeFolder(folder)
      throw error
    }
    this.#marks.set(tier, mark)
    this.#rooms.set(name, tier)
    try {
      const closed = await gates.bootGeneric(`kernelspec ${name}`, tier)
      if (closed !== null) throw new Error(closed)
      await rooms.enterPool(tier)
    } catch (error) {
      if (this.#rooms.get(name) === tier) this.#rooms.delete(name)
      await this.discard(tier, messageOf(error))
      throw error
    }
  }

  #backoff(name: string): Backoff {
    const known = this.#backoffs.get(name)
    if (known) return known
    const made = new Backoff(this.#parts.context.clock)
    this.#backoffs.set(name, made)
    return made
  }

  #retryLater(name: string, ms: number): void {
    this.#retries.get(name)?.()
    this.#retries.set(
      name,
      this.#parts.context.clock.after(ms, () => void this.ensure(name)),
    )
  }
}

/** After a start for somebody, before one ahead of need. */
export const SETTLE_MS = 3_000
/** A kernel that is idle changes its folder in milliseconds. */
const MOVE_MS = 5_000
