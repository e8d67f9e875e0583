/**
 * The host's socket: connections of daemons, their requests, and the one subscriber. Several connections may ask; the newest
 * subscriber gets the events and the older one is told and closed. The socket file is 0600; should its folder vanish (a runtime
 * folder at logout), it is made again.
 */
import { chmodSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { dirname } from 'node:path'
import type { z } from 'zod'
import type { Clock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { parseOutside, RoomdError, toWireError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import {
  HostHello,
  type HostMethod,
  HostRequest,
  type HostWelcome,
  hostMethods,
} from '../../protocol/kernel-host.ts'
import { accept } from '../../protocol/wire/handshake.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import type { Wire } from '../../protocol/wire/wire.ts'
import type { EventStream, Subscriber } from './event-stream.ts'

type Params<M extends HostMethod> = z.output<(typeof hostMethods)[M]['params']>
type Result<M extends HostMethod> = z.input<(typeof hostMethods)[M]['result']>

/** What the host does for each method; `subscribe` and `acknowledge` are the server's. */
export type HostActions = {
  [M in Exclude<HostMethod, 'subscribe' | 'acknowledge'>]: (
    params: Params<M>,
  ) => Result<M> | Promise<Result<M>>
}

export interface HostServerOptions {
  readonly socket: string
  readonly welcome: HostWelcome
  readonly events: EventStream
  readonly clock: Clock
  readonly actions: HostActions
  /** Number of daemons connected changed. */
  connected(count: number): void
  acknowledged(): void
  log(message: string): void
}

/** Larger events go out in parts of `PART_BYTES`, so that one of them neither breaks the cap nor holds others up. */
const WHOLE_BYTES = 4 * 1024 * 1024
const PART_BYTES = 1024 * 1024
const BACKLOG = 128
const LOOK_MS = 5_000
const DRAIN_MS = 2_000
/** How long an answer may wait for events to go with. */
const SENT_MS = 20
const ACKNOWLEDGED_MS = 250

export class HostServer {
  readonly #options: HostServerOptions
  readonly #wires = new Set<Wire>()
  #server: Server
  #subscribed: { wire: Wire; subscriber: Subscriber } | null = null
  #answers: { readonly wire: Wire; readonly response: object }[] = []
  #closed = false

  constructor(options: HostServerOptions) {
    this.#options = options
    this.#server = this.#listen()
    this.#watchFile()
  }

  get connections(): number {
    return this.#wires.size
  }

  /** Sends what is queued to each connection, then closes all. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const wire of this.#wires) wire.end(DRAIN_MS)
    await closed
  }

  #listen(): Server {
    const { socket } = this.#options
    mkdirSync(dirname(socket), { recursive: true, mode: 0o700 })
    // Whoever starts a host for this kernel has seen that no other lives: a file that is there is a dead host's.
    rmSync(socket, { force: true })
    const server = createServer((stream) => {
      stream.setNoDelay?.(true)
      void this.#accept(stream)
    })
    server.on('error', (error) => this.#options.log(`listening on ${socket} failed: ${error.message}`))
    const before = process.umask(0o177)
    try {
      server.listen({ path: socket, backlog: BACKLOG })
    } finally {
      process.umask(before)
    }
    server.once('listening', () => chmodSync(socket, 0o600))
    return server
  }

  #watchFile(): void {
    this.#options.clock.after(LOOK_MS, () => {
      if (this.#closed) return
      if (statSync(this.#options.socket, { throwIfNoEntry: false }) === undefined) {
        this.#options.log(`${this.#options.socket} vanished; listening again`)
        // Connections that were accepted live on.
        this.#server.close()
        this.#server = this.#listen()
      }
      this.#watchFile()
    })
  }

  async #accept(stream: import('node:net').Socket): Promise<void> {
    let wire: Wire | undefined
    try {
      await accept(socketTransport(stream), {
        hello: HostHello,
        clock: this.#options.clock,
        onHello: () => this.#options.welcome,
        handlers: (ready) => {
          wire = ready
          this.#wires.add(ready)
          this.#options.connected(this.#wires.size)
          return {
            value: (type, _channel, payload) => {
              if (type === FrameType.REQUEST) void this.#request(ready, payload)
            },
            writable: () => {
              if (this.#subscribed?.wire === ready) this.#options.events.writable()
            },
            closed: (end) => {
              this.#forget(ready)
              this.#options.log(`a daemon's connection ended: ${end.message}`)
            },
          }
        },
      })
    } catch (error) {
      this.#options.log(`a connection was refused: ${toWireError(error).message}`)
      if (wire !== undefined) this.#forget(wire)
    }
  }

  #forget(wire: Wire): void {
    if (!this.#wires.delete(wire)) return
    if (this.#subscribed?.wire === wire) {
      this.#options.events.unsubscribe(this.#subscribed.subscriber)
      this.#subscribed = null
    }
    this.#options.connected(this.#wires.size)
  }

  async #request(wire: Wire, payload: Uint8Array): Promise<void> {
    const request = parseOutside(HostRequest, decode(payload), 'a request to the kernel host')
    try {
      const outcome = this.#dispatch(wire, request)
      // What is known at once is answered at once.
      const value = outcome instanceof Promise ? await outcome : outcome
      if (value === null) return
      const response = { id: request.id, ok: true, value }
      // Nobody's next step waits for these two: they go with the events that follow, and the daemon wakes up once.
      if (request.method === 'send') this.#later(wire, response, SENT_MS)
      else if (request.method === 'acknowledge') this.#later(wire, response, ACKNOWLEDGED_MS)
      else answer(wire, response)
    } catch (error) {
      answer(wire, { id: request.id, ok: false, error: toWireError(error) })
    }
  }

  #later(wire: Wire, response: object, ms: number): void {
    this.#answers.push({ wire, response })
    this.#options.clock.after(ms, () => this.#answerNow())
  }

  /** Sends the answers that waited for company. */
  #answerNow(): void {
    if (this.#answers.length === 0) return
    for (const { wire, response } of this.#answers.splice(0)) answer(wire, response)
  }

  /** null: already answered. */
  #dispatch(wire: Wire, { id, method, params }: HostRequest): object | null | Promise<object> {
    const { actions, events } = this.#options
    switch (method) {
      case 'subscribe': {
        const { since } = parseOutside(hostMethods.subscribe.params, params, method)
        const status = actions.status({}) as object
        // The answer goes first: everything behind it belongs to this subscription.
        answer(wire, { id, ok: true, value: status })
        this.#subscribe(wire, since)
        return null
      }
      case 'acknowledge':
        events.acknowledge(parseOutside(hostMethods.acknowledge.params, params, method).seq)
        this.#options.acknowledged()
        return {}
      case 'status':
        return actions.status(parseOutside(hostMethods.status.params, params, method))
      case 'send':
        return actions.send(parseOutside(hostMethods.send.params, params, method))
      case 'configure':
        return actions.configure(parseOutside(hostMethods.configure.params, params, method))
      case 'interrupt':
        return actions.interrupt(parseOutside(hostMethods.interrupt.params, params, method))
      case 'shutdown':
        return actions.shutdown(parseOutside(hostMethods.shutdown.params, params, method))
      default:
        throw new RoomdError(
          'unsupported',
          `this kernel host (version ${this.#options.welcome.version}) does not know "${method}"; it is replaced when its kernel is restarted`,
        )
    }
  }

  #subscribe(wire: Wire, since: number): void {
    const before = this.#subscribed
    if (before !== null && before.wire !== wire)
      before.wire.fail('session_superseded', 'another daemon took over this kernel')
    const subscriber = subscriberOn(wire, () => this.#answerNow())
    this.#subscribed = { wire, subscriber }
    this.#options.events.subscribe(subscriber, since)
  }
}

function answer(wire: Wire, response: object): void {
  wire.send(FrameType.RESPONSE, 0, encode(response))
}

function subscriberOn(wire: Wire, flushing: () => void): Subscriber {
  /** Bytes of a large event that are already with the wire. */
  let sent = 0
  return {
    flushing,
    offer(payload, seq) {
      if (payload.length <= WHOLE_BYTES) return wire.offer(FrameType.EVENT, 0, payload)
      while (sent < payload.length) {
        const end = Math.min(sent + PART_BYTES, payload.length)
        const part = { kind: 'part', seq, bytes: payload.subarray(sent, end), last: end === payload.length }
        if (!wire.offer(FrameType.EVENT, 0, encode(part))) return false
        sent = end
      }
      sent = 0
      return true
    },
  }
}
