/** The shared document and presence over DOC and EPHEMERAL frames. */
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readSyncMessage, writeSyncStep1, writeUpdate } from 'y-protocols/sync'
import * as Y from 'yjs'
import { DOC_SYNC } from '../../protocol/channels.ts'
import { FrameType } from '../../protocol/frames.ts'
import { presenceColor } from '../../protocol/presence.ts'
import { until } from '../support/until.ts'
import { Fixture } from './fixture.ts'
import { type Frame, type Peer, ready, type Script } from './scripted-daemon.ts'

let fixture: Fixture
beforeEach(() => {
  fixture = new Fixture()
})
afterEach(() => fixture.dispose())

/** A document that is kept as the daemon keeps it: it answers a step 1 with step 2 and a step 1 of its own. */
class Kept {
  readonly doc = new Y.Doc()
  /** Frames are left lying while it is false. */
  answers = true
  readonly #waiting: [Peer, Frame][] = []

  get script(): Script {
    return {
      frame: (peer, frame) => {
        if (frame.type === FrameType.EPHEMERAL) {
          for (const other of this.live)
            if (other !== peer) other.wire.send(FrameType.EPHEMERAL, 1, frame.payload)
        }
        if (frame.type !== FrameType.DOC) return
        if (this.answers) this.#handle(peer, frame)
        else this.#waiting.push([peer, frame])
      },
    }
  }
  live: Peer[] = []

  release(): void {
    this.answers = true
    for (const [peer, frame] of this.#waiting.splice(0)) if (!peer.ended) this.#handle(peer, frame)
  }

  #handle(peer: Peer, { payload, channel }: Frame): void {
    const decoder = decoding.createDecoder(payload)
    if (decoding.readVarUint(decoder) !== DOC_SYNC) throw new Error('no sync message')
    const answer = encoding.createEncoder()
    encoding.writeVarUint(answer, DOC_SYNC)
    const before = Y.encodeStateVector(this.doc)
    const kind = readSyncMessage(decoder, answer, this.doc, peer)
    if (kind === 0) {
      peer.send(FrameType.DOC, channel, encoding.toUint8Array(answer))
      peer.send(
        FrameType.DOC,
        channel,
        frameOf((encoder) => writeSyncStep1(encoder, this.doc)),
      )
      return
    }
    const update = Y.encodeStateAsUpdate(this.doc, before)
    for (const other of this.live)
      if (other !== peer && !other.ended)
        other.send(
          FrameType.DOC,
          channel,
          frameOf((encoder) => writeUpdate(encoder, update)),
        )
  }
}

function frameOf(write: (encoder: encoding.Encoder) => void): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeVarUint(encoder, DOC_SYNC)
  write(encoder)
  return encoding.toUint8Array(encoder)
}

test('doc() resolves with the content, and edits go both ways', async () => {
  const kept = new Kept()
  kept.doc.getText('t').insert(0, 'hello')
  const daemon = await fixture.daemon(kept.script)
  kept.live = daemon.peers
  const one = await (await fixture.connect()).openRoom({ path: '/x' })
  const two = await (await fixture.connect()).openRoom({ path: '/x' })
  const [a, b] = await Promise.all([one.doc(), two.doc()])
  expect(a.getText('t').toString()).toBe('hello')
  expect(await one.doc()).toBe(a)
  a.getText('t').insert(5, ' world')
  await until('the other side', () => b.getText('t').toString() === 'hello world')
  b.getText('t').delete(0, 6)
  await until('the first side', () => a.getText('t').toString() === 'world')
  expect(kept.doc.getText('t').toString()).toBe('world')
})

test('flush waits until what was edited is answered for, and close waits for it', async () => {
  const kept = new Kept()
  const daemon = await fixture.daemon(kept.script)
  kept.live = daemon.peers
  const room = await (await fixture.connect()).openRoom({ path: '/x' })
  const doc = await room.doc()
  await room.flush()
  kept.answers = false
  doc.getText('t').insert(0, 'x')
  let flushed = false
  const flush = room.flush().then(() => {
    flushed = true
  })
  const closing = room.close()
  await until('the edit', () => daemon.peers[0]?.frames.filter(({ type }) => type === FrameType.DOC).length)
  expect(flushed).toBe(false)
  expect(room.state.attachment).toBe('attached')
  kept.release()
  await flush
  await closing
  expect(kept.doc.getText('t').toString()).toBe('x')
  expect(room.state.attachment).toBe('closed')
})

