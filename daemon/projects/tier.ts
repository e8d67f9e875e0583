/**
 * Rooms that hold no work yet: warming, pooled and drafts. Each is in memory as one object that holds room, workspace and project
 * together, and keeps the room from being dropped. All steps of such rooms are taken here, each as one transaction with the rows of
 * the workspace; only graduation is the room's own (rooms/graduation.ts).
 *
 * Races: memory is changed at once and the transaction follows, so that nobody else can take the same room in between; a transaction
 * that fails puts memory back to what the store has.
 */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import { type ClientInstance, NotebookId, type ProjectId } from '../../protocol/ids.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import type { PoolSlot } from '../../protocol/projects.ts'
import { processRow } from '../kernel-host/process-identity.ts'
import type { Room } from '../rooms/room.ts'
import { step } from '../rooms/room-state.ts'
import type { Statement } from '../store/store.ts'
import type { ProjectsContext } from './context.ts'
import { removeWhole } from './folders.ts'
import { branchOf } from './git/workspace.ts'
import { headIsAt, keepCommits } from './kept-commits.ts'
import { keepUserFiles, noteKept, readKept } from './kept-files.ts'
import { Line } from './line.ts'
import type { Project } from './project.ts'
import {
  insertWorkspace,
  newWorkspace,
  readWorkspace,
  updateContent,
  updateWorkspace,
  type Workspace,
} from './workspace-rows.ts'

/** Gone rooms of which the reason is remembered. */
const REMEMBERED = 1_000

export class TierRoom {
  readonly room: Room
  readonly workspace: Workspace
  /** null: of no project (a room kept ready for any new notebook). */
  readonly project: Project | null
  #release: (() => void) | null
  /** Set when nobody may hold on to it any more. */
  leaving = false
  /** Somebody was told of its workspace, and may put files into it at any time, whosever it is by then. */
  given = false

  constructor(room: Room, workspace: Workspace, project: Project | null) {
    this.room = room
    this.workspace = workspace
    this.project = project
    this.#release = room.reserve()
  }

  get id(): NotebookId {
    return this.room.id
  }

  get untouched(): boolean {
    const { state } = this.room.record
    return state === 'warming' || state === 'pooled' || state === 'draft'
  }

  /** Its kernel, as the operating system sees it: one that is dead is never called ready. */
  get standby(): PoolSlot['standby'] {
    return standbyOf(this.room)
  }

  get pid(): number | null {
    return this.room.presentKernel?.summary().pid ?? null
  }

  /** Lets keep-alive and memory decide about the room as about any other. */
  letGo(): void {
    this.#release?.()
    this.#release = null
  }

  hold(): void {
    this.#release ??= this.room.reserve()
  }
}

export function standbyOf(room: Room): PoolSlot['standby'] {
  const kernel = room.presentKernel
  if (kernel) {
    const { pid } = kernel.summary()
    // Unknown is not dead.
    if (pid === null) return 'ready'
    const row = processRow(pid)
    return row === undefined || row.state === 'Z' || row.state === 'X' ? 'missing' : 'ready'
  }
  return room.slot.runtime === 'launching' ? 'booting' : 'missing'
}

export class Tier {
  readonly #context: ProjectsContext
  readonly #rooms = new Map<NotebookId, TierRoom>()
  readonly #gone = new Map<NotebookId, string>()
  readonly #discarding = new Map<NotebookId, Promise<void>>()
  /** Rooms are archived one after the other (archive.ts). */
  readonly archiving = new Line()

  constructor(context: ProjectsContext) {
    this.#context = context
  }

  get(notebookId: NotebookId): TierRoom | undefined {
    return this.#rooms.get(notebookId)
  }

