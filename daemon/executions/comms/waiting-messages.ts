/**
 * Messages on their way to the kernel, from being accepted until it has taken them up. Each is a row; this keeps count of them, so that
 * what waits stays within bounds, and knows which may be sent with the next commit.
 */
import { randomUUID } from 'node:crypto'
import { encode } from '../../../protocol/codec.ts'
import type { CommId } from '../../../protocol/comms.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import type { KernelId, NotebookId } from '../../../protocol/ids.ts'
import type { Statement } from '../../store/store.ts'
import type { OpenComm } from './comm.ts'
import { dropSend, type Outgoing, type SendRow, storeSend } from './rows.ts'

/** Messages, and bytes of them, that may wait for the kernel to take them up. */
const WAITING_MESSAGES = 2_000
const WAITING_BYTES = 64 * 1024 * 1024

const PREFIX = 'comm|'

/** Ids of our messages say to which comm they went: outputs that come back under them find their way, also after a restart. */
export function messageIdOf(commId: CommId): string {
  return `${PREFIX}${randomUUID()}|${commId}`
}

/** null: none of ours. */
export function commOfMessage(messageId: string): CommId | null {
  if (!messageId.startsWith(PREFIX)) return null
  const at = messageId.indexOf('|', PREFIX.length)
  return at < 0 ? null : (messageId.slice(at + 1) as CommId)
}

export class WaitingMessages {
  readonly #notebookId: NotebookId
  readonly #waiting = new Map<string, { commId: CommId; bytes: number }>()
  #bytes = 0
  #sends = 0
  /** Accepted since the last `take`. */
  #toSend: string[] = []

  constructor(notebookId: NotebookId) {
    this.#notebookId = notebookId
  }

  /** Takes what the store has. */
  load(rows: readonly (SendRow & { readonly bytes: number })[]): void {
    for (const { message_id, send_seq, comm_id, bytes } of rows) {
      this.#sends = Math.max(this.#sends, send_seq)
      this.#waiting.set(message_id, { commId: comm_id, bytes })
      this.#bytes += bytes
    }
  }

  get empty(): boolean {
    return this.#waiting.size === 0
  }

  /** In the order they were accepted. */
  ids(): IterableIterator<string> {
    return this.#waiting.keys()
  }

  /** Throws `overloaded` when too much waits. */
  mustFit(outgoing: Outgoing): void {
    const full = this.#waiting.size >= WAITING_MESSAGES
    if (!full && this.#bytes + weigh(outgoing) <= WAITING_BYTES) return
    throw new RoomdError(
      'overloaded',
      `${this.#waiting.size} comm messages wait for the kernel, which takes them up between cells; send again later`,
    )
  }

  /** `names`: what the message sets of the comm's state. Returns its row. */
  add(
    messageId: string,
    comm: OpenComm,
    names: readonly string[],
    kernelId: KernelId,
    outgoing: Outgoing,
  ): Statement {
    const row: SendRow = {
      message_id: messageId,
      send_seq: ++this.#sends,
      kernel_id: kernelId,
      comm_id: comm.id,
      names,
    }
    comm.expect(names, messageId)
    const bytes = weigh(outgoing)
    this.#waiting.set(messageId, { commId: comm.id, bytes })
    this.#bytes += bytes
    this.#toSend.push(messageId)
    return storeSend(this.#notebookId, row, outgoing)
  }

  /** The kernel has taken it up, or never will. Returns to which comm it went, and what drops its row; null: it does not wait. */
  settled(messageId: string): { commId: CommId; statement: Statement } | null {
    const waiting = this.#waiting.get(messageId)
    if (!waiting) return null
    this.#waiting.delete(messageId)
    this.#bytes -= waiting.bytes
    return { commId: waiting.commId, statement: dropSend(this.#notebookId, messageId) }
  }

  /** Messages whose rows go with the commit that is being made. */
  take(): string[] {
    const toSend = this.#toSend
    this.#toSend = []
    return toSend
  }

  clear(): void {
    this.#waiting.clear()
    this.#bytes = 0
    this.#toSend = []
  }
}

function weigh(outgoing: Outgoing): number {
  let bytes = 512
  for (const buffer of outgoing.buffers) bytes += buffer.length
  return bytes + encode(outgoing.content).length
}
