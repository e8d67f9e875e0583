/** Lines and messages: every split, long lines, what is no message, and whom to answer then. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { idAtTheEnds, parseMessage } from '../../client/mcp-proxy/jsonrpc.ts'
import { type Line, LineSplitter } from '../../client/mcp-proxy/lines.ts'

function split(chunks: readonly Buffer[], max?: number): Line[] {
  const splitter = new LineSplitter(max)
  return chunks.flatMap((chunk) => [...splitter.push(chunk)])
}

test('lines are the same for every split of their bytes', () => {
  const bytes = Buffer.from('{"a":"ä€😀"}\n\r\n  \n{"b":1}\r\nrest')
  for (let at = 0; at <= bytes.length; at++) {
    const lines = split([bytes.subarray(0, at), bytes.subarray(at)])
    expect(lines.map((line) => line.kind === 'line' && JSON.parse(line.text))).toEqual([
      { a: 'ä€😀' },
      { b: 1 },
    ])
  }
  const lines = split([...bytes].map((byte) => Buffer.from([byte])))
  expect(lines).toHaveLength(2)
})

test('a line over the bound keeps its ends only, in whatever pieces it comes', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3000 }), fc.integer({ min: 1, max: 400 }), (length, piece) => {
      const text = `H${'x'.repeat(length)}T`
      const bytes = Buffer.from(`${text}\nnext\n`)
      const chunks = []
      for (let at = 0; at < bytes.length; at += piece) chunks.push(bytes.subarray(at, at + piece))
      const [first, second] = split(chunks, 1000)
      expect(second).toEqual({ kind: 'line', text: 'next' })
      if (text.length <= 1000) expect(first).toEqual({ kind: 'line', text })
      else {
        expect(first).toEqual({
          kind: 'too_long',
          bytes: text.length,
          head: text.slice(0, 512),
          tail: text.slice(-512),
        })
      }
    }),
  )
})

test('the id of a long message is found at either end, and never inside of it', () => {
  const long = 'x'.repeat(600)
  const ends = (text: string) => idAtTheEnds(text.slice(0, 512), text.slice(-512))
  expect(ends(`{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"${long}"}}`)).toBe(7)
  expect(ends(`{"id":"q\\"1","jsonrpc":"2.0","result":{"a":"${long}"}}`)).toBe('q"1')
  expect(ends(`{"result":{"a":"${long}"},"jsonrpc":"2.0","id":12}`)).toBe(12)
  expect(ends(`{"result":{"a":"${long}"},"id":12,"jsonrpc":"2.0"}`)).toBe(12)
  expect(ends(`{"jsonrpc":"2.0","result":{"a":"${long}"},"id":"z"}`)).toBe('z')
  expect(ends(`{"method":"m","params":{"id":9,"a":"${long}","jsonrpc":"2.0","id":5}}`)).toBeNull()
  expect(ends(`{"method":"m","params":{"a":"${long}","id":5}}`)).toBeNull()
})

test('what is no message is told from what is', () => {
  const kind = (text: string) => parseMessage(text).kind
  expect(kind('{"jsonrpc":"2.0","id":1,"method":"ping"}')).toBe('request')
  expect(kind('{"jsonrpc":"2.0","method":"notifications/initialized"}')).toBe('notification')
  expect(kind('{"jsonrpc":"2.0","id":"a","result":{}}')).toBe('response')
  expect(kind('{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}')).toBe('response')
  for (const text of [
    'hello',
    '[]',
    '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    'null',
    '{"jsonrpc":"1.0","id":1,"method":"m"}',
    '{"jsonrpc":"2.0","id":null,"method":"m"}',
    '{"jsonrpc":"2.0","id":1,"method":"m","params":[]}',
    '{"jsonrpc":"2.0","id":1}',
    '{"jsonrpc":"2.0","result":{}}',
  ]) {
    expect(kind(text), text).toBe('malformed')
  }
})

test('parsing never throws', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      parseMessage(text)
    }),
  )
})