  all(): TierRoom[] {
    return [...this.#rooms.values()]
  }

  of(project: ProjectId): TierRoom[] {
    return this.all().filter((tier) => tier.project?.record.id === project)
  }

  whyGone(notebookId: NotebookId): string | null {
    return this.#gone.get(notebookId) ?? null
  }

  remember(notebookId: NotebookId, reason: string): void {
    this.#gone.set(notebookId, reason)
    for (const oldest of this.#gone.keys()) {
      if (this.#gone.size <= REMEMBERED) break
      this.#gone.delete(oldest)
    }
  }

  /** A new room of a project in `warming`, in no list. Its folder is not there yet. `slot`: its place, or `claim` for none to keep. */
  async make(
    project: Project,
    given: { spec: KernelSpecSummary; kernel_name: string | null; slot: string | 'claim' },
    rows: readonly Statement[] = [],
  ): Promise<TierRoom> {
    const id = NotebookId.parse(randomUUID())
    const branch = branchOf(id)
    const workspace = newWorkspace({
      notebookId: id,
      projectId: project.record.id,
      slot: given.slot === 'claim' ? `claim/${id}` : given.slot,
      folder: this.#context.places.workspace(id),
      branch,
    })
    return this.#install(project, workspace, { ...given, kind: 'project', title: branch }, rows)
  }

  /** A new room of no project, ready for any new notebook of one kernelspec. */
  async makeGeneric(
    spec: KernelSpecSummary,
    slot: string,
    folder: string,
    id: NotebookId,
  ): Promise<TierRoom> {
    const workspace = newWorkspace({ notebookId: id, projectId: null, slot, folder, branch: null })
    return this.#install(
      null,
      workspace,
      { spec, kernel_name: spec.name, kind: 'standalone', title: 'Untitled' },
      [],
    )
  }

  async #install(
    project: Project | null,
    workspace: Workspace,
    given: {
      spec: KernelSpecSummary
      kernel_name: string | null
      kind: 'project' | 'standalone'
      title: string
    },
    rows: readonly Statement[],
  ): Promise<TierRoom> {
    const { spec, kernel_name, kind, title } = given
    const room = await this.#context
      .rooms()
      .makeHidden(
        { notebook_id: workspace.notebookId, kind, title, working_dir: workspace.folder, spec, kernel_name },
        [insertWorkspace(workspace), ...rows],
      )
    const tier = new TierRoom(room, workspace, project)
    this.#rooms.set(tier.id, tier)
    return tier
  }

  /** warming → pooled. */
  async enterPool(tier: TierRoom): Promise<void> {
    await this.#commit(tier, () => [step(tier.room.record, 'pooled')])
  }

