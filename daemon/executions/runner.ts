/**
 * Brings executions to the kernel, one at a time, and waits for the durable end of each before the next. Starts the kernel when there is
 * none. Sends nothing that is not marked, durably, as handed to that very kernel: so a mark that is missing after a crash proves that
 * nothing ran. Sending twice is the host's to prevent: it knows the request id.
 */

import PQueue from 'p-queue'
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { RoomPort } from '../rooms/parts.ts'
import { HangWatch } from './hang-watch.ts'
import type { Live } from './live.ts'

export interface RunnerPort {
  readonly port: RoomPort
  readonly clock: Clock
  readonly log: Logger
  readonly hangMs: number
  /** Every event of the kernel is taken. */
  consumedAll(kernel: Kernel): boolean
  /** Writes down that the execution is about to be handed to this kernel; resolves when that is durable. */
  mark(live: Live, kernel: Kernel): Promise<void>
  /** Comm messages that were accepted before and are not with the host yet. */
  readonly ahead: () => Promise<void> | null
  /** What follows goes to this kernel. */
  sending(kernel: Kernel): void
  /** No kernel can be had: everything queued ends. */
  startFailed(reason: string): void
  lost(live: Live, reason: string): void
}

export class Runner {
  readonly #port: RunnerPort
  #queue: PQueue | null = null
  readonly #watch: HangWatch
  #disposed = false

  constructor(port: RunnerPort) {
    this.#port = port
    this.#watch = new HangWatch({
      clock: port.clock,
      everyMs: port.hangMs,
      log: port.log,
      consumedAll: (kernel) => port.consumedAll(kernel),
      release: (live, diagnostic) => port.lost(live, diagnostic),
    })
  }

  /** Call in queue order. */
  enqueue(live: Live): void {
    this.#queue ??= new PQueue({ concurrency: 1 })
    this.#queue
      .add(() => this.#run(live))
      .catch((error: unknown) => {
        if (this.#disposed || live.terminal) return
        this.#port.log.error({ execution: live.id, error: String(error) }, 'an execution could not be run')
        this.#port.lost(live, `it could not be run: ${messageOf(error)}`)
      })
  }

  interrupt(kernel: Kernel | null): void {
    kernel?.interrupt().catch((error: unknown) => {
      this.#port.log.warn({ error: String(error) }, 'the kernel could not be interrupted')
    })
  }

  /** Forgets the queue if nothing is in it. */
  trim(): void {
    if (this.#queue?.size === 0 && this.#queue.pending === 0) this.#queue = null
  }

  dispose(): void {
    this.#disposed = true
    this.#queue?.clear()
    this.#queue?.pause()
    this.#watch.dispose()
  }

  async #run(live: Live): Promise<void> {
    const { port, mark, sending } = this.#port
    while (!live.terminal && !live.sent) {
      const kernel = port.presentKernel ?? (await this.#startKernel(live))
      if (this.#disposed) return
      if (!kernel || live.terminal || live.leaving) break
      if (live.row.kernel_id === kernel.id && port.presentKernel === kernel) {
        live.sent = true
        sending(kernel)
      } else {
        // Marked for none, or for one that never got it and is gone.
        await mark(live, kernel)
        if (this.#disposed) return
      }
    }
    const kernel = port.presentKernel
    if (live.sent && !live.terminal && kernel) {
      const ahead = this.#port.ahead()
      if (ahead) await Promise.race([ahead, live.ended])
      if (this.#disposed) return
      if (!live.terminal) this.#send(live, kernel)
    }
    await live.ended
  }

  /** null: it did not start, and everything queued has ended with the reason; or it was called off, which ended this one. */
  async #startKernel(live: Live): Promise<Kernel | null> {
    try {
      return await this.#port.port.kernel()
    } catch (thrown) {
      // A daemon that stops leaves the queue to the next one, which finds it in the store.
      if (thrown instanceof RoomdError && thrown.code === 'shutting_down') return new Promise(() => {})
      if (!this.#disposed && !live.terminal) this.#port.startFailed(messageOf(thrown))
      return null
    }
  }

  #send(live: Live, kernel: Kernel): void {
    const row = this.#port.port.store.get<{ source: string }>(
      'SELECT source FROM executions WHERE execution_id = ?',
      live.id,
    )
    if (!row) throw new Error(`execution ${live.id} has no row`)
    this.#watch.watch(live, kernel)
    kernel
      .send({
        requestId: live.id,
        channel: 'shell',
        msgType: 'execute_request',
        content: {
          code: row.source,
          silent: false,
          store_history: true,
          user_expressions: {},
          allow_stdin: live.row.allow_stdin === 1,
          // The queue is ours: the kernel never has more than one.
          stop_on_error: false,
        },
        metadata: live.row.cell_id === null ? {} : { cellId: live.row.cell_id },
      })
      .catch((error: unknown) => {
        if (this.#disposed || live.terminal) return
        // Death is told by the room, with the kernel's last words; anything else only here.
        if (error instanceof RoomdError && error.code === 'kernel_died') return
        this.#port.log.error({ execution: live.id, error: String(error) }, 'an execution could not be sent')
        this.#port.lost(live, `it could not be sent: ${messageOf(error)}`)
      })
  }
}
