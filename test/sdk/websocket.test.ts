/** The same client over a WebSocket: frames are messages, everything else is the same. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { webSocketTransport } from '../../protocol/wire/websocket-transport.ts'
import { Fixture } from './fixture.ts'
import { ScriptedDaemon } from './scripted-daemon.ts'

let fixture: Fixture
let server: Server
let url: string
const asked: { path: string | undefined; token: string | undefined }[] = []

beforeEach(async () => {
  fixture = new Fixture()
  asked.length = 0
  const daemon = ScriptedDaemon.onTransports({
    request: (peer, channel, request) => peer.answer(channel, request.id, { rooms: [] }),
  })
  const sockets = new WebSocketServer({ noServer: true })
  server = createServer()
  server.on('upgrade', (request, socket, head) => {
    const token = request.headers.authorization
    asked.push({ path: request.url, token })
    if (token !== 'Bearer secret') {
      socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
      return
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) =>
      daemon.accept(webSocketTransport(webSocket as never)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(async () => {
  await fixture.dispose()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

test('calls and rooms work, and the token is a header', async () => {
  const client = await fixture.connect({ url, token: 'secret' })
  await expect(client.call('list_rooms', {})).resolves.toEqual({ rooms: [] })
  const room = await client.openRoom({ path: 'relative.ipynb' })
  expect(room.state.cells).toEqual([])
  expect(asked).toEqual([{ path: '/v1/socket', token: 'Bearer secret' }])
})

test('a wrong token is unauthorized at once', async () => {
  await expect(fixture.connect({ url, token: 'wrong' })).rejects.toMatchObject({ code: 'unauthorized' })
})

test('a URL that is none, or of another kind, is refused', async () => {
  await expect(fixture.connect({ url: 'nowhere' })).rejects.toMatchObject({ code: 'invalid_argument' })
  await expect(fixture.connect({ url: 'ftp://x' })).rejects.toMatchObject({ code: 'invalid_argument' })
})