  /** pooled or warming → draft: out of the pool and into somebody's hands, in one transaction. */
  async claim(
    tier: TierRoom,
    claim: {
      owner: ClientInstance
      interactive: boolean
      settings: Workspace['detail']['settings']
      lease: number
    },
    rows: readonly Statement[],
  ): Promise<void> {
    await this.#commit(tier, () => {
      const { record } = tier.room
      const { workspace } = tier
      const first = record.state === 'warming' ? [step(record, 'pooled')] : []
      workspace.slot = null
      workspace.owner = claim.owner
      workspace.interactive = claim.interactive
      workspace.leaseUntil = claim.lease
      workspace.detail = { ...workspace.detail, settings: claim.settings }
      record.created_at = this.#context.clock.now()
      return [
        ...first,
        updateWorkspace(workspace),
        step(record, 'draft'),
        {
          sql: 'UPDATE rooms SET created_at = ? WHERE notebook_id = ?',
          values: [record.created_at, record.notebook_id],
        },
        ...rows,
      ]
    })
  }

  /** draft → pooled: nothing has happened in it. */
  async backToPool(tier: TierRoom, slot: string): Promise<void> {
    await this.#commit(tier, () => {
      const { workspace } = tier
      workspace.slot = slot
      workspace.owner = null
      workspace.interactive = false
      workspace.leaseUntil = null
      workspace.detail = { ...workspace.detail, settings: {} }
      return [
        updateWorkspace(workspace),
        step(tier.room.record, 'pooled'),
        this.#context.rooms().forgetClaims(tier.id),
      ]
    })
    tier.hold()
  }

  /** Writes what changed of the workspace. */
  async save(tier: TierRoom): Promise<void> {
    await this.#commit(tier, () => [updateContent(tier.workspace)])
  }

  /** It has become a room like any other: forgotten here. */
  graduated(notebookId: NotebookId): void {
    const tier = this.#rooms.get(notebookId)
    if (!tier) return
    this.#rooms.delete(notebookId)
    tier.leaving = true
    tier.letGo()
  }

  /**
   * Ends a room without work: its row first (from then on nobody can come to it), then kernel, then folder, then the row's remains.
   * What a user put into the folder is kept. Idempotent; resolves when it is all gone.
   */
  discard(tier: TierRoom, reason: string): Promise<void> {
    const running = this.#discarding.get(tier.id)
    if (running) return running
    const flight = this.#discard(tier, reason).finally(() => this.#discarding.delete(tier.id))
    this.#discarding.set(tier.id, flight)
    return flight
  }

  async #discard(tier: TierRoom, reason: string): Promise<void> {
    if (!tier.untouched) return
    tier.leaving = true
    const { owner } = tier.workspace
    const wasDraft = tier.room.record.state === 'draft'
    await this.#commit(tier, () => {
      tier.workspace.slot = null
      return [updateWorkspace(tier.workspace), step(tier.room.record, 'discarded')]
    })
    this.#rooms.delete(tier.id)
    this.remember(
      tier.id,
      `room ${tier.id} was a draft in which nothing had happened: ${reason}; claim a room again`,
    )
    tier.letGo()
    await this.#context.rooms().retire(tier.room, reason, RETIRE_GRACE_MS)
    const kept = await this.clear(tier.id, tier.workspace.folder, tier.workspace.projectId)
    if (wasDraft && owner !== null) {
      this.#context.tell({
        type: 'draft_retired',
        notebook_id: tier.id,
        client_instance: owner,
        reason,
        ...(kept === null ? {} : { kept }),
      })
    }
  }

  /**
   * Folder and rows of a discarded room, or the folder of an archived one. Returns where files of a user are now. `commitsKept`: they
   * were seen to already.
   */
  async clear(
    notebookId: NotebookId,
    folder: string,
    project: ProjectId | null,
    commitsKept = false,
  ): Promise<string | null> {
    const { places, store, log } = this.#context
    if (!commitsKept) await this.#keepCommits(notebookId)
    await keepUserFiles(folder, places.kept(notebookId))
    // Also what a daemon had put there that died before it could say so.
    const kept = existsSync(places.kept(notebookId)) ? places.kept(notebookId) : null
    if (kept !== null) noteKept(kept, project)
    if (kept !== null) log.info({ room: notebookId, kept }, 'files of a user were kept')
    await removeWhole(folder)
    await store.write(this.#context.rooms().forgetRows(notebookId))
    return kept
  }

  /** Commits that its owner made in a draft before anything happened in its notebook. */
  async #keepCommits(notebookId: NotebookId): Promise<void> {
    const workspace = readWorkspace(this.#context.store, notebookId)
    const { owner = null, branch = null, base = null, folder = '' } = workspace ?? {}
    if (!workspace || owner === null || branch === null || base === null || !existsSync(folder)) return
    const plain = !existsSync(join(folder, '.git', 'modules')) && (await headIsAt(folder, branch, base))
    if (plain) return
    try {
      await keepCommits(this.#context, workspace, this.#context.places.kept(notebookId))
    } catch (error) {
      // A repository that git cannot read has none that could be kept; its files are.
      this.#context.log.warn({ room: notebookId, reason: messageOf(error) }, 'commits could not be kept')
    }
  }

  /** Files of users out of workspaces of a project that are gone. */
  keptOf(project: ProjectId): { notebook_id: NotebookId; path: string }[] {
    return readKept(this.#context.places.keptFolder, project)
  }

  async #commit(tier: TierRoom, change: () => Statement[]): Promise<void> {
    const { room, workspace } = tier
    if (room.fault) throw room.fault
    if (room.closed) throw new RoomdError('notebook_unavailable', `room ${room.id} was closed meanwhile`)
    try {
      await room.commit({ statements: change() })
    } catch (error) {
      const stored = readWorkspace(this.#context.store, room.id)
      if (stored !== null) Object.assign(workspace, stored)
      throw error
    }
  }
}

/** What a kernel that nobody has used gets to end in order. */
const RETIRE_GRACE_MS = 500
