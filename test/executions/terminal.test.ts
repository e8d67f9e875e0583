import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { TerminalText } from '../../daemon/executions/terminal.ts'
import { REACH } from '../../daemon/executions/terminal-screen.ts'

/** Applies splices as a mirror does, so that a wrong `from` shows. */
function show(pieces: readonly string[], finish = true): string {
  const terminal = new TerminalText()
  let text = ''
  for (const piece of pieces) {
    const splice = terminal.feed(piece)
    if (splice) text = cut(text, splice)
  }
  const last = finish ? terminal.finish() : null
  return last ? cut(text, last) : text
}

function cut(text: string, splice: { from: number; text: string }): string {
  expect(splice.from).toBeLessThanOrEqual(text.length)
  return text.slice(0, splice.from) + splice.text
}

/** A plain grid, written without looking at the real one: what a terminal shows, colours left out. */
function grid(input: string): string {
  const rows: string[][] = [[]]
  let row = 0
  let column = 0
  const pattern = /\x1b\[([\d;]*)([A-Za-z])|\n|\r|\x08|[\s\S]/gu
  for (const [token, digits, final] of input.matchAll(pattern)) {
    const n = Math.max(1, Number(digits || 0))
    const line = () => (rows[row] ??= [])
    if (token === '\n') {
      row++
      column = 0
      line()
    } else if (token === '\r') column = 0
    else if (token === '\b') column = Math.max(0, column - 1)
    else if (final === 'A') row = Math.max(0, row - n)
    else if (final === 'C') column += n
    else if (final === 'D') column = Math.max(0, column - n)
    else if (final === 'K') {
      if (digits === '2') line().length = 0
      else line().length = Math.min(line().length, column)
    } else if (final === 'm') continue
    else {
      const cells = line()
      while (cells.length < column) cells.push(' ')
      cells[column++] = token
    }
    if (final === 'A') while (rows.length - 1 > row && rows.at(-1)?.length === 0) rows.pop()
  }
  return rows.map((cells) => cells.join('')).join('\n')
}

const withoutColours = (text: string) => text.replace(/\x1b\[[\d;]*m/g, '')

const token = fc.oneof(
  { weight: 6, arbitrary: fc.stringMatching(/^[a-z #=é😀]{1,6}$/u) },
  { weight: 2, arbitrary: fc.constant('\n') },
  { weight: 3, arbitrary: fc.constant('\r') },
  { weight: 1, arbitrary: fc.constant('\r\n') },
  { weight: 2, arbitrary: fc.constant('\b') },
  { weight: 2, arbitrary: fc.constantFrom('\x1b[A', '\x1b[2A', '\x1b[3C', '\x1b[2D', '\x1b[K', '\x1b[2K') },
  {
    weight: 2,
    arbitrary: fc.constantFrom('\x1b[31m', '\x1b[1;32m', '\x1b[0m', '\x1b[39m', '\x1b[m', '\x1b[0;34m'),
  },
)
const stream = fc.array(token, { maxLength: 40 }).map((tokens) => tokens.join(''))

describe('what a terminal shows', () => {
  test('ten thousand progress steps are one line', () => {
    const steps = Array.from({ length: 10_000 }, (_, i) => `\r${((i + 1) / 100).toFixed(2)}% done`)
    expect(show(steps)).toBe('100.00% done')
  })

  test('a carriage return alone keeps what is not overwritten', () => {
    expect(show(['hello\rJ'])).toBe('Jello')
  })

  test('carriage return and newline together are a newline, also when they come apart', () => {
    expect(show(['a\r\nb\r', '\nc'])).toBe('a\nb\nc')
  })

  test('backspace moves and does not erase', () => {
    expect(show(['abc\b\bX'])).toBe('aXc')
  })

  test('nested progress bars by cursor-up', () => {
    const bars = ['outer 0%\n', 'inner 50%\x1b[A\r', 'outer 1%\n\r', 'inner 99%\x1b[A\r', 'outer 2%']
    expect(show(bars)).toBe('outer 2%\ninner 99%')
  })

  test('clear line and clear screen', () => {
    expect(show(['12345\r\x1b[Kab'])).toBe('ab')
    expect(show(['one\ntwo\nthree\x1b[2J\x1b[Hnew'])).toBe('new')
  })

  test('colours stay where they were printed', () => {
    expect(show(['\x1b[31mred\x1b[0m plain'])).toBe('\x1b[31mred\x1b[0m plain')
    expect(show(['\x1b[31mAAAA\r\x1b[0mB', '!'])).toBe('B!\x1b[31mAA\x1b[0m')
    expect(show(['\x1b[31mred\x1b[0m\n'])).toBe('\x1b[31mred\x1b[0m\n')
  })

  test('a sequence cut anywhere is one sequence', () => {
    const text = 'a\x1b[1;31mb\x1b[0mc \x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ end'
    const whole = show([text])
    for (let i = 0; i <= text.length; i++) expect(show([text.slice(0, i), text.slice(i)])).toBe(whole)
  })

  test('an unfinished sequence is shown when nothing follows', () => {
    expect(show(['abc\x1b[3'])).toBe('abc\x1b[3')
  })

  test('lines out of reach are settled', () => {
    const many = Array.from({ length: 3 * REACH }, (_, i) => `line ${i}\n`).join('')
    const text = show([many, '\x1b[1000A', 'X'])
    expect(text.startsWith('line 0\nline 1\n')).toBe(true)
    expect(text.split('\n')).toHaveLength(3 * REACH)
    expect(text.split('\n')[2 * REACH + 1]).toBe(`Xine ${2 * REACH + 1}`)
  })

  test('a line without end is settled from its start and stays whole', () => {
    const dots = Array.from({ length: 300 }, () => '.'.repeat(1000))
    expect(show(dots)).toBe('.'.repeat(300_000))
  })
})

describe('properties', () => {
  test('it shows what a plain grid shows', () => {
    fc.assert(
      fc.property(stream, (text) => {
        expect(withoutColours(show([text]))).toBe(grid(text))
      }),
      { numRuns: 1500 },
    )
  })

  test('the result does not depend on where the text was cut', () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(200), { maxLength: 8 }), (text, cuts) => {
        const at = [0, ...cuts.map((c) => c % (text.length + 1)).sort((a, b) => a - b), text.length]
        // Kernels send well-formed text: a pair is never cut.
        const safe = at.map((i) => (/[\udc00-\udfff]/.test(text[i] ?? '') ? i - 1 : i))
        const pieces = safe.slice(1).map((end, i) => text.slice(safe[i], end))
        expect(show(pieces)).toBe(show([text]))
      }),
      { numRuns: 1500 },
    )
  })

  test('another object goes on from text and state', () => {
    fc.assert(
      fc.property(stream, stream, (first, second) => {
        const one = new TerminalText()
        const splice = one.feed(first)
        const text = splice ? cut('', splice) : ''
        const base = one.base
        const two = TerminalText.resume(base, text.slice(base), one.state)
        const next = two.feed(second)
        const after = next ? cut(text, next) : text
        const last = two.finish()
        expect(withoutColours(last ? cut(after, last) : after)).toBe(withoutColours(show([first + second])))
      }),
      { numRuns: 1500 },
    )
  })

  test('a line never ends in half a surrogate pair', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('😀', '😁', '\r', 'a', '\b'), { maxLength: 30 }), (tokens) => {
        const terminal = new TerminalText()
        let text = ''
        for (const piece of tokens) {
          const splice = terminal.feed(piece)
          if (!splice) continue
          expect(splice.text).toBe(Buffer.from(splice.text).toString())
          text = cut(text, splice)
          expect(text).toBe(Buffer.from(text).toString())
        }
      }),
    )
  })
})
