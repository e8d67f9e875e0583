import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeMessage, dictionary, encodeMessage } from '../../daemon/kernel-host/jupyter-message.ts'
import { GIANT_BYTES, giantStream } from '../../daemon/kernel-host/stream-pieces.ts'

test('a message is signed, and read back as it was', () => {
  const parts = encodeMessage(
    {
      msgId: 'one',
      msgType: 'execute_request',
      content: { code: 'ä' },
      parentId: 'zero',
      buffers: [new Uint8Array([1, 2])],
    },
    'secret',
    'session',
  ).map((part) => Buffer.from(part))
  const message = decodeMessage([Buffer.from('routing id'), ...parts], 'secret')
  expect(message).toMatchObject({ msgId: 'one', msgType: 'execute_request', parentId: 'zero' })
  expect(dictionary(message.rawContent)).toEqual({ code: 'ä' })
  expect(message.buffers.map((buffer) => [...buffer])).toEqual([[1, 2]])
})

test('a message that was changed or signed with another key is refused', () => {
  const parts = encodeMessage({ msgId: 'one', msgType: 'status', content: { a: 1 } }, 'secret', 's').map(
    (part) => Buffer.from(part),
  )
  expect(() => decodeMessage(parts, 'other')).toThrow('wrong signature')
  parts[5] = Buffer.from('{"a":2}')
  expect(() => decodeMessage(parts, 'secret')).toThrow('wrong signature')
})

test('a giant stream is cut into pieces that are the same text', () => {
  const tricky = fc.stringMatching(/^[\\"a\u00e4\u20ac\u{1f600}\n\u0001\ud800]{1,12}$/u)
  fc.assert(
    fc.property(tricky, fc.boolean(), fc.nat(13), (unit, escaped, shift) => {
      const text = 'x'.repeat(shift) + unit.repeat(Math.ceil((GIANT_BYTES * 2.5) / (unit.length * 3)))
      const json = JSON.stringify({ name: 'stdout', text })
      // As Python writes it: everything beyond ASCII escaped.
      const bytes = escaped
        ? Buffer.from(
            json.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
          )
        : Buffer.from(json)
      const pieces = giantStream('stream', bytes)
      if (bytes.length <= GIANT_BYTES) {
        expect(pieces).toBeNull()
        return
      }
      const all = [...(pieces ?? [])]
      expect(all.every((piece) => piece.name === 'stdout')).toBe(true)
      // A surrogate pair or an escape is never cut: each piece is text of its own.
      const whole = (JSON.parse(bytes.toString('utf8')) as { text: string }).text
      expect(all.map((piece) => piece.text).join('') === whole).toBe(true)
      if (!/[\ud800-\udbff](?![\udc00-\udfff])/.test(unit))
        expect(all.every((piece) => !/[\ud800-\udbff]$/.test(piece.text))).toBe(true)
    }),
    { numRuns: 25 },
  )
})

test('other members than name and text, and other types, are parsed whole', () => {
  const long = 'y'.repeat(GIANT_BYTES)
  expect(
    giantStream('stream', Buffer.from(JSON.stringify({ name: 'stdout', text: long, more: 1 }))),
  ).toBeNull()
  expect(giantStream('display_data', Buffer.from(JSON.stringify({ name: 'a', text: long })))).toBeNull()
  const reversed = giantStream('stream', Buffer.from(JSON.stringify({ text: `${long}"`, name: 'stderr' })))
  expect([...(reversed ?? [])].map((piece) => piece.text).join('')).toBe(`${long}"`)
})
