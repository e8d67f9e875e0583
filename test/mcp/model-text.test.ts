import { expect, test } from 'vitest'
import { cutToBytes, lastBytes, plain, shorten } from '../../client/mcp/results/model-text.ts'

test('ANSI colours, hyperlinks and control characters are removed', () => {
  expect(plain('\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u0007\u0000!')).toBe(
    'red link!',
  )
})

test('carriage returns and backspaces are shown as a terminal would', () => {
  expect(plain('10%\r50%\r100%\nab\bc\r\n')).toBe('100%\nac\n')
  expect(plain('longer line\rshort')).toBe('shortr line')
})

test('base64 is never shown', () => {
  const data = 'A'.repeat(4000)
  expect(plain(`<img src="data:image/png;base64,${data}">`)).toBe(
    '<img src="data:image/png;base64,[2.9 KiB left out]">',
  )
})

test('a short text is as it is', () => {
  expect(shorten('one\ntwo', () => 'no')).toEqual({ text: 'one\ntwo', omitted: 0 })
})

test('of a long text head and tail are kept, in whole lines, with what is missing between them', () => {
  const whole = Array.from({ length: 5000 }, (_, i) => `line ${i}`).join('\n')
  const { text, omitted } = shorten(whole, (chars) => `${chars} left out`)
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8 * 1024 + 100)
  const [head = '', tail = ''] = text.split(/\n… \d+ left out …\n/)
  expect(whole.startsWith(`${head}\n`)).toBe(true)
  expect(whole.endsWith(`\n${tail}`)).toBe(true)
  expect(omitted).toBe(whole.length - head.length - 1 - tail.length)
})

test('a text of which only the ends are known says how much there is between them', () => {
  const long = { size: 100_000, chars: 100_000, head: 'a'.repeat(4096), tail: 'z'.repeat(65_536) }
  const { text, omitted } = shorten(long, (chars) => `${chars} left out`)
  expect(text).toBe(`${'a'.repeat(4096)}\n… ${omitted} left out …\n${'z'.repeat(4096)}`)
  expect(omitted).toBe(100_000 - 2 * 4096)
})

test.each(['—', '┌', '漢', '😀'])('cutting never splits %s', (character) => {
  const text = character.repeat(50)
  for (let bytes = 0; bytes < 40; bytes++) {
    for (const part of [cutToBytes(text, bytes), lastBytes(text, bytes)]) {
      expect(Buffer.byteLength(part)).toBeLessThanOrEqual(bytes)
      expect(part).toBe(character.repeat(Math.floor(bytes / Buffer.byteLength(character))))
    }
  }
})
