/**
 * What rooms ask of who makes and warms them (projects/). Rooms know nothing of projects: they ask here when a kernel is to start,
 * when peers come and go, and when a draft becomes a room.
 */
import type { NotebookId } from '../../protocol/ids.ts'
import type { KernelSpecSummary, MethodResult } from '../../protocol/methods.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { Statement } from '../store/store.ts'
import type { RoomRegistry } from './registry.ts'
import type { Room } from './room.ts'
import type { RoomRecord } from './room-record.ts'

/** How a room's kernel is started beyond name and folder. */
export interface KernelStart {
  readonly env?: Readonly<Record<string, string>>
  /** Absolute path; takes the place of the kernelspec's program. */
  readonly interpreter?: string
  /** Born before anybody asked for it. */
  readonly standby?: boolean
}

export interface RoomHooks {
  /** Throws when no kernel may start in this room (its project is not trusted). Synchronous: asked before anything is queued. */
  mayStart(record: RoomRecord): void
  /** Before each start: prepares the folder (setup). Rejects `forbidden`, `kernel_start_failed`. */
  starting(room: Room, kernelName: string, signal: AbortSignal): Promise<KernelStart>
  /** After each start, before anything else runs in it (preload). A rejection ends the kernel: the start has failed. */
  started(room: Room, kernel: Kernel, signal: AbortSignal): Promise<void>
  /** The room's kernel died by itself. `killed`: for want of memory, or by a SIGKILL that nobody of us sent. */
  kernelDied(room: Room, killed: boolean): void
  /** A peer came or left. */
  peersChanged(room: Room): void
  /** Rows that belong to the transaction in which a draft becomes a room. */
  leavingDraft(record: RoomRecord): Statement[]
  /** After that transaction. */
  graduated(room: Room): void
  /** A room came into lists or left them, or is called otherwise there. */
  listChanged(notebookId: NotebookId): void
  /**
   * A hidden room with a running kernel of this kind that nobody has yet, for a new notebook; null: none. It is the caller's: made
   * somebody's with one commit that holds `leaveReady`, followed by `readyTaken`; or dropped.
   */
  readyRoom(spec: KernelSpecSummary): Promise<Room | null>
  leaveReady(room: Room): Statement[]
  readyTaken(room: Room): void
  dropReady(room: Room, reason: string): Promise<void>
  /** Tells the kernel of a ready room where it is now. Rejects when that did not work. */
  moveKernel(room: Room, working_dir: string): Promise<void>
  /** Before kernels are adopted after a daemon's death. */
  begin(rooms: RoomRegistry): Promise<void>
  /** After they were: all rooms are there. */
  ready(): Promise<void>
  /** Kernels that were started before anybody asked, for `list_kernels`. */
  standbys(): MethodResult<'list_kernels'>['standbys']
  /** Why a room that is asked for by id is not there any more, if that is known. */
  whyGone(notebookId: NotebookId): string | null
  dispose(): void
}
