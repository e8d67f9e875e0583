/**
 * The one HTTP listener: 127.0.0.1 and nothing else. Owns the server, its port and its open sockets; every request passes
 * `Admission` before a route sees it, but `/healthz`, which gives away nothing but that a daemon runs.
 *
 * Addresses are matched as they came, by whole patterns: nothing is decoded or resolved into a path on disk. Nothing of the
 * query, and no header, is ever logged.
 */
import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError, toWireError } from '../../protocol/errors.ts'
import type { BlobHash, BootId } from '../../protocol/ids.ts'
import { measures } from '../measures.ts'
import { type Access, allowsAll } from './access.ts'
import { addressOf, socketRoute } from './addresses.ts'
import { Admission, type Admitted } from './admission.ts'
import { answerJson, answerUpgrade, COMMON, REASONS } from './answers.ts'
import { serveBlob } from './blob-route.ts'
import { Cookies } from './cookies.ts'
import type { MetricSources } from './metrics.ts'
import { Origins } from './origin.ts'
import { servePage } from './page-route.ts'
import { Refusal, statusOf } from './refusal.ts'
import type { Tokens } from './tokens.ts'

/** Headers of a request must be here within this time. */
const HEADERS_MS = 10_000
/** Largest WebSocket message: more than any frame or document update may have, so that its own rule refuses it with words. */
const MAX_MESSAGE = 65 * 1024 * 1024
/** Named tokens may expire while a connection that was made with one lasts. */
const EXPIRY_LOOK_MS = 30_000

/** A connection that was upgraded. */
export interface Upgraded {
  readonly access: Access
  readonly query: URLSearchParams
  /** The matched part of the path, `''` where it has none. */
  readonly name: string
}

/** What takes a WebSocket over, in the turn in which it opened. Returns how to end it when its token ends. */
export type SocketRoute = (socket: WebSocket, upgraded: Upgraded) => { end(why: RoomdError): void }

export interface HttpOptions {
  /** 0: a free one. */
  readonly port: number
  readonly hosts: readonly string[]
  readonly bootId: BootId
  readonly tokens: Tokens
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: MetricSources
  blobFile(hash: BlobHash): string
  /** `/v1/socket`. */
  readonly socket: SocketRoute
  /** `/yjs/{notebook_id}`. Throws Refusal for an access that does not reach the room. */
  readonly yjs: SocketRoute
}

interface Live {
  readonly access: Access
  readonly end: (why: RoomdError) => void
}

