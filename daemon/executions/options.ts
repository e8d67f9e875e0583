/** What makes the executions of a room, and the limits they keep. */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { RoomPort } from '../rooms/parts.ts'
import type { Blobs } from './blobs.ts'

export interface ExecutionLimits {
  /** Bytes of output kept per execution; half of it the beginning, half the end. */
  readonly outputBytes: number
  /** Stream text and display updates are told at most this often (ms), unless paceBytes have come. */
  readonly paceMs: number
  readonly paceBytes: number
  /** How long (ms) a first small event waits for what follows at once, so that a short run is one commit. */
  readonly lingerMs: number
  /**
   * How long (ms) a question waits for output printed before it, which comes on another channel and may be a moment behind; each output
   * that does come begins it anew, up to ten times as long.
   */
  readonly questionMs: number
  /** How long (ms) an interrupt waits for the end before its answer offers a restart. */
  readonly interruptMs: number
  /** How long (ms) an idle kernel may leave an execution open before it is asked whether it is done with it. */
  readonly hangMs: number
  /** Text and values taken in one slice of the main thread, in UTF-16 units. */
  readonly sliceUnits: number
}

export const defaultLimits: ExecutionLimits = {
  outputBytes: 64 * 1024 * 1024,
  paceMs: 50,
  paceBytes: 64 * 1024,
  lingerMs: 2,
  questionMs: 25,
  interruptMs: 5_000,
  hangMs: 10_000,
  sliceUnits: 256 * 1024,
}

export interface ExecutionsOptions {
  readonly port: RoomPort
  readonly blobs: Blobs
  readonly clock: Clock
  readonly log: Logger
  readonly limits?: Partial<ExecutionLimits>
}