test('edits made while the daemon is away, and those it never answered for, are offered again', async () => {
  const kept = new Kept()
  kept.doc.getText('t').insert(0, '0')
  const first = await fixture.daemon(kept.script)
  kept.live = first.peers
  const room = await (await fixture.connect()).openRoom({ path: '/x' })
  const text = (await room.doc()).getText('t')
  await room.flush()
  // Lost with the daemon: it dies before it has taken this one.
  kept.answers = false
  text.insert(1, '1')
  await until('the edit', () => first.peers[0]?.frames.some(({ type }) => type === FrameType.DOC))
  await first.kill()
  text.insert(2, '2')
  // Meanwhile somebody else wrote.
  kept.doc.getText('t').insert(0, '-')
  kept.answers = true
  const second = await fixture.daemon({
    ...kept.script,
    open: (peer, channel) => peer.opened(channel, { picture: 'current', pages: false }),
  })
  kept.live = second.peers
  await room.flush()
  await until('both', () => kept.doc.getText('t').toString() === '-012')
  expect(text.toString()).toBe('-012')
})

test('deletions alone are confirmed like everything else', async () => {
  const kept = new Kept()
  kept.doc.getText('t').insert(0, 'abc')
  const daemon = await fixture.daemon(kept.script)
  kept.live = daemon.peers
  const room = await (await fixture.connect()).openRoom({ path: '/x' })
  const doc = await room.doc()
  doc.getText('t').delete(0, 2)
  await room.flush()
  expect(kept.doc.getText('t').toString()).toBe('c')
})

test('a gap asks for the document by state vector', async () => {
  const kept = new Kept()
  const daemon = await fixture.daemon(kept.script)
  kept.live = daemon.peers
  const room = await (await fixture.connect()).openRoom({ path: '/x' })
  const doc = await room.doc()
  // An update that this peer was never sent.
  kept.doc.getText('t').insert(0, 'missed')
  const peer = daemon.peers[0] as Peer
  peer.event(1, undefined, { type: 'gap', from: 1, to: 1, reason: 'slow' })
  peer.page(1, [])
  await until('the content', () => doc.getText('t').toString() === 'missed')
})

test('a viewer’s edits stay its own', async () => {
  const kept = new Kept()
  const daemon = await fixture.daemon({
    ...kept.script,
    open(peer, channel) {
      peer.opened(channel, { scope: 'viewer' })
      peer.page(channel, [])
    },
  })
  kept.live = daemon.peers
  const room = await (await fixture.connect()).openRoom({ path: '/x' }, { scope: 'viewer' })
  const doc = await room.doc()
  doc.getText('t').insert(0, 'mine')
  await room.flush()
  expect(kept.doc.getText('t').toString()).toBe('')
})

test('the document waits for its gate', async () => {
  const kept = new Kept()
  kept.doc.getText('t').insert(0, 'late')
  const daemon = await fixture.daemon({
    ...kept.script,
    open(peer, channel) {
      peer.opened(channel, { readiness: { ...ready, document: 'syncing' } })
      peer.page(channel, [])
    },
  })
  const room = await (await fixture.connect()).openRoom({ path: '/x' })
  const loading = room.doc()
  await import('../../client/sdk/document.ts')
  expect(daemon.peers[0]?.frames.filter(({ type }) => type === FrameType.DOC)).toEqual([])
  daemon.live[0]?.send(FrameType.READINESS, 1, ready)
  expect((await loading).getText('t').toString()).toBe('late')
})

test('presence reaches others, with label and kind from the start', async () => {
  const kept = new Kept()
  const daemon = await fixture.daemon(kept.script)
  kept.live = daemon.peers
  const one = await (await fixture.connect({ label: 'One' })).openRoom({ path: '/x' })
  expect(() => one.presence).toThrow('await room.doc()')
  await one.doc()
  const two = await (await fixture.connect({ label: 'Two', kind: 'web' })).openRoom({ path: '/x' })
  await two.doc()
  const { clientID } = two.presence
  await until('the other', () => one.presence.states.has(clientID))
  expect(one.presence.states.get(clientID)).toEqual({
    label: 'Two',
    color: presenceColor('Two'),
    kind: 'web',
  })
  two.presence.setLocalStateField('cursor', { cell: 'a', offset: 3 })
  await until('the cursor', () => one.presence.states.get(clientID)?.cursor !== undefined)
})

test('doc() rejects when the room is closed before the content came', async () => {
  const kept = new Kept()
  kept.answers = false
  await fixture.daemon(kept.script)
  const room = await (await fixture.connect()).openRoom({ path: '/x' })
  const loading = room.doc()
  const failed = expect(loading).rejects.toMatchObject({ code: 'client_closed' })
  await import('../../client/sdk/document.ts')
  await room.close()
  await failed
})

test('closing while edits cannot be confirmed says so, and closes', async () => {
  const kept = new Kept()
  const daemon = await fixture.daemon(kept.script)
  kept.live = daemon.peers
  const client = await fixture.connect()
  const room = await client.openRoom({ path: '/x' })
  const doc = await room.doc()
  await daemon.kill()
  await until('the loss to be noticed', () => !client.connected)
  doc.getText('t').insert(0, 'lost')
  await expect(room.close()).rejects.toMatchObject({ code: 'daemon_lost' })
  expect(room.state.attachment).toBe('closed')
})