export class HttpListener {
  readonly #options: HttpOptions
  readonly #server: HttpServer
  readonly #sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
    clientTracking: false,
  })
  readonly #live = new Set<Live>()
  /** For the answers of upgrades that are under way. */
  readonly #cookies = new WeakMap<IncomingMessage, string>()
  readonly #admission: Admission
  readonly port: number
  #metrics: Promise<{ text(): Promise<string>; contentType: string }> | null = null
  #stopLooking = () => {}
  #closed = false

  /** Listens, or throws the system's error (`EADDRINUSE`: the port is taken). */
  static async listen(options: HttpOptions): Promise<HttpListener> {
    const server = createServer({
      headersTimeout: HEADERS_MS,
      requestTimeout: HEADERS_MS,
      connectionsCheckingInterval: HEADERS_MS,
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: '127.0.0.1', port: options.port }, () => {
        server.removeListener('error', reject)
        resolve()
      })
    })
    return new HttpListener(options, server)
  }

  private constructor(options: HttpOptions, server: HttpServer) {
    this.#options = options
    this.#server = server
    this.port = (server.address() as AddressInfo).port
    const { tokens, clock, hosts } = options
    this.#admission = new Admission({
      tokens,
      clock,
      cookies: new Cookies(this.port, tokens.cookieKey()),
      origins: new Origins(this.port, hosts),
    })
    tokens.ended = (tokenId) => this.#endOf((access) => access.tokenId === tokenId)
    // An accept that fails (no descriptor left) costs one connect, never the daemon.
    server.on('error', (error) => options.log.warn({ reason: error.message }, 'http listener'))
    server.on('request', (request, response) => void this.#request(request, response))
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
    server.on('clientError', (error, socket) => this.#malformed(error, socket))
    this.#sockets.on('headers', (headers: string[], request: IncomingMessage) => {
      const cookie = this.#cookies.get(request)
      if (cookie !== undefined) headers.push(`Set-Cookie: ${cookie}`)
    })
    this.#lookLater()
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Open WebSockets. */
  get open(): number {
    return this.#live.size
  }

  /** Accepts nothing more and ends what is idle; WebSockets are ended by those who took them over. Idempotent. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#stopLooking()
    this.#options.tokens.ended = () => {}
    this.#server.close()
    this.#server.closeIdleConnections()
    this.#server.unref()
  }

  // --- requests ------------------------------------------------------------------------------------------------------

  async #request(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {}) // the client left; nothing is owed to it
    for (const [name, value] of Object.entries(COMMON)) response.setHeader(name, value)
    try {
      await this.#route(request, response)
    } catch (thrown) {
      this.#refuse(request, response, thrown)
    }
    measures.httpAnswers.add(String(response.statusCode))
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { path, query } = addressOf(request)
    if (path === '/healthz') {
      mustRead(request)
      answerJson(response, 200, { status: 'ok', boot_id: this.#options.bootId })
      return
    }
    const admitted = this.#admission.admit(request, query, path === '/' ? 'page' : 'other')
    if (admitted.setCookie) response.setHeader('Set-Cookie', admitted.setCookie)
    mustRead(request)
    const blob = /^\/blob\/([^/]*)$/.exec(path)
    if (path === '/') servePage(response)
    else if (blob) await serveBlob(blob[1] ?? '', query, request, response, this.#options.blobFile)
    else if (path === '/metrics') await this.#serveMetrics(admitted, response)
    else if (socketRoute(path)) {
      response.setHeader('Upgrade', 'websocket')
      throw new Refusal(426, new RoomdError('invalid_argument', 'this address speaks WebSocket only'))
    } else throw nothingThere(path)
  }

  async #serveMetrics({ access }: Admitted, response: ServerResponse): Promise<void> {
    if (!allowsAll(access, 'viewer')) throw forbidden('a token that is bound to a room does not read metrics')
    this.#metrics ??= import('./metrics.ts').then(({ Metrics }) => new Metrics(this.#options.metrics))
    const metrics = await this.#metrics
    response
      .writeHead(200, { 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' })
      .end(await metrics.text())
  }

  #refuse(request: IncomingMessage, response: ServerResponse, thrown: unknown): void {
    const refusal = this.#refusalOf(thrown)
    this.#log(request, refusal)
    if (response.headersSent) {
      response.destroy()
      return
    }
    answerJson(response, refusal.status, { error: refusal.error }, refusal.headers)
  }

  // --- upgrades ------------------------------------------------------------------------------------------------------

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => {}) // reported by 'close' to whoever has it
    try {
      const { path, query } = addressOf(request)
      const admitted = this.#admission.admit(request, query, 'socket')
      const route = socketRoute(path)
      if (!route) throw nothingThere(path)
      if (this.#closed) throw new Refusal(503, new RoomdError('shutting_down', 'the daemon is going away'))
      const take = route.kind === 'frames' ? this.#options.socket : this.#options.yjs
      if (route.kind === 'yjs') mustReach(admitted.access, route.name)
      if (admitted.setCookie) this.#cookies.set(request, admitted.setCookie)
      this.#sockets.handleUpgrade(request, socket, head, (webSocket) => {
        measures.httpAnswers.add('101')
        const { access } = admitted
        const taken = take(webSocket, { access, query, name: route.name })
        const live: Live = { access, end: (why) => taken.end(why) }
        this.#live.add(live)
        webSocket.once('close', () => this.#live.delete(live))
      })
    } catch (thrown) {
      const refusal = this.#refusalOf(thrown)
      this.#log(request, refusal)
      measures.httpAnswers.add(String(refusal.status))
      answerUpgrade(socket, refusal)
    }
  }

  #endOf(which: (access: Access) => boolean): void {
    for (const live of [...this.#live]) {
      if (which(live.access))
        live.end(new RoomdError('unauthorized', 'the token of this connection has ended'))
    }
  }

  #lookLater(): void {
    const { clock, tokens } = this.#options
    this.#stopLooking = clock.after(EXPIRY_LOOK_MS, () => {
      this.#endOf(({ tokenId }) => tokenId !== null && !tokens.holds(tokenId))
      this.#lookLater()
    })
  }

  // --- failures ------------------------------------------------------------------------------------------------------

  #malformed(error: Error & { code?: string }, socket: Duplex): void {
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400
    measures.httpAnswers.add(String(status))
    socket.end(`HTTP/1.1 ${status} ${REASONS[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  }

  #refusalOf(thrown: unknown): Refusal {
    if (thrown instanceof Refusal) return thrown
    if (!(thrown instanceof RoomdError))
      this.#options.log.error({ err: thrown }, 'unexpected failure of an HTTP request')
    return new Refusal(statusOf(thrown), RoomdError.fromWire(toWireError(thrown)))
  }

  #log(request: IncomingMessage, { status, message }: Refusal): void {
    const path = (request.url ?? '').split('?', 1)[0]?.slice(0, 200)
    this.#options.log.debug({ method: request.method, path, status, reason: message }, 'http request refused')
  }
}

function mustRead(request: IncomingMessage): void {
  if (request.method === 'GET' || request.method === 'HEAD') return
  throw new Refusal(405, new RoomdError('invalid_argument', 'only GET and HEAD are answered here'))
}

function nothingThere(path: string): Refusal {
  return new Refusal(404, new RoomdError('not_found', `there is nothing at ${path.slice(0, 200)}`))
}

function forbidden(why: string): Refusal {
  return new Refusal(403, new RoomdError('forbidden', why))
}

function mustReach(access: Access, name: string): void {
  const reaches = access.rooms === null || [...access.rooms].some((room) => room === name.toLowerCase())
  if (!reaches) throw forbidden('this token is bound to another room')
}
