/** A server over a real Unix socket with scripted rooms, and a raw client that speaks frames to it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { DaemonProcess } from '../../daemon/server/connection-methods.ts'
import { listenUnix } from '../../daemon/server/listener.ts'
import { Server } from '../../daemon/server/server.ts'
import { type Hello, type Open, type Request, Welcome } from '../../protocol/channels.ts'
import { type Clock, systemClock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { FrameType } from '../../protocol/frames.ts'
import { BootId } from '../../protocol/ids.ts'
import type { Scope } from '../../protocol/scopes.ts'
import { dial } from '../../protocol/wire/dial.ts'
import { offer } from '../../protocol/wire/handshake.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import type { Wire, WireEnd } from '../../protocol/wire/wire.ts'
import { until, within } from '../support/until.ts'
import { deferred, ScriptedRooms } from './scripted-rooms.ts'

export const bootId = BootId.parse('44444444-4444-4444-8444-444444444444')

export interface TestServer {
  readonly path: string
  readonly server: Server
  readonly rooms: ScriptedRooms
  connect(hello?: Partial<Hello>): Promise<TestClient>
  dispose(): Promise<void>
}

export interface TestServerOptions {
  readonly clock?: Clock
  readonly scope?: Scope
  /** false: the rooms are not ready until the test says so. */
  readonly ready?: boolean
  readonly process?: Partial<DaemonProcess>
}

export async function startServer(options: TestServerOptions = {}): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-server-'))
  const path = join(folder, 's')
  const rooms = new ScriptedRooms()
  const server = new Server({
    clock: options.clock ?? systemClock,
    log: pino({ level: 'silent' }),
    process: {
      bootId,
      startedAt: systemClock.now(),
      socket: path,
      http: async () => ({
        url: null,
        tokens: {
          create: () => ({ token: 't', token_id: 'a', expires_at: null }),
          list: () => [],
          revoke: (token_id) => ({
            token_id,
            label: '',
            scope: 'viewer',
            notebook_id: null,
            created_at: 0,
            expires_at: null,
          }),
        },
      }),
      storeHealth: () => ({ state: 'ok', size: 5, pending: 0 }),
      instance: () => rooms.instance(),
      ledger: async () => ({}),
      readBlob: async () => new Uint8Array(),
      stop: async () => ({ rooms: 0, kernels_kept: 0 }),
      ...options.process,
    },
  })
  if (options.ready !== false) server.ready(rooms)
  const listener = await listenUnix(path, (socket) =>
    server.accept(socketTransport(socket), options.scope ?? 'owner'),
  )
  const clients: TestClient[] = []
  return {
    path,
    server,
    rooms,
    async connect(hello = {}) {
      const client = await TestClient.connect(path, hello)
      clients.push(client)
      return client
    },
    async dispose() {
      for (const client of clients) client.wire.destroy()
      await listener.close()
      await until('all connections to end', () => server.connections === 0)
      await server.close(0)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export interface Received {
  readonly type: FrameType
  readonly channel: number
  /** Decoded; raw bytes for DOC, EPHEMERAL and BLOB. */
  readonly value: unknown
}

type Answer = {
  id: number
  ok: boolean
  value?: unknown
  error?: { code: string; message: string; retryable: boolean }
}

export class TestClient {
  readonly welcome: Welcome
  readonly wire: Wire
  /** Everything received, in order. */
  readonly received: Received[]
  readonly #ended: Promise<WireEnd>
  readonly #reading: { held: Promise<void> | null }
  #nextId = 1

  static async connect(path: string, hello: Partial<Hello> = {}): Promise<TestClient> {
    const received: Received[] = []
    const reading: { held: Promise<void> | null } = { held: null }
    let end: (end: WireEnd) => void = () => {}
    const ended = new Promise<WireEnd>((resolve) => {
      end = resolve
    })
    const { wire, welcome } = await offer(
      socketTransport(await dial(path)),
      {
        client_instance: 'test-client-1',
        client: { name: 'test', version: '1', pid: process.pid },
        label: 'Tester',
        kind: 'editor',
        ...hello,
      },
      {
        welcome: Welcome,
        handlers: () => ({
          value(type, channel, payload) {
            const raw = type === FrameType.DOC || type === FrameType.EPHEMERAL || type === FrameType.BLOB
            received.push({ type, channel, value: raw ? payload : decode(payload) })
            return reading.held ?? undefined
          },
          closed: end,
        }),
      },
    )
    return new TestClient(wire, welcome, received, ended, reading)
  }

  private constructor(
    wire: Wire,
    welcome: Welcome,
    received: Received[],
    ended: Promise<WireEnd>,
    reading: { held: Promise<void> | null },
  ) {
    this.#reading = reading
    this.wire = wire
    this.welcome = welcome
    this.received = received
    this.#ended = ended
  }

  /** Gives no credit back for what comes from now on, until the returned function is called. */
  stopReading(): () => void {
    const { promise, resolve } = deferred<void>()
    this.#reading.held = promise
    return () => {
      this.#reading.held = null
      resolve()
    }
  }

  /** How the connection ended, once it has. */
  ended(): Promise<WireEnd> {
    return within('the connection to end', this.#ended)
  }

  send(type: FrameType, channel: number, value: unknown): void {
    this.wire.send(type, channel, value instanceof Uint8Array ? value : encode(value))
  }

  /** The first value of a type and channel, whenever it came. */
  async next(type: FrameType, channel: number): Promise<unknown> {
    const found = await until(`a value of type 0x${type.toString(16)} on channel ${channel}`, () =>
      this.received.find((one) => one.type === type && one.channel === channel),
    )
    return found.value
  }

  /** Sends OPEN; `opened` waits for what comes of it. */
  open(channel: number, open: Partial<Open> = {}): void {
    this.wire.openChannel(channel)
    this.send(FrameType.OPEN, channel, { target: { path: '/a.ipynb' }, mode: 'open', ...open })
  }

  async opened(channel: number, open: Partial<Open> = {}): Promise<void> {
    this.open(channel, open)
    await this.next(FrameType.OPENED, channel)
  }

  /** Sends a REQUEST and returns its id. */
  ask(channel: number, method: string, params: unknown = {}, more: Partial<Request> = {}): number {
    const id = more.id ?? this.#nextId++
    this.send(FrameType.REQUEST, channel, { id, method, params, ...more })
    return id
  }

  async answer(channel: number, id: number): Promise<Answer> {
    const found = await until(`the answer of ${id} on channel ${channel}`, () =>
      this.received.find(
        (one) =>
          one.type === FrameType.RESPONSE && one.channel === channel && (one.value as Answer).id === id,
      ),
    )
    return found.value as Answer
  }

  request(
    channel: number,
    method: string,
    params: unknown = {},
    more: Partial<Request> = {},
  ): Promise<Answer> {
    return this.answer(channel, this.ask(channel, method, params, more))
  }

  /** Resolves when the server has handled everything sent before. */
  async settled(): Promise<void> {
    await this.request(0, 'ping')
  }
}
