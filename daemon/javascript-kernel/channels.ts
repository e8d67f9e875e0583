/**
 * The channels thread: owns the five ZeroMQ sockets, so that control, heartbeat and output go on while cells compute. Requests on
 * shell go to the main thread; interrupt and shutdown are answered here.
 *
 * Order: one queue for all that is sent, so outputs leave before the reply and the reply before idle. Stream text is joined:
 * the first piece leaves at once, then at most one message in 10 ms or for each 64 KiB, and always before anything else.
 */
import { Publisher, Reply, Router, type Socket } from 'zeromq'
import { endpoint } from './connection-file.ts'
import { InnerSignal } from './inner-signal.ts'
import { kernelInfo } from './kernel-info.ts'
import { openSharedMemory, RingReader, type SharedMemory, word } from './ring.ts'
import { type ChannelsStart, type RecordBody, record, type ToMain } from './threads.ts'
import { type Json, Wire, type WireMessage } from './wire.ts'

const streamIntervalMs = 10
const streamBytes = 64 * 1024
/** Ring bytes read before sockets and timers get a turn. */
const readBudget = 256 * 1024
/** Messages waiting for ZeroMQ before the ring is left full, which makes the writer wait. */
const sendBacklog = 512

/** How long the reply to an interrupt waits for a main thread that hears nothing. */
const interruptMs = 1000

interface Origin {
  readonly identities: Buffer[]
  readonly header: Json
}

export class Channels {
  readonly #start: ChannelsStart
  readonly #memory: SharedMemory
  readonly #ring: RingReader
  readonly #wire: Wire
  readonly #shell = new Router({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 1000 })
  readonly #control = new Router({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 1000 })
  readonly #stdin = new Router({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 1000 })
  // Without a mark: a publisher at its mark drops silently, and no line may be lost.
  readonly #iopub = new Publisher({ sendHighWaterMark: 0, linger: 1000 })
  readonly #heartbeat = new Reply({ linger: 0 })
  readonly #origins = new Map<number, Origin>()
  readonly #sending: { socket: Publisher | Router; frames: Buffer[] }[] = []
  #pump: Promise<void> | undefined
  #nextRef = 1
  #stream = { ref: 0, name: 'stdout', text: '' }
  #streamSentAt = 0
  #streamTimer: NodeJS.Timeout | undefined
  #exiting = false

  constructor(start: ChannelsStart) {
    this.#start = start
    this.#memory = openSharedMemory(start.memory)
    this.#ring = new RingReader(this.#memory)
    this.#wire = new Wire(start.connection.key, start.connection.hash)
  }

  /** Binds and serves; rejects when an address cannot be bound. */
  async open(): Promise<void> {
    const { connection } = this.#start
    // One after the other: a bind is quick, and the first error names its channel.
    await this.#iopub.bind(endpoint(connection, 'iopub'))
    await this.#shell.bind(endpoint(connection, 'shell'))
    await this.#control.bind(endpoint(connection, 'control'))
    await this.#stdin.bind(endpoint(connection, 'stdin'))
    await this.#heartbeat.bind(endpoint(connection, 'hb'))
    this.#publish('status', {}, { execution_state: 'starting' })
    this.#serve(this.#shell, (message) => this.#onShell(message))
    this.#serve(this.#control, (message) => this.#onControl(message))
    this.#serve(this.#stdin, (message) => this.#onStdin(message))
    void this.#beat()
    this.#drain()
  }

