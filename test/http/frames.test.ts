/** /v1/socket: the same protocol, the same client, with the scope of its token. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { Welcome } from '../../protocol/channels.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { FrameType, MAX_FRAME_PAYLOAD } from '../../protocol/frames.ts'
import type { MethodName } from '../../protocol/methods.ts'
import { methods } from '../../protocol/methods.ts'
import { type Scope, scopeAllows, scopes } from '../../protocol/scopes.ts'
import { offer } from '../../protocol/wire/handshake.ts'
import { preamble } from '../../protocol/wire/preamble.ts'
import { type WebSocketLike, webSocketTransport } from '../../protocol/wire/websocket-transport.ts'
import type { Wire, WireHandlers } from '../../protocol/wire/wire.ts'
import { raw } from '../protocol/frames.ts'
import { until, within } from '../support/until.ts'
import { HttpFixture } from './support.ts'

let http: HttpFixture
let id: string
let other: string
beforeAll(async () => {
  http = await HttpFixture.start()
  id = await http.room('a.ipynb', ['1', '2'])
  other = await http.room('b.ipynb', ['1'])
})
afterAll(() => http.dispose())

const connectAs = async (scope: Scope, notebookId?: string) => {
  const { token } = await http.token({ scope, ...(notebookId ? { notebook_id: notebookId } : {}) })
  return http.connect({ token, label: scope })
}

describe('a client over a WebSocket', () => {
  test('calls, edits, runs and reads as over the Unix socket', async () => {
    const client = await http.connect({ token: http.ownerToken })
    const room = await client.openRoom({ notebook_id: id })
    await room.setSource('c1', 'console.log("x".repeat(3_000_000)); 6 * 7')
    const { done } = await room.execute('c1')
    const { status, execution } = await done
    expect(status).toBe('done')
    expect(execution.outputs).toMatchObject([
      { output_type: 'stream' },
      { output_type: 'execute_result', data: { 'text/plain': '42' } },
    ])
    const doc = await room.doc()
    expect(doc.getArray('cells').length).toBe(2)
    await room.close()
  })

  test('goes on by itself after the daemon was killed', async () => {
    const client = await http.connect({ token: http.ownerToken })
    const room = await client.openRoom({ notebook_id: id })
    await http.killAndStart()
    await room.setSource('c0', 'after')
    const mine = [...http.owner.rooms].find((open) => open.id === id)
    await until('the other client', () => mine?.state.cells[0]?.source === 'after')
  })
})

/** What the table needs of each method, beyond an empty map; nothing that ends the daemon or the room. */
const params: Partial<Record<MethodName, (boot: string) => unknown>> = {
  shutdown: () => ({ boot_id: 'another' }),
  create_token: () => ({ scope: 'viewer' }),
  close_room: () => ({ notebook_id: '82de1f24-5b6c-4811-9b74-1eb2082fde7c' }),
}

describe.each(scopes)('the scope %s', (scope) => {
  test('is held to the one table, on every method', async () => {
    const client = await connectAs(scope)
    const room = await client.openRoom({ notebook_id: id })
    expect(room.state.scope).toBe(scope)
    for (const [method, rule] of Object.entries(methods)) {
      if (!rule) continue
      const asked = params[method as MethodName]?.('') ?? {}
      const call = { signal: AbortSignal.timeout(20_000) }
      const answer = await (rule.channel === 'room'
        ? room.call(method as 'save', asked as never, call)
        : client.call(method as 'ping', asked as never, call)
      ).then(
        () => 'answered',
        (error: { code: string }) => error.code,
      )
      if (scopeAllows(scope, rule.scope)) expect([method, answer]).not.toEqual([method, 'forbidden'])
      else expect([method, answer]).toEqual([method, 'forbidden'])
    }
  })

  test('is held on document frames', async () => {
    const client = await connectAs(scope)
    const room = await client.openRoom({ notebook_id: other })
    const doc = await room.doc()
    const cell = doc.getArray('cells').get(0) as {
      get(key: string): { insert(at: number, text: string): void }
    }
    cell.get('source').insert(0, `${scope} `)
    const mine = [...http.owner.rooms].find((open) => open.id === other)
    if (scopeAllows(scope, 'editor')) {
      await room.flush()
      expect((await mine?.call('get_cell', { cell_id: 'c0' }))?.cell.source).toContain(scope)
    } else {
      await client.call('ping', {})
      expect((await mine?.call('get_cell', { cell_id: 'c0' }))?.cell.source).not.toContain(scope)
      await room.close()
    }
  })

  test('makes rooms only as an owner', async () => {
    const client = await connectAs(scope)
    const create = () => client.openRoom({ create: { path: `${http.home.work}/${scope}.ipynb` } })
    const open = () => client.openRoom({ path: '/etc/hostname' })
    if (scope === 'owner') {
      await (await create()).close()
      await expect(open()).rejects.toMatchObject({ code: 'invalid_argument' })
    } else {
      await expect(create()).rejects.toMatchObject({ code: 'forbidden' })
      await expect(open()).rejects.toMatchObject({ code: 'not_found' })
      const there = await client.openRoom({ path: `${http.home.work}/a.ipynb` })
      expect(there.id).toBe(id)
    }
  })
})

