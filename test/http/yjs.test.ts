/** Yjs editors at /yjs/{notebook_id}, with y-websocket's provider as it is published. */

import * as encoding from 'lib0/encoding'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { writeSyncStep1, writeUpdate } from 'y-protocols/sync'
import * as Y from 'yjs'
import { until } from '../support/until.ts'
import { HttpFixture, sourceOf, synced } from './support.ts'

let http: HttpFixture
beforeAll(async () => {
  http = await HttpFixture.start()
})
afterAll(() => http.dispose())

const cellsOf = (doc: Y.Doc): Y.Array<Y.Map<unknown>> => doc.getArray('cells')

/** A WebSocket that is spoken to by hand. */
async function raw(notebookId: string, token = http.ownerToken) {
  const socket = new WebSocket(`${http.wsUrl}/yjs/${notebookId}`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const received: Buffer[] = []
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() })),
  )
  socket.on('message', (data: Buffer) => received.push(data))
  await new Promise((resolve, reject) => {
    socket.on('open', resolve)
    socket.on('error', reject)
  })
  http.later(() => socket.terminate())
  return { socket, received, closed }
}

function message(write: (encoder: encoding.Encoder) => void, kind = 0): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, kind)
  write(encoder)
  return encoding.toUint8Array(encoder)
}

describe('an editor', () => {
  test('gets the notebook, and edits go both ways and are durable', async () => {
    const id = await http.room('both.ipynb', ['a = 1', 'b = 2'])
    const one = http.provider(id)
    const two = http.provider(id)
    await Promise.all([synced(one), synced(two)])
    expect(cellsOf(one.doc).map((cell) => String(cell.get('source')))).toEqual(['a = 1', 'b = 2'])
    sourceOf(one.doc, 0).insert(5, '0')
    await until('the other editor', () => sourceOf(two.doc, 0).toString() === 'a = 10')
    const room = [...http.owner.rooms].find((open) => open.id === id)
    await room?.setSource('c1', 'b = 3')
    await until('both editors', () => [one, two].every(({ doc }) => sourceOf(doc, 1).toString() === 'b = 3'))
    const { cell } = (await room?.call('get_cell', { cell_id: 'c0' })) ?? {}
    expect(cell?.source).toBe('a = 10')
    await http.killAndStart()
    sourceOf(two.doc, 0).insert(0, '# ')
    await until('the first editor', () => sourceOf(one.doc, 0).toString() === '# a = 10')
  })

  test('is a peer with a name, sees where others are, and is seen by them until it leaves', async () => {
    const id = await http.room('presence.ipynb', ['1'])
    const one = http.provider(id)
    one.params = { label: 'A\u202enna' }
    const two = http.provider(id)
    await synced(one)
    one.awareness.setLocalStateField('user', { name: 'Anna' })
    await synced(two)
    await until('Anna', () => two.awareness.getStates().get(one.doc.clientID)?.user?.name === 'Anna')
    const room = [...http.owner.rooms].find((open) => open.id === id)
    await until('its name', () =>
      room?.state.peers.some(({ label, kind }) => label === 'Yjs editor' && kind === 'editor'),
    )
    await room?.doc()
    await until('the SDK', () => room?.presence.getStates().get(one.doc.clientID)?.user?.name === 'Anna')
    one.destroy()
    await until('Anna to be gone', () => !two.awareness.getStates().has(one.doc.clientID))
    await until('two peers', () => room?.state.peers.length === 2)
  })

  test('asks where everybody is and is answered; its own presence comes back to it', async () => {
    const id = await http.room('query.ipynb', ['1'])
    const other = http.provider(id)
    await synced(other)
    other.awareness.setLocalStateField('user', { name: 'Anna' })
    const { socket, received } = await raw(id)
    await until('Anna', () => received.some((bytes) => bytes[0] === 1 && bytes.includes('Anna')))
    received.length = 0
    socket.send(message(() => {}, 3))
    await until('Anna again', () => received.some((bytes) => bytes[0] === 1 && bytes.includes('Anna')))
    const own = message(
      (encoder) => encoding.writeVarUint8Array(encoder, Uint8Array.of(1, 7, 1, 2, 123, 125)),
      1,
    )
    socket.send(own)
    await until('the echo', () => received.some((bytes) => bytes.equals(own)))
  })

  test('that heard of another does not take its place', async () => {
    const id = await http.room('echo.ipynb', ['1'])
    const [one, two, three] = [http.provider(id), http.provider(id), http.provider(id)]
    await Promise.all([one, two, three].map(synced))
    one.awareness.setLocalStateField('n', 1)
    await until('all', () =>
      [two, three].every((p) => p.awareness.getStates().get(one.doc.clientID)?.n === 1),
    )
    // y-websocket says what it heard again; when it goes, what it heard stays.
    two.destroy()
    await until('two is gone', () => !three.awareness.getStates().has(two.doc.clientID))
    expect(three.awareness.getStates().get(one.doc.clientID)?.n).toBe(1)
  })
})

