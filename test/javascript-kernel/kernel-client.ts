/** A small Jupyter client for tests: starts the real kernel process and speaks ZeroMQ to it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHmac, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dealer, Request, Subscriber } from 'zeromq'
import { programFile } from '../../protocol/programs.ts'

export type Json = Record<string, unknown>

export interface Message {
  readonly channel: 'shell' | 'control' | 'stdin' | 'iopub'
  readonly type: string
  readonly id: string
  readonly parentId: string | undefined
  readonly content: Json
  readonly metadata: Json
}

export interface Run {
  readonly reply: Json
  /** iopub messages of this request between its busy and its idle, both included. */
  readonly messages: Message[]
}

export interface StartOptions {
  readonly transport?: 'tcp' | 'ipc'
  readonly cwd?: string
  readonly env?: Record<string, string>
  readonly key?: string
}

const delimiter = Buffer.from('<IDS|MSG>')

export class KernelClient {
  readonly process: ChildProcess
  readonly folder: string
  /** Everything received, in order of arrival. */
  readonly log: Message[] = []
  stderr = ''
  readonly exit: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  readonly #key: string
  readonly #shell = new Dealer({ linger: 0, reconnectInterval: 5 })
  readonly #control = new Dealer({ linger: 0, reconnectInterval: 5 })
  readonly #stdin = new Dealer({ linger: 0, reconnectInterval: 5 })
  readonly #iopub = new Subscriber({ linger: 0, receiveHighWaterMark: 0, reconnectInterval: 5 })
  readonly #session = randomUUID()
  readonly #watchers = new Set<() => void>()
  readonly #connection: Record<string, string | number>