describe('a token that is bound to a room', () => {
  test('reaches that room and nothing of another', async () => {
    const client = await connectAs('owner', id)
    const room = await client.openRoom({ notebook_id: id })
    expect((await client.call('list_rooms', { inactive: true })).rooms.map((one) => one.notebook_id)).toEqual(
      [id],
    )
    const mine = [...http.owner.rooms].find((open) => open.id === other)
    const { execution_id } = (await (await mine?.execute({ code: '1' }))?.done)?.execution ?? {}
    const forbidden = { code: 'forbidden' }
    await expect(client.openRoom({ notebook_id: other })).rejects.toMatchObject(forbidden)
    await expect(client.openRoom({ path: `${http.home.work}/b.ipynb` })).rejects.toMatchObject(forbidden)
    await expect(client.openRoom({ create: {} })).rejects.toMatchObject(forbidden)
    await expect(client.call('find_room', { room: other })).rejects.toMatchObject(forbidden)
    await expect(client.call('close_room', { notebook_id: other })).rejects.toMatchObject(forbidden)
    for (const method of ['get_execution', 'read_output'] as const) {
      const asked = { execution_id: String(execution_id), index: 0 }
      const { index: _, ...alone } = asked
      await expect(
        client.call(method, (method === 'read_output' ? asked : alone) as never),
      ).rejects.toMatchObject(forbidden)
    }
    for (const [method, rule] of Object.entries(methods)) {
      if (rule?.channel !== 'connection' || rule.bound) continue
      await expect(client.call(method as 'ping', {})).rejects.toMatchObject(forbidden)
    }
    await room.setSource('c0', 'mine')
  })
})

/** A WebSocket that is spoken to by hand, its preamble sent. */
async function plain() {
  const socket = new WebSocket(`${http.wsUrl}/v1/socket`, {
    headers: { authorization: `Bearer ${http.ownerToken}` },
  })
  const received: Buffer[] = []
  socket.on('message', (data: Buffer) => received.push(data))
  socket.on('error', () => {})
  const closed = new Promise<number>((resolve) => socket.on('close', resolve))
  await new Promise((resolve) => socket.on('open', resolve))
  http.later(() => socket.terminate())
  return { socket, received, closed, said: () => Buffer.concat(received).toString('latin1') }
}

const hello = {
  client_instance: 'by-hand-1',
  client: { name: 'test', version: '1', pid: 1 },
  label: 'by hand',
}

describe('what is not the protocol', () => {
  test('is answered with ERROR and the end: no preamble, text, a frame over its cap', async () => {
    const wrong = await plain()
    wrong.socket.send(Buffer.from('GET / HTTP/1.1'))
    await within('its end', wrong.closed)
    expect(wrong.said()).toContain('invalid_argument')

    const text = await plain()
    text.socket.send('text')
    expect(await within('its end', text.closed)).toBe(1003)

    const large = await plain()
    large.socket.send(preamble())
    large.socket.send(raw('message', FrameType.HELLO, 0, encode(hello)))
    await until('WELCOME', () => large.received.length >= 2)
    large.socket.send(raw('message', FrameType.REQUEST, 0, new Uint8Array(MAX_FRAME_PAYLOAD + 1)))
    await within('its end', large.closed)
    expect(large.said()).toContain('too_large')
  })
})

describe('a client that does not read', () => {
  test('keeps nobody waiting, is not queued for without end, and gets a gap and a fresh picture', async () => {
    const socket = new WebSocket(`${http.wsUrl}/v1/socket`, {
      headers: { authorization: `Bearer ${http.ownerToken}` },
    })
    http.later(() => socket.terminate())
    const events: { event: { type: string } }[] = []
    const pages: { cells: { source: string }[] }[] = []
    // The daemon's first message may come with the answer to the upgrade.
    const { wire } = await new Promise<{ wire: Wire }>((resolve, reject) => {
      const handlers: WireHandlers = {
        value(type, _channel, payload) {
          if (type === FrameType.EVENT) events.push(decode(payload) as never)
          if (type === FrameType.PROJECTION) pages.push(decode(payload) as never)
        },
        closed: () => {},
      }
      socket.on('open', () => {
        const transport = webSocketTransport(socket as WebSocketLike)
        offer(transport, hello, { welcome: Welcome, handlers: () => handlers }).then(resolve, reject)
      })
    })
    wire.openChannel(1)
    wire.send(FrameType.OPEN, 1, encode({ target: { notebook_id: other }, mode: 'attach' }))
    await until('the picture', () => pages.length === 1)
    socket.pause()
    const mine = [...http.owner.rooms].find((open) => open.id === other)
    const code = 'for (let i = 0; i < 1500; i++) console.log(i + "y".repeat(20_000))'
    const run = await mine?.execute({ code })
    expect((await run?.done)?.status).toBe('done')
    await mine?.setSource('c0', 'up to date')
    const { peers } = (await http.owner.call('find_room', { room: other })).room
    expect(peers.map(({ label }) => label)).toContain('by hand')
    socket.resume()
    await until('the gap', () => events.some(({ event }) => event.type === 'gap'))
    await until('a fresh page', () => pages.at(-1)?.cells[0]?.source === 'up to date')
    wire.destroy()
  })
})
