/**
 * A daemon that does what a test says: real frames over a real Unix socket, and one room's worth of state that outlives it, so
 * that a second one on the same socket plays the restarted daemon.
 */
import { randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:net'
import { Hello, type Open, type Opened, Request } from '../../protocol/channels.ts'
import { decode, encode } from '../../protocol/codec.ts'
import type { RoomEvent } from '../../protocol/events.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Cell, Readiness } from '../../protocol/notebook.ts'
import { accept } from '../../protocol/wire/handshake.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import type { Transport } from '../../protocol/wire/transport.ts'
import type { Wire } from '../../protocol/wire/wire.ts'

export const notebookId = '11111111-1111-4111-8111-111111111111'
export const ready: Readiness = {
  projection: 'ready',
  document: 'interactive',
  runtime: 'ready',
  source: { state: 'ready' },
}

export interface Frame {
  readonly type: FrameType
  readonly channel: number
  readonly payload: Uint8Array
}

/** One connection of a client, as the daemon sees it. */
export class Peer {
  readonly wire: Wire
  readonly hello: Hello
  readonly frames: Frame[] = []
  ended = false
  constructor(wire: Wire, hello: Hello) {
    this.wire = wire
    this.hello = hello
  }
  send(type: FrameType, channel: number, value: unknown): void {
    this.wire.send(type, channel, value instanceof Uint8Array ? value : encode(value))
  }
  opened(channel: number, more: Partial<Opened> = {}): void {
    this.send(FrameType.OPENED, channel, openedOf(more))
  }
  page(channel: number, cells: readonly Cell[], seqs: { doc_seq?: number; event_seq?: number } = {}): void {
    const { doc_seq = 1, event_seq = 0 } = seqs
    const page = { kind: 'cells', start: 0, total: cells.length, cells, doc_seq, event_seq, last: true }
    this.send(FrameType.PROJECTION, channel, page)
  }
  event(channel: number, event_seq: number | undefined, event: RoomEvent): void {
    this.send(FrameType.EVENT, channel, {
      ...(event_seq === undefined ? {} : { event_seq }),
      at: 1,
      event,
    })
  }
  answer(channel: number, id: number, value: unknown): void {
    this.send(FrameType.RESPONSE, channel, { id, ok: true, value })
  }
  refuse(channel: number, id: number, code: string, message = code): void {
    this.send(FrameType.RESPONSE, channel, { id, ok: false, error: { code, message, retryable: false } })
  }
}

export interface Script {
  connected?(peer: Peer): void
  open?(peer: Peer, channel: number, open: Open): void
  request?(peer: Peer, channel: number, request: Request): void
  frame?(peer: Peer, frame: Frame): void
  welcome?: { mutation_id?: number; activation_generation?: number }
}

export class ScriptedDaemon {
  readonly bootId = randomUUID()
  readonly peers: Peer[] = []
  readonly requests: { peer: Peer; channel: number; request: Request }[] = []
  readonly opens: { peer: Peer; channel: number; open: Open }[] = []
  script: Script
  readonly #server: Server | null

  private constructor(script: Script, server: Server | null) {
    this.script = script
    this.#server = server
  }

  static async start(socket: string, script: Script = {}): Promise<ScriptedDaemon> {
    const server = createServer()
    const daemon = new ScriptedDaemon(script, server)
    server.on('connection', (connection) => daemon.accept(socketTransport(connection)))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(socket, resolve)
    })
    return daemon
  }

  /** Without a socket of its own. */
  static onTransports(script: Script): ScriptedDaemon {
    return new ScriptedDaemon(script, null)
  }

  get live(): Peer[] {
    return this.peers.filter((peer) => !peer.ended)
  }

  /** As SIGKILL: connections break, the socket is gone. */
  async kill(): Promise<void> {
    const server = this.#server
    const closed = new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
    for (const peer of this.live) peer.wire.destroy('killed')
    await closed
  }

  accept(transport: Transport): void {
    accept(transport, {
      hello: Hello,
      onHello: () => ({
        boot_id: this.bootId,
        pid: process.pid,
        started_at: 1,
        version: '0.1.0',
        api_version: 1,
        features: [],
        limits: { frame_payload: 1, credit: 1, request: 1 },
        scope: 'owner',
        activation_generation: 0,
        mutation_id: 0,
        ...this.script.welcome,
      }),
      handlers: (wire, hello) => {
        const peer = new Peer(wire, hello as unknown as Hello)
        this.peers.push(peer)
        queueMicrotask(() => this.script.connected?.(peer))
        return {
          value: (type, channel, payload) => this.#value(peer, { type, channel, payload }),
          closed: () => {
            peer.ended = true
          },
        }
      },
    }).catch(() => {
      // The client left during the handshake; the tests that want this see it from the client's side.
    })
  }

  #value(peer: Peer, frame: Frame): void {
    peer.frames.push(frame)
    const { type, channel, payload } = frame
    this.script.frame?.(peer, frame)
    if (type === FrameType.OPEN) {
      peer.wire.openChannel(channel)
      const open = decode(payload) as Open
      this.opens.push({ peer, channel, open })
      if (this.script.open) this.script.open(peer, channel, open)
      else {
        peer.opened(channel)
        peer.page(channel, [])
      }
    } else if (type === FrameType.REQUEST) {
      const request = Request.parse(decode(payload))
      this.requests.push({ peer, channel, request })
      this.script.request?.(peer, channel, request)
    }
  }
}

export function openedOf(more: Partial<Opened> = {}): Opened {
  return {
    notebook_id: notebookId as Opened['notebook_id'],
    path: '/x.ipynb',
    title: 'x',
    peer_id: 'p1',
    scope: 'owner',
    connection_generation: 1,
    doc_seq: 1,
    event_seq: 0,
    picture: 'projection',
    pages: true,
    cell_count: 0,
    metadata: {},
    readiness: ready,
    kernel: null,
    running: null,
    queued: [],
    queued_total: 0,
    peers: [],
    peers_total: 1,
    ...more,
  }
}
