/**
 * A remote kernel's channels: one WebSocket to the gateway, dialled again for as long as the kernel may be there.
 *
 * What a lost connection means. What we handed to the socket and the gateway did not answer has an unknown fate, and is not sent
 * again; what waited here for a connection was never sent and goes out with the next one. The gateway keeps what the kernel says
 * for the next connection under our session id and gives it first; what it had already written to the dead connection is lost.
 * So the next message is looked at (continuity.ts), and a gap is told before it unless its number proves that nothing is missing.
 *
 * No clock declares a kernel dead: silence ends the connection, never the kernel. The kernel is over when the gateway says so.
 */
import { WebSocket } from 'ws'
import type { Clock } from '../../../protocol/clock.ts'
import type { Channel } from '../connection-file.ts'
import { dictionary, type OutgoingMessage, type RawMessage } from '../jupyter-message.ts'
import type { ChannelHandlers, KernelChannels, OutgoingChannel } from '../kernel-channels.ts'
import { Continuity } from './continuity.ts'
import type { GatewayApi } from './gateway-api.ts'
import { GatewayError } from './gateway-api.ts'
import type { Incarnation } from './incarnation.ts'
import { jsonFormat, V1_PROTOCOL, v1Format, type WsFormat } from './ws-messages.ts'

export interface WsChannelsPort {
  readonly clock: Clock
  readonly api: GatewayApi
  /** The gateway's id of the kernel; never resolves when it does not start. */
  readonly kernelId: Promise<string>
  /** Our session id, the same for the kernel's whole life. */
  readonly session: string
  readonly incarnation: Incarnation
  /** The kernel was there before this host. */
  readonly adopted: boolean
  /** Message ids of the host's own questions begin with it. */
  readonly ownPrefix: string
  /** The kernel is another one or none. */
  over(reason: string): void
  /** The kernel's own session id has become known. */
  sessionKnown(): void
}

/** The gateway answers the dial only when the kernel has answered it, for which it waits a minute. */
const DIAL_MS = 70_000
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 15_000
/** A connection that stood so long was a good one. */
const GOOD_MS = 5_000
const PING_MS = 15_000
/** Nothing came, not even an answer to a ping. A gateway that is busy with a flood may be slow. */
const SILENCE_MS = 60_000
/** Frames waiting here while a large one is worked on, before the socket is not read on. */
const QUEUE = 64
const RATE_EXCEEDED = /^IOPub (?:data|message) rate exceeded/

interface Frame {
  readonly data: Buffer
  readonly binary: boolean
}

export class WsChannels implements KernelChannels {
  readonly #port: WsChannelsPort
  readonly #handlers: ChannelHandlers
  readonly #continuity = new Continuity()
  readonly #waiting: { readonly channel: OutgoingChannel; readonly message: OutgoingMessage }[] = []
  readonly #frames: Frame[] = []
  #working = false
  #ws: WebSocket | null = null
  #format: WsFormat = v1Format
  #offersV1 = true
  #kernelId = ''
  #closed = false
  #everConnected = false
  #wait = FIRST_WAIT_MS
  #received = 0
  #heardAt = 0
  #openedAt = 0
  #told: string | null = null
  #cancelTimer: (() => void) | null = null

  constructor(port: WsChannelsPort, handlers: ChannelHandlers) {
    this.#port = port
    this.#handlers = handlers
  }

  get connected(): boolean {
    return this.#ws !== null
  }

  get received(): number {
    return this.#received
  }

  get handling(): boolean {
    return this.#working || this.#frames.length > 0
  }

