/** What all parts of projects/ share. */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Settings } from '../../protocol/config.ts'
import type { DaemonEvent } from '../../protocol/projects.ts'
import type { KernelProvider } from '../kernels/kernel.ts'
import type { RoomRegistry } from '../rooms/registry.ts'
import type { Store } from '../store/store.ts'
import type { Deputies } from './deputies.ts'
import type { ProjectPlaces } from './folders.ts'
import type { Git } from './git/git.ts'
import type { Steps } from './steps.ts'

export interface ProjectsContext {
  readonly store: Store
  readonly places: ProjectPlaces
  readonly clock: Clock
  readonly log: Logger
  readonly kernels: KernelProvider
  readonly settings: Settings['pool']
  readonly deputies: Deputies
  readonly git: Git
  readonly steps: Steps
  /** How long after a claim the next room is warmed, if nobody needs it earlier. */
  readonly rewarmPauseMs: number
  /** All of it was disposed of: what fails now fails because of that. */
  readonly ended: () => boolean
  /** Set before anything is asked of projects. */
  readonly rooms: () => RoomRegistry
  /** Told to every connection that wants to know. */
  tell(event: DaemonEvent): void
}
