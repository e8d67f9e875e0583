/** What rooms ask of projects (`RoomHooks`): how their kernels start, what coming and going means, and a ready room for a notebook. */
import { messageOf } from '../../protocol/errors.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { KernelSpecSummary, MethodResult } from '../../protocol/methods.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { KernelStart, RoomHooks } from '../rooms/hooks.ts'
import type { RoomRegistry } from '../rooms/registry.ts'
import type { Room } from '../rooms/room.ts'
import type { RoomRecord } from '../rooms/room-record.ts'
import type { Statement } from '../store/store.ts'
import type { ProjectsContext } from './context.ts'
import type { Drafts } from './drafts.ts'
import type { GenericPool } from './generic.ts'
import { limber } from './preload.ts'
import type { ProjectList } from './project-list.ts'
import { updateProject } from './project-rows.ts'
import { isWaiting, mustBeTrusted, preloadInto, startFor, startInWorkspace } from './rooms-of-project.ts'
import type { Tier } from './tier.ts'
import { updateContent, updateWorkspace } from './workspace-rows.ts'

export interface HooksParts {
  readonly context: ProjectsContext
  readonly list: ProjectList
  readonly tier: Tier
  readonly drafts: Drafts
  readonly generic: GenericPool
  begin(rooms: RoomRegistry): Promise<void>
  ready(): Promise<void>
  dispose(): void
}

export class ProjectHooks implements RoomHooks {
  readonly #parts: HooksParts

  constructor(parts: HooksParts) {
    this.#parts = parts
  }

  mayStart(record: RoomRecord): void {
    if (record.kind !== 'project') return
    const found = this.#parts.list.workspaceOf(record.notebook_id)
    if (found) mustBeTrusted(found.project, found.workspace)
  }

  async starting(room: Room, kernel: string, signal: AbortSignal): Promise<KernelStart> {
    if (room.record.kind !== 'project') {
      return { standby: isWaiting(room.record) }
    }
    const found = this.#parts.list.workspaceOf(room.id)
    if (!found) return {}
    const { project, workspace } = found
    const start = await startInWorkspace(this.#parts.context, project, room, workspace, kernel, signal)
    await this.#parts.context.store.write([updateContent(workspace)])
    return start
  }

  async started(room: Room, kernel: Kernel, signal: AbortSignal): Promise<void> {
    if (room.record.kind !== 'project') {
      if (isWaiting(room.record)) await limber(kernel, signal)
      else this.#noteUse(kernel.name)
      return
    }
    const found = this.#parts.list.workspaceOf(room.id)
    if (isWaiting(room.record)) await limber(kernel, signal)
    if (found) await preloadInto(this.#parts.context, found.project, room, found.workspace, kernel, signal)
  }

  kernelDied(room: Room, killed: boolean): void {
    const tier = this.#parts.tier.get(room.id)
    if (!killed || !tier?.project || !isWaiting(room.record)) return
    const { breaker, record } = tier.project
    if (breaker.death())
      this.#parts.context.log.warn(
        { project: record.name },
        'its standbys keep being killed: no more are started',
      )
  }

  peersChanged(room: Room): void {
    const tier = this.#parts.tier.get(room.id)
    if (!tier) return
    this.#parts.drafts.peersChanged(tier)
    // A cold claim starts no kernel; the first who comes does.
    if (room.record.state === 'draft' && room.peers.size > 0) startFor(this.#parts.context, tier)
  }

  leavingDraft(record: RoomRecord): Statement[] {
    const tier = this.#parts.tier.get(record.notebook_id)
    if (!tier) return []
    const now = this.#parts.context.clock.now()
    const { project, workspace } = tier
    workspace.leaseUntil = null
    const touched = project ? { ...project.record, usedAt: now } : null
    if (project) project.record.usedAt = now
    return [updateWorkspace(workspace), ...(touched ? [updateProject(touched)] : [])]
  }

  graduated(room: Room): void {
    this.#parts.drafts.graduated(room.id)
    this.#parts.tier.graduated(room.id)
  }

  listChanged(notebook_id: NotebookId): void {
    this.#parts.context.tell({ type: 'rooms_changed', notebook_id })
  }

  async readyRoom(spec: KernelSpecSummary): Promise<Room | null> {
    return (await this.#parts.generic.take(spec))?.room ?? null
  }

  leaveReady(room: Room): Statement[] {
    const tier = this.#parts.tier.get(room.id)
    return tier ? this.#parts.generic.leave(tier) : []
  }

  async dropReady(room: Room, reason: string): Promise<void> {
    const tier = this.#parts.tier.get(room.id)
    if (tier) await this.#parts.generic.discard(tier, reason)
  }

  /** The room is somebody's now. */
  readyTaken(room: Room): void {
    this.#parts.tier.graduated(room.id)
    this.#noteUse(room.record.kernel_name ?? room.presentKernel?.name ?? '')
  }

  moveKernel(room: Room, working_dir: string): Promise<void> {
    return this.#parts.generic.move(room, working_dir)
  }

  standbys(): MethodResult<'list_kernels'>['standbys'] {
    return this.#parts.tier
      .all()
      .filter((tier) => isWaiting(tier.room.record) && tier.standby !== 'missing')
      .map((tier) => ({
        pid: tier.pid,
        name: tier.room.record.kernel_name ?? '',
        ...(tier.project ? { project: tier.project.record.name } : {}),
        notebook_id: tier.id,
        state: tier.standby,
      }))
  }

  whyGone(notebookId: NotebookId): string | null {
    return this.#parts.tier.whyGone(notebookId)
  }

  begin(rooms: RoomRegistry): Promise<void> {
    return this.#parts.begin(rooms)
  }

  ready(): Promise<void> {
    return this.#parts.ready()
  }

  dispose(): void {
    this.#parts.dispose()
  }

  #noteUse(kernel: string): void {
    if (kernel === '') return
    this.#parts.generic.used(kernel)
    this.#parts.context.store
      .write([
        {
          sql: `INSERT INTO kernel_use (name, used_at) VALUES (?, ?)
                ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at`,
          values: [kernel, this.#parts.context.clock.now()],
        },
      ])
      .catch((error: unknown) =>
        this.#parts.context.log.warn({ reason: messageOf(error) }, 'a use was not noted'),
      )
  }
}
