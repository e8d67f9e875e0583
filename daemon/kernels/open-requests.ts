/**
 * Requests to a kernel that have no answer yet. A send is open until a host has said that it is logged and sent; it is repeated
 * with its id on every new connection, and the host sends it once. An ask is open until its reply has come.
 */
import { randomUUID } from 'node:crypto'
import { RoomdError } from '../../protocol/errors.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { HostConnection, HostParams } from './host-connection.ts'
import type { KernelRequest } from './kernel.ts'

interface Send {
  readonly params: HostParams<'send'>
  resolve(outcome: { alreadySent: boolean }): void
  reject(error: RoomdError): void
}

interface Ask {
  resolve(content: Record<string, unknown>): void
  reject(error: RoomdError): void
}

export class OpenRequests {
  /** In the order of asking. The same request may be here twice: both callers get the host's answer. */
  readonly #sends = new Set<Send>()
  readonly #asks = new Map<string, Ask>()

  /** Without a connection the request waits for the next `repeat`. */
  send(request: KernelRequest, connection: HostConnection | null): Promise<{ alreadySent: boolean }> {
    return new Promise((resolve, reject) => {
      const send = { params: sendParams(request), resolve, reject }
      this.#sends.add(send)
      if (connection !== null) this.#transmit(send, connection)
    })
  }

  /** Sends everything open again, in order. */
  repeat(connection: HostConnection): void {
    for (const send of [...this.#sends]) this.#transmit(send, connection)
  }

  ask(
    msgType: string,
    content: Record<string, unknown>,
    connection: HostConnection | null,
    signal?: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const requestId = randomUUID()
    return new Promise((resolve, reject) => {
      const abort = (): void => ask.reject(new RoomdError('client_aborted', `${msgType} was aborted`))
      const settle = (): void => {
        this.#asks.delete(requestId)
        signal?.removeEventListener('abort', abort)
      }
      const ask: Ask = {
        resolve: (reply) => {
          settle()
          resolve(reply)
        },
        reject: (error) => {
          settle()
          reject(error)
        },
      }
      if (signal?.aborted) return abort()
      signal?.addEventListener('abort', abort, { once: true })
      this.#asks.set(requestId, ask)
      this.send({ requestId, channel: 'shell', msgType, content }, connection).catch(ask.reject)
    })
  }

  /** Settles the ask that the event answers. */
  note(event: HostEvent): void {
    if (event.kind === 'message') {
      const { channel, parent_id, content } = event.message
      if (channel === 'shell' && parent_id !== null) this.#asks.get(parent_id)?.resolve(content)
    } else if (event.kind === 'settled') {
      const ask = this.#asks.get(event.request_id)
      if (ask === undefined) return
      if (event.reply !== null) ask.resolve(event.reply)
      else ask.reject(new RoomdError('outcome_unknown', 'the kernel gave no answer; ask again'))
    }
  }

  rejectAll(error: RoomdError): void {
    for (const send of this.#sends) send.reject(error)
    this.#sends.clear()
    for (const ask of [...this.#asks.values()]) ask.reject(error)
  }

  #transmit(send: Send, connection: HostConnection): void {
    connection.call(
      'send',
      send.params,
      ({ already_sent }) => {
        if (this.#sends.delete(send)) send.resolve({ alreadySent: already_sent })
      },
      (error) => {
        // The connection ended before the answer: it is repeated on the next one.
        if (error.code === 'runtime_not_ready') return
        if (this.#sends.delete(send)) send.reject(error)
      },
    )
  }
}

function sendParams(request: KernelRequest): HostParams<'send'> {
  const { requestId, channel, msgType, content, metadata, parentId, buffers } = request
  return {
    request_id: requestId,
    channel,
    msg_type: msgType,
    content,
    ...(metadata === undefined ? {} : { metadata }),
    ...(parentId === undefined ? {} : { parent_id: parentId }),
    ...(buffers === undefined ? {} : { buffers: buffers as Uint8Array<ArrayBuffer>[] }),
  }
}