  private constructor(folder: string, connection: Record<string, string | number>, options: StartOptions) {
    this.folder = folder
    this.#connection = connection
    this.#key = String(connection.key)
    const file = join(folder, 'connection.json')
    writeFileSync(file, JSON.stringify(connection))
    // A test that fails half-way leaves no kernel behind.
    const env = { ...process.env, JPY_PARENT_PID: String(process.pid), ...options.env } as NodeJS.ProcessEnv
    delete env.NODE_OPTIONS
    this.process = spawn(process.execPath, [programFile('javascript-kernel'), file], {
      cwd: options.cwd ?? folder,
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.process.stderr?.on('data', (chunk) => {
      this.stderr += chunk
    })
    this.exit = new Promise((resolve) => {
      this.process.on('exit', (code, signal) => resolve({ code, signal }))
    })
  }

  /** Resolves when kernel_info was answered and iopub has spoken. */
  static async start(options: StartOptions = {}): Promise<KernelClient> {
    // Somebody may take a port that was free a moment ago.
    for (let tries = 1; ; tries++) {
      const folder = mkdtempSync(join(tmpdir(), 'jsk-'))
      const tcp = options.transport === 'tcp'
      const [shell, iopub, stdin, control, hb] = tcp ? await freePorts() : [1, 2, 3, 4, 5]
      const client = new KernelClient(
        folder,
        {
          transport: tcp ? 'tcp' : 'ipc',
          ip: tcp ? '127.0.0.1' : join(folder, 'k'),
          key: options.key ?? randomUUID(),
          signature_scheme: 'hmac-sha256',
          shell_port: shell,
          iopub_port: iopub,
          stdin_port: stdin,
          control_port: control,
          hb_port: hb,
        },
        options,
      )
      const up = await Promise.race([client.#connect().then(() => true), client.exit.then(() => false)])
      if (up) return client
      await client.dispose()
      if (!tcp || tries === 3) throw new Error(`the kernel ended: ${client.stderr}`)
    }
  }

  async #connect(): Promise<void> {
    const identity = randomUUID()
    this.#iopub.subscribe()
    for (const [name, socket] of [
      ['shell', this.#shell],
      ['control', this.#control],
      ['stdin', this.#stdin],
      ['iopub', this.#iopub],
    ] as const) {
      if (socket instanceof Dealer) socket.routingId = identity
      socket.connect(this.endpoint(name))
      void this.#listen(name, socket)
    }
    for (;;) {
      const id = this.send('shell', 'kernel_info_request', {})
      await this.until(() => this.log.some((m) => m.parentId === id && m.channel === 'shell'))
      if (!this.log.some((m) => m.channel === 'iopub')) continue
      // Whatever iopub began with, this request's idle is still to come or there.
      await this.until(() => this.log.some((m) => m.parentId === id && m.content.execution_state === 'idle'))
      return
    }
  }

  endpoint(channel: string): string {
    const { transport, ip } = this.#connection
    return `${transport}://${ip}${transport === 'tcp' ? ':' : '-'}${this.#connection[`${channel}_port`]}`
  }

  async #listen(channel: Message['channel'], socket: Dealer | Subscriber): Promise<void> {
    try {
      for await (const frames of socket) {
        const at = frames.findIndex((frame) => frame.equals(delimiter))
        const [signature, ...parts] = frames.slice(at + 1)
        if (this.#key !== '' && signature?.toString() !== this.#sign(parts.slice(0, 4))) {
          throw new Error('the kernel sent a wrong signature')
        }
        const [header, parent, metadata, content] = parts.map((part) => JSON.parse(part.toString()) as Json)
        this.log.push({
          channel,
          type: String(header?.msg_type),
          id: String(header?.msg_id),
          parentId: parent?.msg_id as string | undefined,
          content: content ?? {},
          metadata: metadata ?? {},
        })
        for (const watcher of this.#watchers) watcher()
      }
    } catch (error) {
      if (!socket.closed) throw error
    }
  }

  #sign(parts: Buffer[]): string {
    const hmac = createHmac('sha256', this.#key)
    for (const part of parts) hmac.update(part)
    return hmac.digest('hex')
  }

  /** Returns the message id. */
  send(channel: 'shell' | 'control' | 'stdin', type: string, content: Json, wrongKey = false): string {
    const id = randomUUID()
    const header = {
      msg_id: id,
      msg_type: type,
      session: this.#session,
      username: 'test',
      version: '5.3',
      date: new Date().toISOString(),
    }
    const parts = [header, {}, {}, content].map((part) => Buffer.from(JSON.stringify(part)))
    const signature = this.#key === '' ? '' : this.#sign(wrongKey ? [...parts, delimiter] : parts)
    const socket = { shell: this.#shell, control: this.#control, stdin: this.#stdin }[channel]
    this.#pending = this.#pending.then(() => socket.send([delimiter, signature, ...parts]))
    return id
  }
  #pending: Promise<unknown> = Promise.resolve()

  /** Resolves when the condition holds; looked at after each message. The test's timeout is the limit. */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!condition()) return
        this.#watchers.delete(check)
        resolve()
      }
      this.#watchers.add(check)
      check()
    })
  }

  submit(code: string, options: Json = {}): string {
    return this.send('shell', 'execute_request', {
      code,
      silent: false,
      store_history: true,
      allow_stdin: false,
      stop_on_error: true,
      user_expressions: {},
      ...options,
    })
  }

  /** Resolves when reply and idle of the request are there. */
  async finished(id: string): Promise<Run> {
    const own = (): Message[] => this.log.filter((m) => m.parentId === id)
    const find = (): Message | undefined =>
      this.log.find((m) => m.parentId === id && m.type.endsWith('_reply'))
    await this.until(
      () =>
        find() !== undefined &&
        own().some((m) => m.type === 'status' && m.content.execution_state === 'idle'),
    )
    return { reply: find()?.content ?? {}, messages: own().filter((m) => m.channel === 'iopub') }
  }

  execute(code: string, options: Json = {}): Promise<Run> {
    return this.finished(this.submit(code, options))
  }

  async ask(type: string, content: Json, channel: 'shell' | 'control' = 'shell'): Promise<Json> {
    return (await this.finished(this.send(channel, type, content))).reply
  }

  /** text/plain of the result, or undefined. */
  async value(code: string): Promise<string | undefined> {
    const run = await this.execute(code)
    if (run.reply.status !== 'ok') throw new Error(`${code}: ${JSON.stringify(run.reply)}`)
    return resultText(run)
  }

  /** Resolves when this text of a stream of the request has arrived. */
  async printed(id: string, text: string): Promise<void> {
    await this.until(() => streamText(this.log.filter((m) => m.parentId === id)).includes(text))
  }

  heartbeat(): Request {
    const socket = new Request({ linger: 0 })
    socket.connect(this.endpoint('hb'))
    return socket
  }

  async dispose(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill('SIGKILL')
    await this.exit
    for (const socket of [this.#shell, this.#control, this.#stdin, this.#iopub]) socket.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

type Ports = [shell: number, iopub: number, stdin: number, control: number, hb: number]

/** Five ports that nobody has. */
async function freePorts(): Promise<Ports> {
  const servers = Array.from({ length: 5 }, () => createServer())
  await Promise.all(
    servers.map(
      (server) =>
        new Promise<void>((resolve, reject) => {
          server.once('error', reject)
          server.listen(0, '127.0.0.1', resolve)
        }),
    ),
  )
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports as Ports
}

export function streamText(messages: readonly Message[], name?: 'stdout' | 'stderr'): string {
  return messages
    .filter((m) => m.type === 'stream' && (name === undefined || m.content.name === name))
    .map((m) => m.content.text)
    .join('')
}

export function resultText(run: Run): string | undefined {
  const result = run.messages.find((m) => m.type === 'execute_result')
  return (result?.content.data as Record<string, string> | undefined)?.['text/plain']
}

export function outputsOf(run: Run, type: string): Json[] {
  return run.messages.filter((m) => m.type === type).map((m) => m.content)
}
