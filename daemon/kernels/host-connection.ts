/**
 * One connection to one kernel host: handshake with proof of identity, requests and their answers, events with their parts
 * joined. Ends once; whatever is open then is told.
 */
import type { z } from 'zod'
import { Response } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { parseOutside, RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { BootId, KernelId } from '../../protocol/ids.ts'
import { HostEvent, type HostMethod, HostPart, HostWelcome, hostMethods } from '../../protocol/kernel-host.ts'
import { VERSION } from '../../protocol/version.ts'
import { dial } from '../../protocol/wire/dial.ts'
import { offer } from '../../protocol/wire/handshake.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import type { Wire } from '../../protocol/wire/wire.ts'

export type HostResult<M extends HostMethod> = z.output<(typeof hostMethods)[M]['result']>
export type HostParams<M extends HostMethod> = z.input<(typeof hostMethods)[M]['params']>

export interface HostConnectionOptions {
  readonly socket: string
  readonly kernelId: KernelId
  /** The host must answer with it. */
  readonly nonce: string
  readonly bootId: BootId
  readonly clock: Clock
  readonly signal: AbortSignal
  event(event: HostEvent): void
}

interface Pending {
  readonly method: HostMethod
  done(value: unknown): void
  failed(error: RoomdError): void
}

export class HostConnection {
  readonly welcome: HostWelcome
  /** Resolves with the reason when the connection has ended. */
  readonly closed: Promise<string>
  readonly #wire: Wire
  readonly #pending: Map<number, Pending>
  #nextId = 1

  private constructor(
    wire: Wire,
    welcome: HostWelcome,
    pending: Map<number, Pending>,
    closed: Promise<string>,
  ) {
    this.#wire = wire
    this.welcome = welcome
    this.#pending = pending
    this.closed = closed
  }

  /** Rejects with the system's error when nobody listens, and with RoomdError when who answers is not this kernel's host. */
  static async open(options: HostConnectionOptions): Promise<HostConnection> {
    const socket = await dial(options.socket, options.signal)
    const pending = new Map<number, Pending>()
    const parts = new Parts()
    let ended: (reason: string) => void = () => {}
    const closed = new Promise<string>((resolve) => {
      ended = resolve
    })
    const { wire, welcome } = await offer(
      socketTransport(socket),
      { boot_id: options.bootId, pid: process.pid, version: VERSION },
      {
        welcome: HostWelcome,
        clock: options.clock,
        signal: options.signal,
        handlers: () => ({
          value: (type, _channel, payload) => {
            if (type === FrameType.EVENT) {
              const event = parts.take(decode(payload))
              if (event !== null) options.event(event)
            } else if (type === FrameType.RESPONSE) settle(pending, payload)
          },
          closed: (end) => {
            const error = new RoomdError(
              'runtime_not_ready',
              `the connection to the kernel host ended: ${end.message}`,
            )
            for (const each of pending.values()) each.failed(error)
            pending.clear()
            ended(end.message)
          },
        }),
      },
    )
    if (welcome.nonce !== options.nonce || welcome.kernel_id !== options.kernelId) {
      wire.destroy('not the host that was looked for')
      throw new RoomdError('not_found', `${options.socket} is answered by another kernel's host`)
    }
    return new HostConnection(wire, welcome, pending, closed)
  }

  /**
   * `done` is called before anything behind the answer is looked at, so that a subscription's first event cannot overtake it.
   * `failed`: the host's error, or `runtime_not_ready` when the connection ended before the answer.
   */
  call<M extends HostMethod>(
    method: M,
    params: HostParams<M>,
    done: (value: HostResult<M>) => void,
    failed: (error: RoomdError) => void,
  ): void {
    const id = this.#nextId++
    this.#pending.set(id, {
      method,
      done: (value) => done(parseOutside(hostMethods[method].result, value, method) as HostResult<M>),
      failed,
    })
    try {
      this.#wire.send(FrameType.REQUEST, 0, encode({ id, method, params }))
    } catch (error) {
      // Too large: nothing was written.
      this.#pending.delete(id)
      failed(error instanceof RoomdError ? error : new RoomdError('internal', String(error)))
    }
  }

  request<M extends HostMethod>(method: M, params: HostParams<M>): Promise<HostResult<M>> {
    return new Promise((resolve, reject) => this.call(method, params, resolve, reject))
  }

  close(): void {
    this.#wire.end()
  }

  destroy(): void {
    this.#wire.destroy()
  }
}

function settle(pending: Map<number, Pending>, payload: Uint8Array): void {
  const response = parseOutside(Response, decode(payload), 'an answer of the kernel host')
  const waiting = pending.get(response.id)
  if (waiting === undefined) return
  pending.delete(response.id)
  if (response.ok) waiting.done(response.value)
  else waiting.failed(RoomdError.fromWire(response.error))
}

/** Joins the parts of large events. */
class Parts {
  #pieces: Uint8Array[] = []

  take(value: unknown): HostEvent | null {
    if (typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'part') {
      const part = parseOutside(HostPart, value, 'a part of an event')
      this.#pieces.push(part.bytes)
      if (!part.last) return null
      const whole = Buffer.concat(this.#pieces)
      this.#pieces = []
      return parseOutside(HostEvent, decode(whole), 'an event of the kernel host')
    }
    // A subscription that was replaced may have left the first parts of an event behind.
    this.#pieces = []
    return parseOutside(HostEvent, value, 'an event of the kernel host')
  }
}
