/**
 * Watches for one thing only: an execution that stays open although its kernel is idle and everything it said is consumed. No clock
 * ends a run: the kernel itself is asked, and its answer on the same channel proves that it is done with what came before.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { Live } from './live.ts'

export class HangWatch {
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #log: Logger
  readonly #consumedAll: (kernel: Kernel) => boolean
  readonly #release: (live: Live, diagnostic: string) => void
  #cancel: (() => void) | null = null
  #watched: { live: Live; kernel: Kernel } | null = null

  constructor(options: {
    clock: Clock
    everyMs: number
    log: Logger
    /** Every event of the kernel is taken. */
    consumedAll: (kernel: Kernel) => boolean
    release: (live: Live, diagnostic: string) => void
  }) {
    this.#clock = options.clock
    this.#everyMs = options.everyMs
    this.#log = options.log
    this.#consumedAll = options.consumedAll
    this.#release = options.release
  }

  /** Watches the execution that was sent last. */
  watch(live: Live, kernel: Kernel): void {
    this.#watched = { live, kernel }
    this.#next()
  }

  dispose(): void {
    this.#watched = null
    this.#cancel?.()
  }

  #next(): void {
    this.#cancel?.()
    const watched = this.#watched
    if (!watched) return
    this.#cancel = this.#clock.after(this.#everyMs, () => {
      if (this.#watched !== watched || watched.live.terminal) return
      if (this.#suspicious(watched)) this.#ask(watched)
      else this.#next()
    })
  }

  #suspicious({ live, kernel }: { live: Live; kernel: Kernel }): boolean {
    return (
      live.row.status !== 'waiting_for_input' &&
      kernel.summary().state === 'idle' &&
      this.#consumedAll(kernel)
    )
  }

  #ask(watched: { live: Live; kernel: Kernel }): void {
    const { live, kernel } = watched
    kernel.ask('kernel_info_request', {}).then(
      () => {
        // The answer came behind all that the execution had to say; that may still be on its way to us.
        this.#cancel = this.#clock.after(this.#everyMs, () => {
          if (this.#watched !== watched || live.terminal) return
          if (!this.#suspicious(watched)) {
            this.#next()
            return
          }
          this.#log.error({ execution: live.id, kernel: kernel.id }, 'released a queue that hung')
          this.#release(live, 'the kernel is idle and never said that it was done with this')
        })
      },
      // A kernel that cannot be asked is dead or dying; its end is told elsewhere.
      () => this.#next(),
    )
  }
}
