/**
 * Brings comm messages to the kernel: in order, each once. A message is a row before it is sent, and stays one until the kernel has taken
 * it up; a daemon that begins sends what is left again under the same ids, which the host never passes on twice.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../../protocol/clock.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import type { NotebookId } from '../../../protocol/ids.ts'
import type { Kernel } from '../../kernels/kernel.ts'
import type { Store } from '../../store/store.ts'
import type { Blobs } from '../blobs.ts'
import { isRecord } from '../messages.ts'
import { blobRefOf, readBundle } from '../values.ts'
import { type Outgoing, readSend } from './rows.ts'

/** How long to wait before a message is sent again that the host could not log. */
const RETRY_MS = 3_000

export class CommSender {
  readonly #store: Store
  readonly #blobs: Blobs
  readonly #clock: Clock
  readonly #log: Logger
  readonly #notebookId: NotebookId
  #line: Promise<void> = Promise.resolve()
  #underWay = 0
  #disposed = false

  constructor(options: { store: Store; blobs: Blobs; clock: Clock; log: Logger; notebookId: NotebookId }) {
    this.#store = options.store
    this.#blobs = options.blobs
    this.#clock = options.clock
    this.#log = options.log
    this.#notebookId = options.notebookId
  }

  /** Sends a message whose row is durable, behind those before it. */
  send(messageId: string, kernel: Kernel): void {
    this.#underWay++
    this.#line = this.#line
      .then(() => this.#deliver(messageId, kernel))
      .finally(() => {
        this.#underWay--
      })
  }

  /** Resolves when what is to be sent now is with the host; null: nothing is. */
  get delivered(): Promise<void> | null {
    return this.#underWay === 0 ? null : this.#line
  }

  dispose(): void {
    this.#disposed = true
  }

  async #deliver(messageId: string, kernel: Kernel): Promise<void> {
    for (;;) {
      if (this.#disposed) return
      // Gone: its kernel is gone.
      const body = readSend(this.#store, this.#notebookId, messageId)
      if (!body) return
      try {
        const { msg_type: msgType, content, metadata, buffers } = body
        await kernel.send({
          requestId: messageId,
          channel: 'shell',
          msgType,
          content: await this.#whole(body.msg_type, content),
          metadata,
          buffers,
        })
        return
      } catch (thrown) {
        if (this.#disposed || (thrown instanceof RoomdError && thrown.code === 'kernel_died')) return
        this.#log.warn({ error: String(thrown) }, 'a comm message could not be sent; trying again')
        await new Promise<void>((resolve) => this.#clock.after(RETRY_MS, resolve))
      }
    }
  }

  /** Outputs that the room captured name blobs; the kernel gets the values themselves. */
  async #whole(
    type: Outgoing['msg_type'],
    content: Record<string, unknown>,
  ): Promise<Record<string, unknown>> {
    const { data } = content
    if (type !== 'comm_msg' || !isRecord(data) || !isRecord(data.state)) return content
    const { outputs } = data.state
    if (!Array.isArray(outputs)) return content
    const whole = await Promise.all(
      outputs.map(async (output: unknown) => {
        if (!isRecord(output) || !isRecord(output.data)) return output
        if (!Object.values(output.data).some((value) => blobRefOf(value))) return output
        return { ...output, data: await readBundle(output.data, this.#blobs) }
      }),
    )
    return { ...content, data: { ...data, state: { ...data.state, outputs: whole } } }
  }
}
