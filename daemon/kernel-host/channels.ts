/**
 * The host's ends of the kernel's channels. All dealers carry the same routing id, which is the kernel's id: a new host gets the
 * replies that the kernel addresses to the old one, and stdin reaches whoever sent the request.
 *
 * No socket has a high-water mark: a publisher whose subscriber does not read drops silently, and a blocked dealer would hold
 * an interrupt up. What this costs in memory is bounded by stopping the kernel (pressure.ts).
 */
import { Context, Dealer, type Socket, Subscriber } from 'zeromq'
import { type Channel, type ConnectionInfo, endpoint } from './connection-file.ts'
import { decodeMessage, encodeMessage, type OutgoingMessage } from './jupyter-message.ts'
import type { ChannelHandlers, KernelChannels, OutgoingChannel } from './kernel-channels.ts'

/** Time between attempts to connect to a kernel that has not bound yet. */
const RECONNECT_MS = 5
/** Who listened on the port before the kernel did may have taken our connection and say nothing on it. */
const HANDSHAKE_MS = 5_000

export class Channels implements KernelChannels {
  readonly #info: ConnectionInfo
  readonly #routingId: string
  /** Empty: not verified. Nobody but us and what we started can bind in our 0700 folder; a TCP port may be anybody's. */
  readonly #verifyKey: string
  readonly #handlers: ChannelHandlers
  readonly #context: Context
  readonly #dealers: Record<OutgoingChannel, Outgoing>
  readonly #sockets: Socket[]
  #closed = false
  #received = 0
  #handling = 0

  constructor(info: ConnectionInfo, routingId: string, handlers: ChannelHandlers) {
    this.#info = info
    this.#routingId = routingId
    this.#verifyKey = info.transport === 'ipc' ? '' : info.key
    this.#handlers = handlers
    this.#context = new Context({ ioThreads: 1, blocky: false })
    const dealer = (channel: OutgoingChannel): Dealer => {
      const socket = new Dealer({
        context: this.#context,
        routingId,
        linger: 0,
        sendHighWaterMark: 0,
        receiveHighWaterMark: 0,
        reconnectInterval: RECONNECT_MS,
        handshakeInterval: HANDSHAKE_MS,
      })
      socket.connect(endpoint(info, channel))
      return socket
    }
    const iopub = new Subscriber({
      context: this.#context,
      linger: 0,
      receiveHighWaterMark: 0,
      reconnectInterval: RECONNECT_MS,
      handshakeInterval: HANDSHAKE_MS,
    })
    iopub.connect(endpoint(info, 'iopub'))
    iopub.subscribe()
    const shell = dealer('shell')
    const control = dealer('control')
    const stdin = dealer('stdin')
    shell.events.on('disconnect', () => handlers.closed())
    this.#dealers = { shell: new Outgoing(shell), control: new Outgoing(control), stdin: new Outgoing(stdin) }
    this.#sockets = [iopub, shell, control, stdin]
    void this.#read('iopub', iopub)
    void this.#read('shell', shell)
    void this.#read('control', control)
    void this.#read('stdin', stdin)
  }

  /** ZeroMQ connects, and connects again, below us: what is sent before waits in its queues. */
  open(): void {
    this.#handlers.connected(false)
  }

  get connected(): boolean {
    return !this.#closed
  }

  /** Messages received so far; tells whether anything still comes. */
  get received(): number {
    return this.#received
  }

  /** A message is still being worked on. */
  get handling(): boolean {
    return this.#handling > 0
  }

  /** Hands the parts to ZeroMQ before it returns, unless hundreds were sent in this very turn. */
  send(channel: OutgoingChannel, message: OutgoingMessage): void {
    this.#dealers[channel].send(encodeMessage(message, this.#info.key, this.#routingId))
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const socket of this.#sockets) socket.close()
  }

  async #read(channel: Channel, socket: Subscriber | Dealer): Promise<void> {
    while (!this.#closed) {
      let parts: Buffer[]
      try {
        parts = await socket.receive()
      } catch (error) {
        // Closing a socket rejects the read that waits on it.
        if (this.#closed) return
        throw error
      }
      this.#received++
      const pending = this.#give(channel, parts)
      if (pending === undefined) continue
      this.#handling++
      await pending
      this.#handling--
    }
  }

  #give(channel: Channel, parts: Buffer[]): void | Promise<void> {
    try {
      return this.#handlers.message(channel, decodeMessage(parts, this.#verifyKey))
    } catch (error) {
      this.#handlers.unreadable(channel, error)
    }
  }
}

/** zeromq allows one waiting send a socket: a queue in front of it keeps order and never refuses. */
class Outgoing {
  readonly #socket: Dealer
  readonly #queue: Uint8Array[][] = []
  #sending = false

  constructor(socket: Dealer) {
    this.#socket = socket
  }

  send(parts: Uint8Array[]): void {
    this.#queue.push(parts)
    if (!this.#sending) void this.#drain()
  }

  async #drain(): Promise<void> {
    this.#sending = true
    try {
      for (let parts = this.#queue.shift(); parts !== undefined; parts = this.#queue.shift())
        await this.#socket.send(parts)
    } catch (error) {
      // Only closing ends a send; whoever closes no longer wants it sent.
      if (!this.#socket.closed) throw error
    } finally {
      this.#sending = false
    }
  }
}
