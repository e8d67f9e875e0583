/**
 * Ends the daemon in order: everybody is told, no new work is taken, every room settles; only when all that was acknowledged is
 * durable does anything close. If that cannot be had the stop is refused and the daemon goes on. One stop at a time.
 */
import type { Logger } from 'pino'
import type { MethodResult } from '../../protocol/methods.ts'
import type { Store } from '../store/store.ts'
import type { StopRequest } from './connection-methods.ts'
import type { Server } from './server.ts'

/** Clients have this long to read what is queued for them. */
export const DRAIN_MS = 2_000

export interface StopOptions {
  readonly server: Server
  readonly store: Store
  readonly log: Logger
  /** Closes what the process holds and ends it; called once, after the answer to whoever asked was queued. */
  leave(): void
}

export class Stopping {
  readonly #options: StopOptions
  #flight: Promise<MethodResult<'shutdown'>> | null = null

  constructor(options: StopOptions) {
    this.#options = options
  }

  get inProgress(): boolean {
    return this.#flight !== null
  }

  /** A call during a stop joins it. Rejects, naming what is not durable, when the daemon goes on. */
  stop(request: StopRequest): Promise<MethodResult<'shutdown'>> {
    this.#flight ??= this.#stop(request).catch((error) => {
      this.#flight = null
      throw error
    })
    return this.#flight
  }

  async #stop({ reason, next_version, kernels }: StopRequest): Promise<MethodResult<'shutdown'>> {
    const { server, store, log, leave } = this.#options
    log.info({ reason, next_version, kernels }, 'stopping')
    server.startStopping({
      reason,
      drain_ms: DRAIN_MS,
      ...(next_version === undefined ? {} : { next_version }),
    })
    try {
      // Before the rooms are ready no change was accepted, so there is nothing to settle.
      const result = (await server.rooms?.shutdown({ kernels })) ?? { rooms: 0, kernels_kept: 0 }
      await store.settled()
      setImmediate(leave)
      return result
    } catch (error) {
      server.goOn()
      log.error({ err: error }, 'not stopped')
      throw error
    }
  }
}
