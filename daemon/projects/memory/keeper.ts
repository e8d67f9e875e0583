/**
 * Keeps kernels within the memory budget. Every half minute, and when asked, it looks once at all kernels; over the line it ends what
 * costs least (ladder.ts), asking each again immediately before. One look is acted upon once; a second pass does not begin while the
 * first still ends kernels.
 *
 * Also knows how much a standby of each kind takes, as measured, so that none is started only to be ended.
 */
import { messageOf } from '../../../protocol/errors.ts'
import type { NotebookId } from '../../../protocol/ids.ts'
import type { Room } from '../../rooms/room.ts'
import type { ProjectsContext } from '../context.ts'
import type { Headroom } from '../gates.ts'
import { isWaiting } from '../rooms-of-project.ts'
import type { Tier } from '../tier.ts'
import { type Candidate, chooseLosses, type Loss, mayEnd, type Rung } from './ladder.ts'
import { budgetOf, type KernelProcess, measure, type Snapshot } from './measure.ts'

export const LOOK_MS = 30_000
/** A kernel that was just ended or begun makes a look untrue: standbys of unknown size are taken for this big. */
const UNKNOWN_BYTES = 64 * 1024 * 1024
const GRACE_MS = 1_000

export interface KeeperOptions {
  readonly context: ProjectsContext
  readonly tier: Tier
  /** The machine's measurements; replaced in tests of the ladder. */
  readonly look?: (kernels: readonly KernelProcess[]) => Promise<Snapshot>
  readonly budget?: number
  /** Kind of a standby: its project, or its kernelspec. */
  kindOf(notebookId: NotebookId): string | null
  /** A standby was ended: it may come back when there is room. */
  standbyEnded(notebookId: NotebookId): void
}

export class MemoryKeeper implements Headroom {
  readonly budget: number
  readonly #options: KeeperOptions
  readonly #look: (kernels: readonly KernelProcess[]) => Promise<Snapshot>
  readonly #sizes = new Map<string, number>()
  #latest: Snapshot | null = null
  #pass: Promise<Loss[]> | null = null
  #cancel: () => void = () => {}
  #disposed = false

  constructor(options: KeeperOptions) {
    this.#options = options
    this.#look = options.look ?? measure
    this.budget = options.budget ?? budgetOf(options.context.settings.memory)
    this.#schedule()
  }

  /** Bytes at the last look; null: none yet. */
  get used(): number | null {
    return this.#latest?.total ?? null
  }

  full(): boolean {
    return this.#latest !== null && this.#latest.total >= this.budget
  }

  fits(kind: string): boolean {
    if (this.#latest === null) return true
    return this.#latest.total + this.#unmeasured(this.#latest) + this.#sizeOf(kind) < this.budget
  }

  /** Looks, and ends what must be. Concurrent calls are one. Returns what was ended. */
  pass(): Promise<Loss[]> {
    this.#pass ??= this.#run().finally(() => {
      this.#pass = null
    })
    return this.#pass
  }

  dispose(): void {
    this.#disposed = true
    this.#cancel()
  }

  async #run(): Promise<Loss[]> {
    const rooms = this.#rooms()
    const snapshot = await this.#look(
      rooms.flatMap((room) => {
        const process = room.presentKernel?.process
        return process ? [{ notebookId: room.id, process }] : []
      }),
    )
    this.#latest = snapshot
    this.#learn(snapshot)
    if (snapshot.total <= this.budget) return []
    const candidates = this.#rooms().map((room) => this.#candidate(room))
    const ended: Loss[] = []
    for (const loss of chooseLosses(candidates, snapshot, this.budget)) {
      const room = this.#rooms().find((each) => each.id === loss.notebookId)
      if (!room || this.#disposed) continue
      // Asked again: somebody may have come, or begun something, while the one before was ended.
      const now = this.#candidate(room)
      if (now.rung !== loss.rung || !mayEnd(now)) continue
      try {
        if (await this.#end(room, loss)) ended.push(loss)
      } catch (error) {
        this.#options.context.log.warn(
          { room: room.id, reason: messageOf(error) },
          'a kernel could not be ended for its memory',
        )
        break
      }
    }
    if (ended.length > 0) {
      const freed = ended.reduce((sum, { bytes }) => sum + bytes, 0)
      const gone = new Set(ended.map(({ notebookId }) => notebookId))
      this.#latest = {
        kernels: snapshot.kernels.filter(({ notebookId }) => !gone.has(notebookId)),
        total: snapshot.total - freed,
      }
    }
    return ended
  }

  /** false: somebody came to it in the last moment. */
  async #end(room: Room, { rung, bytes }: Loss): Promise<boolean> {
    const { context, standbyEnded } = this.#options
    const reason = `its kernel was ended because kernels used more than ${mebibytes(this.budget)} MiB of memory together`
    context.log.warn({ room: room.id, rung, bytes, budget: this.budget }, reason)
    if (rung === 'variables')
      await room.terms.evict(
        `${reason}: its variables are gone, its outputs are kept; the next cell starts a fresh kernel`,
      )
    else if (rung === 'clean') await room.terms.evict(null)
    if (!mayEnd(this.#candidate(room))) {
      room.terms.stays()
      return false
    }
    await room.slot.end('shutdown', reason, GRACE_MS)
    if (rung === 'standby') standbyEnded(room.id)
    return true
  }

  #candidate(room: Room): Candidate {
    return {
      notebookId: room.id,
      rung: this.#rung(room),
      idleSince: Math.max(room.idleSince, room.presentKernel?.summary().started_at ?? 0),
      pinned: room.record.keep_alive_ms === -1,
      viewed: room.peers.size > 0,
      busy: !room.executions.idle || room.pending || room.fault !== null,
    }
  }

  #rung(room: Room): Rung {
    if (isWaiting(room.record)) return 'standby'
    if (room.record.state === 'draft') return 'draft'
    return room.terms.used ? 'variables' : 'clean'
  }

  /** Expected bytes of kernels that have started since that look, or are starting now: the next look will find them. */
  #unmeasured({ kernels }: Snapshot): number {
    const measured = new Set(kernels.map(({ notebookId }) => notebookId))
    let bytes = 0
    for (const { id, presentKernel, slot } of this.#options.context.rooms().resident.values()) {
      if (measured.has(id) || (presentKernel === null && slot.runtime !== 'launching')) continue
      bytes += this.#sizeOf(this.#options.kindOf(id))
    }
    return bytes
  }

  #sizeOf(kind: string | null): number {
    return (kind === null ? undefined : this.#sizes.get(kind)) ?? UNKNOWN_BYTES
  }

  #rooms(): Room[] {
    return [...this.#options.context.rooms().resident.values()].filter((room) => room.presentKernel !== null)
  }

  #learn(snapshot: Snapshot): void {
    for (const { notebookId, bytes } of snapshot.kernels) {
      const tier = this.#options.tier.get(notebookId)
      const kind = this.#options.kindOf(notebookId)
      if (bytes === null || kind === null || !tier || !isWaiting(tier.room.record)) continue
      const before = this.#sizes.get(kind)
      this.#sizes.set(kind, before === undefined ? bytes : Math.round((before * 3 + bytes) / 4))
    }
  }

  #schedule(): void {
    this.#cancel = this.#options.context.clock.after(LOOK_MS, () => {
      this.pass()
        .catch((error: unknown) =>
          this.#options.context.log.warn({ reason: messageOf(error) }, 'memory could not be looked at'),
        )
        .finally(() => {
          if (!this.#disposed) this.#schedule()
        })
    })
  }
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / (1024 * 1024))
}
