/**
 * The host's ends of the kernel's channels. All dealers carry the same routing id, which is the kernel's id: a new host gets the
 * replies that the kernel addresses to the old one, and stdin reaches whoever sent the request.
 *
 * No socket has a high-water mark: a publisher whose subscriber does not read drops silently, and a blocked dealer would hold
 * an interrupt up. What this costs in memory is bounded by stopping the kernel (pressure.ts).
 */
import { Context, Dealer, type Socket, Subscriber } from 'zeromq'
import { type Channel, type ConnectionInfo, endpoint } from './connection-file.ts'

export interface ChannelHandlers {
  /**
   * One multipart message. Messages that are there at once are given within one turn of the loop. A channel is not read on
   * before the promise settles; it never rejects.
   */
  message(channel: Channel, parts: Buffer[]): void | Promise<void>
  /** The kernel's end of a channel closed: it may be gone. */
  disconnected(): void
}

/** Time between attempts to connect to a kernel that has not bound yet. */
const RECONNECT_MS = 5

export class Channels {
  readonly #context: Context
  readonly #dealers: Record<'shell' | 'control' | 'stdin', Outgoing>
  readonly #sockets: Socket[]
  #closed = false
  #received = 0
  #handling = 0

  constructor(info: ConnectionInfo, routingId: string, handlers: ChannelHandlers) {
    this.#context = new Context({ ioThreads: 1, blocky: false })
    const dealer = (channel: 'shell' | 'control' | 'stdin'): Dealer => {
      const socket = new Dealer({
        context: this.#context,
        routingId,
        linger: 0,
        sendHighWaterMark: 0,
        receiveHighWaterMark: 0,
        reconnectInterval: RECONNECT_MS,
      })
      socket.connect(endpoint(info, channel))
      return socket
    }
    const iopub = new Subscriber({
      context: this.#context,
      linger: 0,
      receiveHighWaterMark: 0,
      reconnectInterval: RECONNECT_MS,
    })
    iopub.connect(endpoint(info, 'iopub'))
    iopub.subscribe()
    const shell = dealer('shell')
    const control = dealer('control')
    const stdin = dealer('stdin')
    shell.events.on('disconnect', () => handlers.disconnected())
    this.#dealers = { shell: new Outgoing(shell), control: new Outgoing(control), stdin: new Outgoing(stdin) }
    this.#sockets = [iopub, shell, control, stdin]
    void this.#read('iopub', iopub, handlers)
    void this.#read('shell', shell, handlers)
    void this.#read('control', control, handlers)
    void this.#read('stdin', stdin, handlers)
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
  send(channel: 'shell' | 'control' | 'stdin', parts: Uint8Array[]): void {
    this.#dealers[channel].send(parts)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const socket of this.#sockets) socket.close()
  }

  async #read(channel: Channel, socket: Subscriber | Dealer, handlers: ChannelHandlers): Promise<void> {
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
      const pending = handlers.message(channel, parts)
      if (pending === undefined) continue
      this.#handling++
      await pending
      this.#handling--
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
