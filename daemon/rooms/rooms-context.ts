/** What all rooms share: the daemon's own long-lived parts. */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Places } from '../../protocol/places.ts'
import type { DocumentWorker } from '../documents/document-worker.ts'
import type { FileClaims } from '../documents/file-claims.ts'
import type { FileWatch } from '../documents/file-watch.ts'
import type { Blobs } from '../executions/blobs.ts'
import type { KernelProvider } from '../kernels/kernel.ts'
import type { Store } from '../store/store.ts'
import type { RoomHooks } from './hooks.ts'

export interface RoomsContext {
  readonly store: Store
  readonly blobs: Blobs
  readonly kernels: KernelProvider
  readonly places: Places
  readonly clock: Clock
  readonly log: Logger
  readonly worker: DocumentWorker
  /** Projects and the warm pool; absent where rooms are all there is. */
  readonly hooks?: RoomHooks
  /** Names this daemon in claims on files; absent: one is made. */
  readonly bootId?: string
}

/** What all rooms share of the file system. Owned by the registry. */
export interface FileSurroundings {
  readonly watch: FileWatch
  readonly claims: FileClaims
}
