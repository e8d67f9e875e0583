/** Stands between a client and a server on loopback; the test cuts what goes through it and lets it come back. */
import { connect, createServer, type Server, type Socket } from 'node:net'

export class TcpRelay {
  readonly #server: Server
  readonly #port: number
  readonly #pairs = new Set<{ readonly client: Socket; readonly server: Socket }>()
  #open = true
  #holding = false
  connections = 0

  private constructor(server: Server, port: number) {
    this.#server = server
    this.#port = port
  }

  static async start(port: number): Promise<TcpRelay> {
    const server = createServer()
    const relay = new TcpRelay(server, port)
    server.on('connection', (client) => relay.#accept(client))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    return relay
  }

  get url(): string {
    const address = this.#server.address()
    if (typeof address !== 'object' || address === null) throw new Error('the relay does not listen')
    return `http://127.0.0.1:${address.port}`
  }

  /** Resets every connection; what was on its way is lost. New ones are refused until `restore`. */
  cut(): void {
    this.#open = false
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy()
      server.resetAndDestroy()
    }
  }

  /** From now on nothing that the server says gets through, while the server believes that it does. */
  swallow(): void {
    this.#holding = true
  }

  restore(): void {
    this.#open = true
    this.#holding = false
  }

  async dispose(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #accept(client: Socket): void {
    if (!this.#open) {
      client.resetAndDestroy()
      return
    }
    this.connections++
    const server = connect(this.#port, '127.0.0.1')
    const pair = { client, server }
    this.#pairs.add(pair)
    const end = (): void => {
      this.#pairs.delete(pair)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      socket.on('error', end)
      socket.on('close', end)
    }
    client.on('data', (data) => server.write(data))
    server.on('data', (data) => {
      // A connection from before `swallow` stays deaf for good.
      if (!this.#holding) client.write(data)
    })
  }
}