  open(): void {
    void this.#port.kernelId.then((id) => {
      this.#kernelId = id
      // The old host's connection is lost with it, and so is what was on its way there.
      if (this.#port.adopted) this.#everConnected = true
      this.#dial()
    })
  }

  send(channel: OutgoingChannel, message: OutgoingMessage): void {
    if (this.#closed) return
    const ws = this.#ws
    if (ws === null) this.#waiting.push({ channel, message })
    else ws.send(this.#format.encode(channel, message, this.#port.session))
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#cancelTimer?.()
    const last = this.#continuity.end()
    if (last !== null) this.#handlers.gap(last)
    this.#waiting.length = 0
    this.#frames.length = 0
    this.#ws?.terminate()
    this.#ws = null
  }

  #dial(): void {
    if (this.#closed) return
    const { api, session } = this.#port
    const protocols = this.#offersV1 ? [V1_PROTOCOL] : []
    const ws = new WebSocket(api.channelsUrl(this.#kernelId, session), protocols, {
      headers: api.headers,
      handshakeTimeout: DIAL_MS,
      perMessageDeflate: false,
      // One message may be as large as what a cell prints at once.
      maxPayload: 0,
      skipUTF8Validation: true,
    })
    let over = false
    /** The first reason is the true one: what follows it (close behind error) tells less. */
    const end = (reason: string): void => {
      if (over) return
      over = true
      ws.terminate()
      this.#ended(ws, reason)
    }
    ws.on('open', () => this.#opened(ws, end))
    ws.on('message', (data, binary) => {
      this.#heardAt = this.#port.clock.now()
      this.#take({ data: bufferOf(data), binary })
    })
    ws.on('pong', () => {
      this.#heardAt = this.#port.clock.now()
    })
    ws.on('ping', () => {
      this.#heardAt = this.#port.clock.now()
    })
    ws.on('unexpected-response', (_request, response) => {
      response.resume()
      end(
        api.statusFault(
          { status: response.statusCode ?? 0, text: '', location: response.headers.location },
          "the kernel's WebSocket",
        ).message,
      )
    })
    ws.on('error', (error) => {
      if (this.#offersV1 && /subprotocol/.test(error.message)) {
        // It knows the older form only. No fault, so no waiting.
        this.#offersV1 = false
        this.#wait = 0
      }
      end(api.faultOf(error).message)
    })
    ws.on('close', (code) => end(`${api.title} closed the connection (${code})`))
  }

  #opened(ws: WebSocket, end: (reason: string) => void): void {
    if (this.#closed) {
      ws.terminate()
      return
    }
    const now = this.#port.clock.now()
    this.#format = ws.protocol === V1_PROTOCOL ? v1Format : jsonFormat
    this.#ws = ws
    this.#openedAt = now
    this.#heardAt = now
    this.#told = null
    const again = this.#everConnected
    this.#everConnected = true
    if (again) this.#continuity.suspect('the connection to the gateway was lost for a while')
    // First what waited, so that what is asked in `connected` is behind it.
    for (const { channel, message } of this.#waiting.splice(0)) this.send(channel, message)
    this.#handlers.connected(again)
    this.#watch(ws, end)
  }

  /** A connection that can be heard no more, over a link that vanished, is given up. */
  #watch(ws: WebSocket, end: (reason: string) => void): void {
    this.#cancelTimer = this.#port.clock.after(PING_MS, () => {
      if (this.#ws !== ws) return
      if (this.#port.clock.now() - this.#heardAt > SILENCE_MS) {
        end(`nothing came from ${this.#port.api.title} for ${SILENCE_MS / 1000} s`)
        return
      }
      ws.ping()
      this.#watch(ws, end)
    })
  }

  #ended(ws: WebSocket, reason: string): void {
    if (this.#closed) return
    const { clock } = this.#port
    if (this.#ws === ws) {
      this.#ws = null
      this.#cancelTimer?.()
      if (clock.now() - this.#openedAt >= GOOD_MS) this.#wait = FIRST_WAIT_MS
    }
    if (this.#wait === 0) {
      this.#wait = FIRST_WAIT_MS
      this.#dial()
      return
    }
    this.#tell(reason)
    // Some way between, so that a gateway that comes back is not met by all at once.
    const wait = this.#wait * (0.5 + Math.random() / 2)
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS)
    this.#cancelTimer = clock.after(wait, () => void this.#look())
  }

  /** Before each dial the gateway is asked whether the kernel is there; only its own word ends the kernel. */
  async #look(): Promise<void> {
    const { api, over } = this.#port
    try {
      const kernel = await api.kernel(this.#kernelId)
      if (this.#closed) return
      if (kernel === null)
        return over(
          `${api.title} has no such kernel any more: it was ended there, or the server was started anew`,
        )
      if (kernel.executionState === 'dead')
        return over(`the kernel died at ${api.title}${because(kernel.reason)}`)
    } catch (error) {
      if (this.#closed) return
      if (!(error instanceof GatewayError)) throw error
      this.#tell(error.message)
      const wait = this.#wait * (0.5 + Math.random() / 2)
      this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS)
      this.#cancelTimer = this.#port.clock.after(wait, () => void this.#look())
      return
    }
    this.#dial()
  }

  /** Each reason once, not each attempt. */
  #tell(reason: string): void {
    if (reason === this.#told) return
    this.#told = reason
    this.#handlers.lost(reason)
  }

  #take(frame: Frame): void {
    if (this.#closed) return
    this.#received++
    if (this.#working) {
      this.#frames.push(frame)
      if (this.#frames.length > QUEUE) this.#ws?.pause()
      return
    }
    const pending = this.#understand(frame)
    if (pending !== undefined) void this.#workOff(pending)
  }

  async #workOff(first: Promise<void>): Promise<void> {
    this.#working = true
    await first
    for (let frame = this.#frames.shift(); frame !== undefined; frame = this.#frames.shift())
      await this.#understand(frame)
    this.#working = false
    if (this.#ws?.isPaused === true) this.#ws.resume()
  }

  #understand({ data, binary }: Frame): Promise<void> | undefined {
    if (this.#closed) return undefined
    let message: { channel: Channel; raw: RawMessage }
    let another: string | null
    try {
      message = this.#format.decode(data, binary)
      another = this.#isAnother(message.channel, message.raw)
    } catch (error) {
      this.#handlers.unreadable('websocket', error)
      return undefined
    }
    const { channel, raw } = message
    if (another !== null) {
      // What is behind it is another process's.
      this.close()
      this.#port.over(another)
      return undefined
    }
    if (this.#port.incarnation.isKernels(raw)) {
      const missing = this.#continuity.note(channel, raw.msgId)
      if (missing !== null) this.#handlers.gap(missing)
    }
    const pending = this.#handlers.message(channel, raw)
    if (channel === 'iopub' && raw.msgType === 'stream' && this.#tellsRate(raw))
      this.#continuity.suspect('the gateway limits the rate of output and dropped some')
    return pending ?? undefined
  }

  #isAnother(channel: Channel, raw: RawMessage): string | null {
    const { incarnation, ownPrefix, sessionKnown } = this.#port
    const before = incarnation.session
    const reason = incarnation.note(channel, raw, raw.parentId?.startsWith(ownPrefix) === true)
    if (before !== incarnation.session) sessionKnown()
    return reason
  }

  /** Jupyter Server says in a message of its own, which looks like the cell's, that it leaves output out from here on. */
  #tellsRate(raw: RawMessage): boolean {
    if (raw.session !== this.#port.session || raw.rawContent.length > 4096) return false
    const { name, text } = dictionary(raw.rawContent)
    return name === 'stderr' && typeof text === 'string' && RATE_EXCEEDED.test(text)
  }
}

export function because(reason: string | null): string {
  return reason === null || reason === '' ? '' : `: ${reason}`
}

function bufferOf(data: Buffer | ArrayBuffer | Buffer[]): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data)
  return Buffer.isBuffer(data) ? data : Buffer.from(data)
}
