/** A real daemon in a home of its own, and the ways to its HTTP listener. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import * as Y from 'yjs'
import type { Client } from '../../client/sdk/client.ts'
import { type ConnectOptions, connect } from '../../client/sdk/connect.ts'
import type { MethodParams, MethodResult } from '../../protocol/methods.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { until } from '../support/until.ts'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly text: string
}

export class HttpFixture {
  readonly home: TestHome
  /** The owner, over the Unix socket. */
  readonly owner: Client
  readonly url: string
  readonly ownerToken: string
  daemon: TestDaemon
  readonly #ends: (() => unknown)[] = []

  static async start(settings: object = {}): Promise<HttpFixture> {
    const home = createHome()
    try {
      mkdirSync(home.places.config, { recursive: true, mode: 0o700 })
      writeFileSync(
        join(home.places.config, 'config.json'),
        JSON.stringify({ pool: { generic: false }, ...settings }),
      )
      const daemon = await startDaemon(home)
      const owner = await connect({ env: home.env, label: 'Owner' })
      const { http } = await owner.call('status', {})
      if (http === null) throw new Error('the daemon has no HTTP listener')
      const token = readFileSync(join(home.places.state, 'token'), 'utf8').trim()
      return new HttpFixture(home, daemon, owner, http, token)
    } catch (error) {
      await home.dispose()
      throw error
    }
  }

  private constructor(home: TestHome, daemon: TestDaemon, owner: Client, url: string, ownerToken: string) {
    this.home = home
    this.daemon = daemon
    this.owner = owner
    this.url = url
    this.ownerToken = ownerToken
  }

  get port(): number {
    return Number(new URL(this.url).port)
  }

  get wsUrl(): string {
    return this.url.replace('http:', 'ws:')
  }

  /** The daemon killed and started again. */
  async killAndStart(): Promise<void> {
    await this.daemon.kill9()
    this.daemon = await startDaemon(this.home)
  }

  async token(asked: MethodParams<'create_token'>): Promise<MethodResult<'create_token'>> {
    return this.owner.call('create_token', asked)
  }

  /** One request; the path is sent as it is. */
  get(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const asked = httpRequest({ host: '127.0.0.1', port: this.port, path, method, headers, agent: false })
      asked.on('error', reject)
      asked.on('response', (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => pieces.push(piece))
        response.on('error', reject)
        response.on('end', () => {
          const body = Buffer.concat(pieces)
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body,
            text: body.toString('utf8'),
          })
        })
      })
      asked.end()
    })
  }

  /** As the owner's token allows. */
  getAsOwner(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
    return this.get(path, { authorization: `Bearer ${this.ownerToken}`, ...headers }, method)
  }

  /** The status that an upgrade is answered with; 101 is closed at once. `setCookie` is what it set. */
  upgrade(
    path: string,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; setCookie: string | undefined }> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(`${this.wsUrl}${path}`, { headers })
      socket.on('unexpected-response', (_request, response) => {
        response.resume()
        resolve({ status: response.statusCode ?? 0, setCookie: undefined })
      })
      let setCookie: string | undefined
      socket.on('upgrade', (response) => {
        setCookie = response.headers['set-cookie']?.[0]
      })
      socket.on('open', () => {
        socket.terminate()
        resolve({ status: 101, setCookie })
      })
      socket.on('error', (error) => {
        if (!error.message.startsWith('Unexpected server response')) reject(error)
      })
    })
  }

  async connect(options: ConnectOptions): Promise<Client> {
    const client = await connect({ env: {}, url: this.url, waitMs: 30_000, ...options })
    this.#ends.push(() => client.close())
    return client
  }

  /** A notebook with these cells, `c0` and so on, opened as a room; resolves with its id. */
  async room(name: string, sources: readonly string[]): Promise<string> {
    const path = join(this.home.work, name)
    const cells = sources.map((source, i) => ({
      cell_type: 'code',
      execution_count: null,
      id: `c${i}`,
      metadata: {},
      outputs: [],
      source,
    }))
    const metadata = {
      kernelspec: { name: 'javascript', display_name: 'JavaScript', language: 'javascript' },
    }
    writeFileSync(path, JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }))
    const room = await this.owner.openRoom({ path })
    return room.id
  }

  /** y-websocket's own provider. `token`: in its header, as programs send it. */
  provider(notebookId: string, token: string = this.ownerToken, doc = new Y.Doc()): WebsocketProvider {
    class Authorized extends WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols ?? [], { headers: { authorization: `Bearer ${token}` } })
      }
    }
    const provider = new WebsocketProvider(`${this.wsUrl}/yjs`, notebookId, doc, {
      WebSocketPolyfill: Authorized as unknown as typeof globalThis.WebSocket,
      disableBc: true,
      maxBackoffTime: 200,
    })
    this.#ends.push(() => provider.destroy())
    return provider
  }

  later(end: () => unknown): void {
    this.#ends.push(end)
  }

  async dispose(): Promise<void> {
    for (const end of this.#ends.reverse()) await Promise.resolve(end()).catch(() => {})
    await this.owner.close().catch(() => {})
    await this.home.dispose()
  }
}

export const synced = (provider: WebsocketProvider): Promise<unknown> =>
  until('the provider to have synced', () => provider.synced)

/** The source of cell `index` in a Yjs notebook. */
export function sourceOf(doc: Y.Doc, index: number): Y.Text {
  const cells: Y.Array<Y.Map<unknown>> = doc.getArray('cells')
  return cells.get(index).get('source') as Y.Text
}