  #serve(socket: Router, handle: (message: WireMessage) => void): void {
    const loop = async (): Promise<void> => {
      for await (const frames of socket) {
        let message: WireMessage
        try {
          message = this.#wire.unpack(frames)
        } catch (error) {
          // Not from a client that knows the key, or not Jupyter: never obeyed, but said.
          process.stderr.write(`javascript kernel: ignored ${(error as Error).message}\n`)
          continue
        }
        handle(message)
      }
    }
    void loop().catch((error: unknown) => {
      if (!socket.closed) throw error
    })
  }

  async #beat(): Promise<void> {
    try {
      for await (const frames of this.#heartbeat) await this.#heartbeat.send(frames)
    } catch (error) {
      if (!this.#heartbeat.closed) throw error
    }
  }

  #onShell(message: WireMessage): void {
    if (message.msgType === 'shutdown_request') {
      this.#shutdown(this.#shell, message)
      return
    }
    const ref = this.#nextRef++
    this.#origins.set(ref, { identities: message.identities, header: message.header })
    this.#post({
      type: 'request',
      ref,
      msgType: message.msgType,
      content: message.content,
      metadata: message.metadata,
    })
  }

  #onControl(message: WireMessage): void {
    switch (message.msgType) {
      case 'shutdown_request':
        this.#shutdown(this.#control, message)
        return
      case 'interrupt_request':
        void this.#interrupt().then(() => {
          this.#answer(this.#control, message, 'interrupt_reply', () => ({ status: 'ok' }))
        })
        return
      case 'kernel_info_request':
        this.#answer(this.#control, message, 'kernel_info_reply', kernelInfo)
        return
      default:
        process.stderr.write(`javascript kernel: no control message ${message.msgType} is known here\n`)
    }
  }

  /**
   * Resolves when the main thread has taken the interrupt, so that cells sent after the reply are not hit. The message comes before
   * any later request; the signal reaches a main thread that computes.
   */
  async #interrupt(): Promise<void> {
    const { words } = this.#memory
    Atomics.store(words, word.interrupt, 1)
    this.#post({ type: 'interrupt' })
    const signal = new InnerSignal(words)
    const start = performance.now()
    while (performance.now() - start < interruptMs) {
      signal.send()
      await new Promise((resolve) => setTimeout(resolve, 1))
      if (Atomics.load(words, word.interrupt) === 0) return
    }
  }

  #answer(socket: Router, message: WireMessage, type: string, content: () => Json): void {
    this.#flushStream()
    this.#publish('status', message.header, { execution_state: 'busy' })
    this.#send(socket, this.#wire.pack(message.identities, type, message.header, content()))
    this.#publish('status', message.header, { execution_state: 'idle' })
  }

  #shutdown(socket: Router, message: WireMessage): void {
    const reply = { status: 'ok', restart: message.content.restart === true }
    this.#answer(socket, message, 'shutdown_reply', () => reply)
    this.#publish('shutdown_reply', message.header, reply)
    this.#post({ type: 'exit' })
    // A main thread that computes is interrupted; one that does not end even so is killed.
    setTimeout(() => process.kill(process.pid, 'SIGINT'), 100)
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), 1500)
  }

  #onStdin(message: WireMessage): void {
    if (message.msgType !== 'input_reply') return
    const { value } = message.content
    this.#start.stdin.postMessage({ value: typeof value === 'string' ? value : '' })
    Atomics.add(this.#memory.words, word.stdin, 1)
    Atomics.notify(this.#memory.words, word.stdin)
  }

  #post(message: ToMain): void {
    this.#start.requests.postMessage(message)
  }

  #drain(): void {
    if (this.#exiting) return
    if (this.#sending.length > sendBacklog) {
      void this.#pump?.then(() => this.#drain())
      return
    }
    const empty = this.#ring.read(
      readBudget,
      (kind) => kind === record.stdout || kind === record.stderr,
      (kind, tag, text) => this.#onRecord(kind, tag, text),
    )
    this.#streamTick()
    if (empty) this.#ring.whenReadable(() => this.#drain())
    else setImmediate(() => this.#drain())
  }

  #onRecord(kind: number, tag: number, text: string): void {
    if (kind === record.stdout || kind === record.stderr) {
      this.#onStreamText(tag, kind === record.stdout ? 'stdout' : 'stderr', text)
      return
    }
    if (kind === record.release) {
      if (this.#stream.ref === tag) this.#flushStream()
      this.#origins.delete(tag)
      return
    }
    this.#flushStream()
    if (kind === record.barrier) {
      // Two turns of the loop read whatever clients had already sent.
      setImmediate(() => setImmediate(() => this.#post({ type: 'barrier', token: tag })))
      return
    }
    if (kind === record.exit) {
      void this.#close()
      return
    }
    const body = JSON.parse(text) as RecordBody
    const origin = this.#origins.get(tag)
    if (kind === record.iopub) this.#publish(body.t, origin?.header ?? {}, body.c, body.m)
    else if (origin) {
      const socket = kind === record.inputRequest ? this.#stdin : this.#shell
      this.#send(socket, this.#wire.pack(origin.identities, body.t, origin.header, body.c, body.m))
    }
  }

  #onStreamText(ref: number, name: string, text: string): void {
    if (this.#stream.ref !== ref || this.#stream.name !== name) {
      this.#flushStream()
      this.#stream = { ref, name, text }
    } else this.#stream.text += text
    if (this.#stream.text.length >= streamBytes) this.#flushStream()
  }

  #streamTick(): void {
    if (this.#stream.text === '' || this.#streamTimer) return
    const wait = this.#streamSentAt + streamIntervalMs - performance.now()
    if (wait <= 0) this.#flushStream()
    else {
      this.#streamTimer = setTimeout(() => {
        this.#streamTimer = undefined
        this.#flushStream()
      }, wait)
    }
  }

  #flushStream(): void {
    const { ref, name, text } = this.#stream
    if (text === '') return
    this.#stream = { ref, name, text: '' }
    this.#streamSentAt = performance.now()
    this.#publish('stream', this.#origins.get(ref)?.header ?? {}, { name, text })
  }

  #publish(type: string, parent: Json, content: Json, metadata?: Json): void {
    const topic =
      type === 'stream' ? `stream.${String(content.name)}` : `kernel.${this.#wire.session}.${type}`
    this.#send(this.#iopub, this.#wire.pack([Buffer.from(topic)], type, parent, content, metadata))
  }

  #send(socket: Publisher | Router, frames: Buffer[]): void {
    this.#sending.push({ socket, frames })
    this.#pump ??= this.#sendAll().finally(() => {
      this.#pump = undefined
    })
  }

  async #sendAll(): Promise<void> {
    // A socket takes one send at a time.
    for (let next = this.#sending.shift(); next; next = this.#sending.shift()) {
      if (!next.socket.closed) await next.socket.send(next.frames)
    }
  }

  async #close(): Promise<void> {
    this.#exiting = true
    clearTimeout(this.#streamTimer)
    while (this.#pump) await this.#pump
    const sockets: Socket[] = [this.#shell, this.#control, this.#stdin, this.#iopub, this.#heartbeat]
    for (const socket of sockets) socket.close()
    Atomics.store(this.#memory.words, word.exited, 1)
    Atomics.notify(this.#memory.words, word.exited)
  }
}