describe('who may not write', () => {
  test('is told so, goes on reading, and changes nothing', async () => {
    const id = await http.room('viewer.ipynb', ['1'])
    const { token } = await http.token({ scope: 'viewer', notebook_id: id })
    const warned = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const viewer = http.provider(id, token)
    const editor = http.provider(id)
    await Promise.all([synced(viewer), synced(editor)])
    sourceOf(viewer.doc, 0).insert(0, 'mine')
    await until('the denial', () =>
      warned.mock.calls.flat().some((text) => String(text).includes('only reads')),
    )
    warned.mockRestore()
    sourceOf(editor.doc, 0).insert(1, '0')
    await until('the editor’s change', () => sourceOf(viewer.doc, 0).toString() === 'mine10')
    expect(sourceOf(editor.doc, 0).toString()).toBe('10')
    expect(viewer.wsconnected).toBe(true)
  })

  test('an unknown room, and a name that is none, are closed for good', async () => {
    for (const name of ['82de1f24-5b6c-4811-9b74-1eb2082fde7c', 'x']) {
      const { closed } = await raw(name)
      expect((await closed).code).toBe(4404)
    }
  })

  test('a document of another history is compared, reported and not merged', async () => {
    const id = await http.room('foreign.ipynb', ['1', '2'])
    const foreign = new Y.Doc()
    cellsOf(foreign).push(
      ['1', 'other'].map((source, i) => {
        const cell = new Y.Map<unknown>()
        cell.set('id', `c${i}`)
        cell.set('cell_type', 'code')
        cell.set('source', new Y.Text(source))
        cell.set('metadata', new Y.Map())
        return cell
      }),
    )
    const warned = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const provider = http.provider(id, http.ownerToken, foreign)
    const end = await new Promise<{ code: number; reason: string }>((resolve) =>
      provider.on('closed', resolve),
    )
    expect(end.code).toBe(4409)
    expect(warned.mock.calls.flat().join()).toContain('1 cells differ')
    warned.mockRestore()
    const fresh = http.provider(id)
    await synced(fresh)
    expect(cellsOf(fresh.doc).map((cell) => String(cell.get('source')))).toEqual(['1', '2'])
  })

  test('what breaks the notebook’s layout, or is no message, ends that connection alone', async () => {
    const id = await http.room('layout.ipynb', ['1'])
    const editor = http.provider(id)
    await synced(editor)
    const doc = new Y.Doc()
    Y.applyUpdate(doc, Y.encodeStateAsUpdate(editor.doc))
    const before = Y.encodeStateVector(doc)
    cellsOf(doc).get(0).set('source', 5)
    for (const bytes of [
      message((encoder) => writeUpdate(encoder, Y.encodeStateAsUpdate(doc, before))),
      message((encoder) => writeUpdate(encoder, Uint8Array.of(1, 2, 3, 255))),
      Uint8Array.of(0, 9, 0),
      Uint8Array.of(0),
    ]) {
      const { socket, closed } = await raw(id)
      socket.send(bytes)
      expect((await closed).code).toBe(4400)
    }
    const text = await raw(id)
    text.socket.send('text')
    expect((await text.closed).code).toBe(1003)
    const large = await raw(id)
    large.socket.on('error', () => {})
    large.socket.send(new Uint8Array(66 * 1024 * 1024))
    expect([1006, 1009]).toContain((await large.closed).code)
    expect(sourceOf(editor.doc, 0).toString()).toBe('1')
    expect(editor.wsconnected).toBe(true)
  })
})

describe('an editor that does not read', () => {
  test('keeps nobody waiting, costs bounded memory, and has everything once it reads', async () => {
    const id = await http.room('slow.ipynb', ['1'])
    const fast = http.provider(id)
    await synced(fast)
    const slow = new Y.Doc()
    const { socket, received } = await raw(id)
    socket.send(message((encoder) => writeSyncStep1(encoder, slow)))
    await until('the document', () => received.length >= 2)
    socket.pause()
    const piece = 'x'.repeat(200_000)
    for (let n = 0; n < 150; n++) {
      sourceOf(fast.doc, 0).insert(0, piece)
      sourceOf(fast.doc, 0).delete(0, piece.length)
    }
    sourceOf(fast.doc, 0).insert(0, 'end ')
    const room = [...http.owner.rooms].find((open) => open.id === id)
    await until('the room', () => room?.state.cells[0]?.source === 'end 1', { timeout: 50_000 })
    const apply = (bytes: Buffer): void => {
      if (bytes[0] === 0 && (bytes[1] === 1 || bytes[1] === 2)) applySync(slow, bytes)
    }
    for (const bytes of received) apply(bytes)
    socket.on('message', apply)
    socket.resume()
    await until(
      'the slow editor',
      () => cellsOf(slow).length === 1 && sourceOf(slow, 0).toString() === 'end 1',
      {
        timeout: 50_000,
      },
    )
    // Far less came than was sent: it was not queued one by one.
    const bytes = received.reduce((sum, one) => sum + one.length, 0)
    expect(bytes).toBeLessThan(25_000_000)
  })
})

/** Applies step 2 or an update. */
function applySync(doc: Y.Doc, bytes: Buffer): void {
  let at = 2
  let length = 0
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++] ?? 0
    length += (byte & 127) * 2 ** shift
    if (byte < 128) break
  }
  Y.applyUpdate(doc, bytes.subarray(at, at + length))
}
