/** The framing conformance suite over Unix sockets and over WebSockets. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { dial } from '../../protocol/wire/dial.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import { type WebSocketLike, webSocketTransport } from '../../protocol/wire/websocket-transport.ts'
import { framingConformance, type TransportMaker } from '../conformance/framing.ts'

const folder = mkdtempSync(join(tmpdir(), 'roomd-framing-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function overUnixSockets(): TransportMaker {
  const sockets = new Set<Socket>()
  let server: Server | undefined
  let arrived: (socket: Socket) => void = () => {}
  const path = join(folder, 's')
  return {
    name: 'a Unix socket',
    async pair() {
      if (server === undefined) {
        server = createServer((socket) => arrived(socket))
        await new Promise<void>((resolve) => server?.listen(path, resolve))
      }
      const accepted = new Promise<Socket>((resolve) => {
        arrived = resolve
      })
      const [client, daemon] = await Promise.all([dial(path), accepted])
      for (const socket of [client, daemon]) sockets.add(socket)
      return { client: socketTransport(client), daemon: socketTransport(daemon) }
    },
    async dispose() {
      for (const socket of sockets) socket.destroy()
      sockets.clear()
      const closing = server
      server = undefined
      if (closing) await new Promise((resolve) => closing.close(resolve))
    },
  }
}

function overWebSockets(): TransportMaker {
  const sockets = new Set<WebSocket>()
  let server: WebSocketServer | undefined
  return {
    name: 'a WebSocket',
    async pair() {
      if (server === undefined) {
        server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
        await new Promise<void>((resolve) => server?.once('listening', resolve))
      }
      const address = server.address()
      if (address === null || typeof address === 'string') throw new Error('no port')
      const accepted = new Promise<WebSocket>((resolve) => server?.once('connection', resolve))
      const client = new WebSocket(`ws://127.0.0.1:${address.port}`)
      await new Promise<void>((resolve, reject) => {
        client.once('open', resolve)
        client.once('error', reject)
      })
      // The upgrade and the daemon's first message may arrive together.
      client.pause()
      const daemon = await accepted
      for (const socket of [client, daemon]) sockets.add(socket)
      queueMicrotask(() => client.resume())
      return {
        client: webSocketTransport(client as WebSocketLike),
        daemon: webSocketTransport(daemon as WebSocketLike),
      }
    },
    async dispose() {
      for (const socket of sockets) socket.terminate()
      sockets.clear()
      const closing = server
      server = undefined
      if (closing) await new Promise((resolve) => closing.close(resolve))
    },
  }
}

framingConformance(overUnixSockets())
framingConformance(overWebSockets())
