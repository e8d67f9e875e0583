/**
 * On which terms a room has a kernel: which one, how long it is kept idle, whether one may start at all, and what was lost with the last.
 * All of it is in the room's row (`updateKernelLife`), so that the next daemon holds to it too. The process is the slot's.
 */
import type { Kernel, StartRequest } from '../kernels/kernel.ts'
import { archivedRoom } from './gone.ts'
import { DEFAULT_KEEP_ALIVE_MS } from './kernel-slot.ts'
import { kernelOfMetadata } from './kernel-wish.ts'
import { breakerOpen, withDeath } from './memory-breaker.ts'
import type { Room } from './room.ts'
import { updateKernelLife } from './room-record.ts'
import { step } from './room-state.ts'

const KERNEL_STAYED = 'the kernel that was to be ended for its memory is there: nothing was lost with it'

export class KernelTerms {
  readonly #room: Room

  constructor(room: Room) {
    this.#room = room
  }

  // --- starting ------------------------------------------------------------------------------------------------------

  /**
   * Before anything is queued for a kernel that is yet to be started: throws `kernel_not_found` while it costs nothing, since a
   * queued execution already takes the place of what its cell showed.
   */
  async mustHaveKernelspec(): Promise<void> {
    const { record, slot, surroundings } = this.#room
    this.#mustHaveWorkspace()
    surroundings.context.hooks?.mayStart(record)
    if (slot.runtime === 'ready' || slot.runtime === 'launching') return
    this.mustNotHaveTripped()
    await surroundings.context.kernels.choose(this.#wanted(undefined))
  }

  /** Throws `kernel_start_failed` while kernels of this room are not started because they ran out of memory. */
  mustNotHaveTripped(): void {
    const { memory_deaths } = this.#room.record
    if (memory_deaths?.tripped) throw breakerOpen(memory_deaths)
  }

  /** What the next kernel is started with. `name`: the kernelspec that is asked for now. Throws what forbids it. */
  async startRequest(name: string | undefined, signal: AbortSignal): Promise<StartRequest> {
    const room = this.#room
    const { kernels, hooks } = room.surroundings.context
    this.#mustHaveWorkspace()
    this.mustNotHaveTripped()
    const chosen = await kernels.choose(this.#wanted(name))
    const own = await hooks?.starting(room, chosen.name, signal)
    return {
      ...own,
      notebookId: room.id,
      name: chosen.name,
      cwd: room.record.working_dir,
      orphanGraceMs: this.keepAliveMs,
    }
  }

  /** A kernel is there: a room that was evicted is active again, and hears what is not as it was. */
  started({ id, name }: Kernel): void {
    const { record } = this.#room
    const { lost } = record
    if (record.launched_kernel === name && lost === null) return
    record.launched_kernel = name
    record.lost = null
    let notice: string | null = null
    // The very one that was to go: its daemon died before it could end it.
    if (lost && lost.text !== null)
      notice = lost.kernel_id === id ? KERNEL_STAYED : `a fresh kernel: ${lost.text}`
    const steps = record.state === 'evicted' ? [step(record, 'active')] : []
    // A failure breaks the line, and the rebuild goes on from what the store has.
    this.#room
      .commit({
        statements: [...steps, updateKernelLife(record)],
        ...(notice === null ? {} : { events: [{ type: 'notice', text: notice }] }),
      })
      .catch(() => {})
  }

  // --- what a person says --------------------------------------------------------------------------------------------

  /** The kernelspec of the next start; durable. */
  choose(name: string): Promise<void> {
    this.#room.record.kernel_name = name
    return this.#store()
  }

  /** Kernels are started again, whatever they ran out of. Durable. */
  async resetBreaker(): Promise<void> {
    const { record } = this.#room
    if (record.memory_deaths === null) return
    record.memory_deaths = null
    await this.#store()
  }

  /** How long (ms) the idle kernel is kept; null: the default; -1: pinned. Durable; holds for the kernel that runs too. */
  async keep(keepAliveMs: number | null): Promise<void> {
    const { record, slot } = this.#room
    record.keep_alive_ms = keepAliveMs
    await this.#store()
    slot.present?.keepFor(this.keepAliveMs)
    slot.consider()
  }

  /** Ms; null: pinned. */
  get keepAliveMs(): number | null {
    const own = this.#room.record.keep_alive_ms
    return own === -1 ? null : (own ?? DEFAULT_KEEP_ALIVE_MS)
  }

  // --- memory --------------------------------------------------------------------------------------------------------

  /** A cell or other code of a user ran in the present kernel: it may hold variables. */
  get used(): boolean {
    const { slot, store, id } = this.#room
    const kernel = slot.present
    if (!kernel) return false
    const row = store.get(
      'SELECT 1 FROM executions WHERE notebook_id = ? AND kernel_id = ? LIMIT 1',
      id,
      kernel.id,
    )
    return row !== undefined
  }

  /** The kernel ran out of memory. `what`: in words. Returns what to add to them. */
  ranOutOfMemory(what: string): string {
    const room = this.#room
    const deaths = withDeath(room.record.memory_deaths, room.now(), what)
    room.record.memory_deaths = deaths
    // A failure breaks the line, and the rebuild goes on from what the store has.
    this.#store().catch(() => {})
    return deaths.tripped ? `. ${breakerOpen(deaths).message}` : ''
  }

  /**
   * Durable, before the kernel is ended although nobody asked for that: until the next one starts the room is `evicted`. `loss`: what
   * goes with it, told to peers now, and again when the next kernel starts, whatever daemon that is; null: nothing.
   */
  async evict(loss: string | null): Promise<void> {
    const { record, presentKernel } = this.#room
    if (!presentKernel) return
    record.lost = { kernel_id: presentKernel.id, text: loss }
    const steps = record.state === 'active' ? [step(record, 'evicted')] : []
    await this.#room.commit({
      statements: [...steps, updateKernelLife(record)],
      ...(loss === null ? {} : { events: [{ type: 'notice', text: loss }] }),
    })
  }

  /** After `evict`: the kernel is not ended after all. */
  stays(): void {
    const { presentKernel, fault } = this.#room
    if (presentKernel && !fault) this.started(presentKernel)
  }

  // --- within --------------------------------------------------------------------------------------------------------

  #mustHaveWorkspace(): void {
    const { record, id } = this.#room
    if (record.state === 'archived') throw archivedRoom(id, 'runs nothing')
  }

  #wanted(name: string | undefined): { name?: string; language?: string } {
    const { record, document } = this.#room
    const asked = name ?? record.kernel_name
    if (asked) return { name: asked }
    const wish = kernelOfMetadata(document.metadata)
    const { launched_kernel } = record
    // Nobody says which: then as before, whatever the machine has got meanwhile.
    return wish.name || wish.language || !launched_kernel ? wish : { name: launched_kernel }
  }

  #store(): Promise<void> {
    return this.#room.commit({ statements: [updateKernelLife(this.#room.record)] })
  }
}
