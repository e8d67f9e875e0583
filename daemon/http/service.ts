/**
 * The HTTP side of the daemon: tokens, the listener, and what its WebSockets lead to. A port that cannot be had, or a token file
 * that others could read, keeps nobody from working over the Unix socket: it is logged, and `status.http` stays null.
 *
 * The port that the system chose once is asked for again at the next start, so that open pages and editors find the daemon
 * again; a port that the settings name is waited for.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Settings } from '../../protocol/config.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { type BlobHash, type BootId, ClientInstance, NotebookId } from '../../protocol/ids.ts'
import type { Places } from '../../protocol/places.ts'
import { type WebSocketLike, webSocketTransport } from '../../protocol/wire/websocket-transport.ts'
import { cleanLabel } from '../server/label.ts'
import type { Server } from '../server/server.ts'
import { HttpListener, type SocketRoute } from './listener.ts'
import type { MetricSources } from './metrics.ts'
import { Tokens } from './tokens.ts'
import { YjsChannel } from './yjs-channel.ts'
import { closeCodeOf, closeReason } from './yjs-close.ts'

/** How often a port of the settings that is taken is asked for again. */
const PORT_RETRY_MS = 3_000

export interface HttpServiceOptions {
  readonly settings: Settings['http']
  readonly places: Pick<Places, 'state'>
  readonly server: Server
  readonly bootId: BootId
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: MetricSources
  blobFile(hash: BlobHash): string
  /** The port changed: where it is told must be told again. */
  changed(): void
}

export class HttpService {
  readonly #options: HttpServiceOptions
  readonly #portFile: string
  #tokens: Tokens | null = null
  #listener: HttpListener | null = null
  #stopRetry = () => {}
  #closed = false

  /** Listens if it can; never rejects. */
  static async start(options: HttpServiceOptions): Promise<HttpService> {
    const service = new HttpService(options)
    if (options.settings.enabled) await service.#start()
    return service
  }

  private constructor(options: HttpServiceOptions) {
    this.#options = options
    this.#portFile = join(options.places.state, 'http-port')
  }

  get url(): string | null {
    return this.#listener?.url ?? null
  }

  get port(): number | null {
    return this.#listener?.port ?? null
  }

  get tokens(): Tokens | null {
    return this.#tokens
  }

  /** Open WebSockets of both kinds. */
  get open(): number {
    return this.#listener?.open ?? 0
  }

  /** Accepts nothing more. Idempotent. */
  close(): void {
    this.#closed = true
    this.#stopRetry()
    this.#listener?.close()
  }

  async #start(): Promise<void> {
    const { places, clock, log } = this.#options
    try {
      this.#tokens = new Tokens(places.state, clock)
    } catch (error) {
      log.error({ err: error }, 'no HTTP listener: its tokens cannot be used')
      return
    }
    await this.#listen(this.#tokens)
  }

  async #listen(tokens: Tokens): Promise<void> {
    const { settings, log, clock } = this.#options
    const wanted = settings.port
    try {
      this.#listener = await this.#first(tokens, wanted === 0 ? [this.#rememberedPort(), 0] : [wanted])
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      log.error(
        { port: wanted, reason },
        'the HTTP port cannot be had; the daemon serves without it and tries again',
      )
      this.#stopRetry = clock.after(PORT_RETRY_MS, () => {
        if (!this.#closed) void this.#listen(tokens)
      })
      return
    }
    if (this.#closed) {
      this.#listener.close()
      return
    }
    if (wanted === 0) this.#rememberPort(this.#listener.port)
    log.info({ http: this.#listener.url }, 'listening')
    this.#options.changed()
  }

  async #first(tokens: Tokens, ports: readonly (number | null)[]): Promise<HttpListener> {
    let failure: unknown = new Error('no port')
    for (const port of ports) {
      if (port === null) continue
      try {
        return await HttpListener.listen({ ...this.#listenerOptions(tokens), port })
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }

  #listenerOptions(tokens: Tokens) {
    const { settings, bootId, clock, log, metrics, blobFile } = this.#options
    return {
      hosts: settings.hosts,
      bootId,
      tokens,
      clock,
      log,
      metrics,
      blobFile,
      socket: this.#frames,
      yjs: this.#yjs,
    }
  }

  readonly #frames: SocketRoute = (socket, { access }) =>
    this.#options.server.accept(webSocketTransport(socket as WebSocketLike), access.scope, {
      rooms: access.rooms,
      transport: 'websocket',
    })

  readonly #yjs: SocketRoute = (socket, { access, query, name }) => {
    const { server, clock, log } = this.#options
    const notebookId = NotebookId.safeParse(name)
    if (!notebookId.success) {
      const error = new RoomdError(
        'not_found',
        'a room is named by its id, a UUID; "roomd ps --json" shows it',
      )
      socket.on('error', (failure) => log.debug({ reason: failure.message }, 'yjs connection failed'))
      socket.close(closeCodeOf(error), closeReason(error.message))
      return { end: () => {} }
    }
    const connectionId = server.nextConnectionId()
    return new YjsChannel({
      socket,
      notebookId: notebookId.data,
      identity: {
        connectionId,
        clientInstance: ClientInstance.parse(`yjs-${this.#options.bootId.slice(0, 8)}-${connectionId}`),
        label: cleanLabel(query.get('label') ?? '', 'Yjs editor'),
        kind: 'editor',
        scope: access.scope,
        rooms: access.rooms,
      },
      clock,
      log,
      rooms: () => server.whenReady(),
      stopping: () => server.stopping,
    })
  }

  /** Only a help: without it the system chooses anew. */
  #rememberedPort(): number | null {
    try {
      const port = Number(readFileSync(this.#portFile, 'utf8'))
      return Number.isInteger(port) && port >= 1024 && port <= 65_535 ? port : null
    } catch {
      return null
    }
  }

  #rememberPort(port: number): void {
    try {
      writeFileSync(this.#portFile, `${port}\n`, { mode: 0o600 })
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the HTTP port could not be remembered')
    }
  }
}
