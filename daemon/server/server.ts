/**
 * All connections of the daemon, whatever listener they came from. Does the handshake, holds what needs rooms until they are
 * ready, and leads everybody out at the end.
 */
import type { Logger } from 'pino'
import type { z } from 'zod'
import { type GoAway, Hello, type Welcome } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { encode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { EDITS_TOGETHER } from '../../protocol/events.ts'
import { FrameType, frameRules, INITIAL_CREDIT, MAX_FRAME_PAYLOAD } from '../../protocol/frames.ts'
import { DAEMON_EVENTS, type DaemonEvent } from '../../protocol/projects.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { API_VERSION, VERSION } from '../../protocol/version.ts'
import { accept } from '../../protocol/wire/handshake.ts'
import type { Transport } from '../../protocol/wire/transport.ts'
import type { PeerIdentity, Rooms } from '../rooms/seam.ts'
import { Connection } from './connection.ts'
import { ConnectionMethods, type DaemonProcess } from './connection-methods.ts'
import { countedTransport } from './counted-transport.ts'
import { cleanLabel } from './label.ts'
import { RoomsGate } from './rooms-gate.ts'

/** How often living connections are told to the rooms, so that a client that only listens does not count as silent. */
const TOUCH_MS = 30_000

type ParsedHello = z.output<typeof Hello>

export interface ServerOptions {
  readonly process: DaemonProcess
  readonly clock: Clock
  readonly log: Logger
}

/** What is known of a connection beside its transport and scope. */
export interface Arrival {
  /** The only rooms its token reaches; absent or null: all. */
  readonly rooms?: PeerIdentity['rooms']
  readonly transport?: 'unix' | 'websocket'
}

/** A connection that was taken over, for whoever let it in. */
export interface Accepted {
  /** Tells the client why and ends the connection. */
  end(error: RoomdError): void
}

export class Server {
  readonly #options: ServerOptions
  readonly #gate = new RoomsGate()
  readonly #methods: ConnectionMethods
  readonly #connections = new Set<Connection>()
  /** Transports whose handshake is not done. */
  readonly #arriving = new Set<Transport>()
  #accepted = 0
  #stopping = false
  #closed = false
  #whenEmpty: (() => void) | null = null

  constructor(options: ServerOptions) {
    this.#options = options
    this.#methods = new ConnectionMethods({
      process: options.process,
      gate: this.#gate,
      now: () => options.clock.now(),
      connections: () => this.#connections.size,
    })
    this.#touchLater()
  }

  /** Connections whose handshake is done. */
  get connections(): number {
    return this.#connections.size
  }

  /** Takes over a transport, in the turn in which it was made. `scope`: the most its client may have. */
  accept(given: Transport, scope: Scope, more: Arrival = {}): Accepted {
    if (this.#closed) {
      given.destroy()
      return { end: () => undefined }
    }
    const { clock, log } = this.#options
    const transport = countedTransport(given, more.transport ?? 'unix')
    this.#arriving.add(transport)
    let arrived: Connection | null = null
    accept(transport, {
      hello: Hello,
      clock,
      onHello: (hello) => this.#welcome(hello, scope),
      handlers: (wire, hello) => {
        this.#arriving.delete(transport)
        const connection = new Connection({
          wire,
          identity: this.#identity(hello, scope, more.rooms ?? null),
          wantsEvents: hello.features.includes(DAEMON_EVENTS) && !more.rooms,
          gate: this.#gate,
          methods: this.#methods,
          clock,
          log,
          stopping: () => this.#stopping,
          ended: (ended, end) => {
            this.#connections.delete(ended)
            log.debug(
              { ...describe(ended.identity), cause: end.cause, reason: end.message },
              'connection ended',
            )
            if (this.#connections.size === 0) this.#whenEmpty?.()
          },
        })
        arrived = connection
        this.#connections.add(connection)
        log.debug(describe(connection.identity), 'connection')
        return connection.handlers
      },
    }).catch((error) => {
      this.#arriving.delete(transport)
      // The other side was told where it could be; probes that only connect are daily business.
      log.debug({ err: error }, 'handshake failed')
    })
    return {
      end: (error) => {
        if (arrived) arrived.refuse(error)
        else transport.destroy()
      },
    }
  }

  /** Rooms are ready: what was held runs. */
  ready(rooms: Rooms): void {
    this.#gate.open(rooms)
  }

  get rooms(): Rooms | null {
    return this.#gate.rooms
  }

  /** Resolves when they are ready. */
  whenReady(): Promise<Rooms> {
    return this.#gate.wait()
  }

  get stopping(): boolean {
    return this.#stopping
  }

  /** Tells every connection that asked for what happens beyond its rooms. */
  tell(event: DaemonEvent): void {
    const payload = encode({ at: this.#options.clock.now(), event })
    for (const connection of this.#connections) connection.tell(payload)
  }

  /** Tells all that the daemon goes, and takes no new work from now on. */
  startStopping(goAway: GoAway): void {
    this.#stopping = true
    for (const connection of this.#connections) connection.goAway(goAway)
  }

  /** The daemon could not stop: takes work again. Clients that left on GOAWAY come back by themselves. */
  goOn(): void {
    this.#stopping = false
  }

  /** Ends all connections: what is queued is sent, for at most `drainMs`. Nothing is accepted any more. Idempotent. */
  async close(drainMs: number): Promise<void> {
    this.#closed = true
    for (const transport of this.#arriving) transport.destroy()
    this.#arriving.clear()
    if (this.#connections.size === 0) return
    await new Promise<void>((resolve) => {
      const late = this.#options.clock.after(drainMs, () => {
        for (const connection of [...this.#connections]) connection.destroy('the daemon stopped')
        resolve()
      })
      this.#whenEmpty = () => {
        late()
        resolve()
      }
      for (const connection of [...this.#connections]) connection.end(drainMs)
    })
  }

  #welcome(hello: ParsedHello, scope: Scope): Welcome {
    if (this.#stopping) {
      throw new RoomdError('shutting_down', 'the daemon is shutting down; connect again to the next one')
    }
    const { process: daemon } = this.#options
    return {
      boot_id: daemon.bootId,
      pid: process.pid,
      started_at: daemon.startedAt,
      version: VERSION,
      api_version: API_VERSION,
      features: [DAEMON_EVENTS, EDITS_TOGETHER],
      limits: {
        frame_payload: MAX_FRAME_PAYLOAD,
        credit: INITIAL_CREDIT,
        request: frameRules[FrameType.REQUEST].cap,
      },
      scope,
      ...daemon.instance(hello.client_instance),
    }
  }

  /** An id that no other connection of this daemon has. */
  nextConnectionId(): string {
    return String(++this.#accepted)
  }

  #identity(hello: ParsedHello, scope: Scope, rooms: PeerIdentity['rooms'] | null): PeerIdentity {
    return {
      connectionId: this.nextConnectionId(),
      clientInstance: hello.client_instance,
      label: cleanLabel(hello.label, hello.client.name),
      kind: hello.kind,
      scope,
      rooms: rooms ?? null,
      editsTogether: hello.features.includes(EDITS_TOGETHER),
    }
  }

  #touchLater(): void {
    this.#options.clock.after(TOUCH_MS, () => {
      if (this.#closed) return
      for (const connection of this.#connections) {
        if (connection.idle < TOUCH_MS) connection.touch()
      }
      this.#touchLater()
    })
  }
}

function describe(identity: PeerIdentity): Record<string, string> {
  const { connectionId, clientInstance, label, kind, scope } = identity
  return { connection: connectionId, client_instance: clientInstance, label, kind, scope }
}
