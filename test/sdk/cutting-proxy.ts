/** Stands between client and daemon and breaks the connection after so many bytes of what the daemon sends. */
import { connect, createServer, type Server, type Socket } from 'node:net'

export class CuttingProxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Bytes still to be let through to the client, then the connection is cut; null: all of them. */
  allowance: number | null = null
  cuts = 0

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(path: string, daemon: string): Promise<CuttingProxy> {
    const server = createServer()
    const proxy = new CuttingProxy(server)
    server.on('connection', (client) => proxy.#join(client, connect(daemon)))
    await new Promise<void>((resolve) => server.listen(path, resolve))
    return proxy
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #join(client: Socket, daemon: Socket): void {
    const cut = (): void => {
      client.destroy()
      daemon.destroy()
    }
    for (const socket of [client, daemon]) {
      this.#sockets.add(socket)
      socket.on('error', cut)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        cut()
      })
    }
    client.on('data', (bytes) => daemon.write(bytes))
    daemon.on('data', (bytes) => {
      if (this.allowance === null) {
        client.write(bytes)
        return
      }
      const through = bytes.subarray(0, this.allowance)
      this.allowance -= through.length
      if (this.allowance > 0) {
        client.write(through)
        return
      }
      this.allowance = null
      this.cuts++
      // What was let through arrives before the end.
      client.end(through)
      daemon.destroy()
    })
  }
}
