import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Channel } from '../../daemon/kernel-host/connection-file.ts'
import { dictionary, type RawMessage } from '../../daemon/kernel-host/jupyter-message.ts'
import { Continuity } from '../../daemon/kernel-host/remote/continuity.ts'
import { Incarnation } from '../../daemon/kernel-host/remote/incarnation.ts'
import { jsonFormat, v1Format } from '../../daemon/kernel-host/remote/ws-messages.ts'

describe.each([
  ['v1.kernel.websocket.jupyter.org', v1Format],
  ['the older form', jsonFormat],
])('%s', (_name, format) => {
  test('a message is the same on the other side, with its buffers', () => {
    fc.assert(
      fc.property(
        fc.constantFrom<Channel>('shell', 'control', 'stdin'),
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.array(fc.uint8Array()),
        fc.option(fc.uuid()),
        (channel, content, buffers, parentId) => {
          const sent = { msgId: 'id', msgType: 'comm_msg', content, metadata: { a: 1 }, parentId, buffers }
          const frame = format.encode(channel, sent, 'session')
          const { channel: told, raw } = format.decode(Buffer.from(frame), typeof frame !== 'string')
          expect(told).toBe(channel)
          expect(raw).toMatchObject({
            msgId: 'id',
            msgType: 'comm_msg',
            session: 'session',
            parentId,
            metadata: { a: 1 },
          })
          expect(dictionary(raw.rawContent)).toEqual(JSON.parse(JSON.stringify(content)))
          expect(raw.buffers.map((buffer) => [...buffer])).toEqual(buffers.map((buffer) => [...buffer]))
        },
      ),
    )
  })

  test('whatever else comes is refused with a reason, never taken for a message', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, binary) => {
        expect(() => format.decode(Buffer.from(bytes), binary)).toThrow()
      }),
    )
  })
})

describe('continuity', () => {
  const id = (number: number): string => `session_77_${number}`

  test('numbers that follow each other prove that nothing is missing', () => {
    const continuity = new Continuity()
    continuity.note('iopub', id(4))
    continuity.note('shell', id(5))
    continuity.suspect('lost')
    expect(continuity.note('iopub', id(6))).toBeNull()
    // The suspicion is settled.
    expect(continuity.note('iopub', id(20))).toBeNull()
  })

  test('a hole is told with its size, before the message behind it', () => {
    const continuity = new Continuity()
    continuity.note('iopub', id(4))
    continuity.suspect('lost')
    continuity.suspect('lost again')
    expect(continuity.note('iopub', id(8))).toBe('lost; up to 3 messages of the kernel are missing')
  })

  test('a kernel that does not number, and an end without a message, leave it open', () => {
    const continuity = new Continuity()
    continuity.note('iopub', 'b9c1')
    continuity.suspect('lost')
    expect(continuity.note('iopub', 'b9c2')).toMatch(/may be missing/)
    continuity.suspect('lost')
    expect(continuity.end()).toMatch(/may be missing/)
    expect(continuity.end()).toBeNull()
  })
})

describe('the kernel behind the id', () => {
  const message = (fields: Partial<RawMessage> & { content?: object }): RawMessage => ({
    msgType: 'status',
    msgId: 'id',
    parentId: 'parent',
    session: 'kernel',
    parentSession: 'ours',
    metadata: {},
    buffers: [],
    rawContent: Buffer.from(JSON.stringify(fields.content ?? { execution_state: 'busy' })),
    ...fields,
  })

  test('answers to other clients of a kernel without a session of its own are no sign of another kernel', () => {
    const incarnation = new Incarnation('ours', null)
    for (const client of ['ours', 'theirs', 'ours', 'somebody'])
      expect(incarnation.note('iopub', message({ session: client, parentSession: client }), false)).toBeNull()
    expect(incarnation.session).toBeNull()
  })

  test('another session id is another kernel, whoever it answers', () => {
    const incarnation = new Incarnation('ours', null)
    expect(incarnation.note('iopub', message({}), false)).toBeNull()
    expect(incarnation.session).toBe('kernel')
    expect(incarnation.note('iopub', message({ parentSession: 'theirs' }), false)).toBeNull()
    expect(incarnation.note('iopub', message({ session: 'next', parentSession: 'theirs' }), false)).toMatch(
      /started anew/,
    )
  })

  test('a new host knows the session from the one before it', () => {
    expect(new Incarnation('ours', 'before').note('iopub', message({}), false)).toMatch(/started anew/)
  })

  test("only the server's own message says that it restarts the kernel", () => {
    const restarting = { execution_state: 'restarting' }
    const printed = message({ msgType: 'stream', content: { name: 'stdout', text: 'restarting' } })
    const incarnation = new Incarnation('ours', null)
    expect(incarnation.note('iopub', printed, false)).toBeNull()
    const told = message({ session: 'ours', parentId: null, parentSession: null, content: restarting })
    expect(incarnation.note('iopub', told, false)).toMatch(/died/)
  })
})
