import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readHead, readScanned } from '../../daemon/documents/ipynb/head.ts'
import { NotebookPieces, OutOfOrdinary } from '../../daemon/documents/ipynb/pieces.ts'
import { readNotebook } from '../../daemon/documents/ipynb/read.ts'
import { bytes } from './fixtures.ts'

const FIRST = { cells: 3, bytes: 10_000 }

const cell = (id: string, more: object = {}): object => ({
  cell_type: 'code',
  execution_count: null,
  id,
  metadata: {},
  outputs: [],
  source: 'x',
  ...more,
})

const notebook = (cells: readonly object[], more: object = {}): object => ({
  cells,
  metadata: { language_info: { name: 'python' } },
  nbformat: 4,
  nbformat_minor: 5,
  ...more,
})

const head = (value: object, indent = 1): ReturnType<typeof readHead> =>
  readHead(bytes(JSON.stringify(value, null, indent)), 'x', FIRST)

/** What reading it in pieces tells, as `readNotebook` would. */
function inPieces(file: Uint8Array): object {
  const scanned = readScanned(file, 'x', FIRST)
  if (!scanned) throw new OutOfOrdinary()
  const pieces = new NotebookPieces(file, 'x', scanned.parts)
  const cells = [...pieces.cells()]
  return { ...pieces.notebook, cells, warnings: pieces.warnings() }
}

describe('a notebook in pieces', () => {
  it('is what reading the whole tells, warnings included, however many pieces it is', () => {
    // About ten pieces; each cell breaks a rule of the format, and so does the notebook.
    const many = Array.from({ length: 60 }, (_, i) =>
      cell(`cell-${i}`, {
        source: [`${i}\n`, 'ü'.repeat(20_000)],
        outputs: [{ output_type: 'stream', name: 'stdout', text: ['a\n', 'b'], extra: i }],
        metadata: { tags: i % 2 ? ['a', 'a'] : [], number: i % 3 ? 0.12345678901234568 : -1.5e-16 },
      }),
    )
    for (const made of [many, many.slice(0, 1), []]) {
      const file = bytes(JSON.stringify(notebook(made, { odd: 1, metadata: { title: 5 } }), null, 1))
      const whole = readNotebook(file, 'x')
      expect(inPieces(file)).toEqual(whole)
      expect(whole.warnings.length).toBeGreaterThan(1)
    }
  })

  it('is given up where it takes the whole to tell it, at whichever cell that is', () => {
    const good = Array.from({ length: 5 }, (_, i) => cell(`cell-${i}`))
    const { id: _, ...nameless } = cell('x') as { id: string }
    const file = (last: object): string => JSON.stringify(notebook([...good, last]))
    expect(inPieces(bytes(file(cell('last'))))).toMatchObject({ cells: { length: 6 } })
    const odd = [
      file(nameless),
      file(cell('cell-0')),
      file(cell('last', { source: 5 })),
      file(cell('last', { outputs: [{ output_type: 'unknown' }] })),
      file(cell('last', { metadata: { n: 1 } })).replace('{"n":1}', '{"n":12345678901234567}'),
      file(cell('last', { metadata: { n: 1 } })).replace('{"n":1}', '{"n":[1, -12345678901234567 ]}'),
      file(cell('last', { metadata: { n: 1 } })).replace('{"n":1}', '{"n":NaN}'),
      file(cell('last', { metadata: { n: 1 } })).replace('{"n":1}', '{"n":1,}'),
      file(cell('last')).replace('"nbformat_minor":5', '"nbformat_minor":5,"n":12345678901234567'),
      file(cell('last')).replace('"last"', '"la\tst"'),
    ]
    for (const text of odd) expect(() => inPieces(bytes(text)), text.slice(-300)).toThrow(OutOfOrdinary)
  })
})

describe('the beginning of a notebook', () => {
  it('is what reading the whole tells, whatever texts hold', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.stringMatching(/^[\\"{}[\],: \n]{0,200}$/),
      fc.constant(`${'\\'.repeat(300)}"`),
    )
    const one = fc.record({
      source: fc.oneof(text, fc.array(text)),
      metadata: fc.dictionary(text, text),
      outputs: fc.array(fc.record({ output_type: fc.constant('stream'), name: fc.constant('stdout'), text })),
    })
    const shape = fc.record({
      cells: fc.array(one, { maxLength: 6 }),
      indent: fc.constantFrom(0, 1, 4),
      first: fc.boolean(),
    })
    fc.assert(
      fc.property(shape, ({ cells, indent, first }) => {
        const made = cells.map((more, index) => cell(`cell-${index}`, more))
        const value = first
          ? notebook(made)
          : { nbformat_minor: 5, nbformat: 4, metadata: { '"cells": [': '{' }, cells: made }
        const file = bytes(JSON.stringify(value, null, indent))
        const whole = readNotebook(file, 'x')
        const found = readHead(file, 'x', { ...FIRST, bytes: 1_000_000 })
        expect(found).toMatchObject({ total: cells.length, metadata: whole.metadata })
        expect(found?.cells).toEqual(whole.cells.slice(0, found?.cells.length))
        expect(found?.cells.length).toBe(Math.min(3, cells.length))
      }),
      { numRuns: 200 },
    )
  })

  it('ends at its bytes, and has one cell at least', () => {
    const large = cell('large', { source: 'y'.repeat(20_000) })
    expect(head(notebook([large, cell('b'), cell('c')]))?.cells).toHaveLength(1)
    expect(head(notebook([cell('a'), large, cell('c')]))?.cells).toHaveLength(2)
    expect(head(notebook([]))).toMatchObject({ total: 0, cells: [] })
  })

  it('is not told where it takes the whole to tell it', () => {
    const { id: _, ...nameless } = cell('a') as { id: string }
    expect(head(notebook([nameless, cell('b')]))).toBeNull()
    expect(head(notebook([cell('a'), cell('a')]))).toBeNull()
    expect(head(notebook([cell('a')], { nbformat: 3 }))).toBeNull()
    expect(head(notebook([cell('a')], { metadata: 5 }))).toBeNull()
    expect(head(notebook([cell('a', { source: 5 })]))).toBeNull()
    const of = (text: string) => readHead(bytes(text), 'x', FIRST)
    const file = JSON.stringify(notebook([cell('a')]))
    expect(of(file)).not.toBeNull()
    expect(of(file.replace('"nbformat"', '"cells":[],"nbformat"'))).toBeNull()
    expect(of(`${file} x`)).toBeNull()
    expect(of(file.slice(0, -5))).toBeNull()
    expect(of(`\uFEFF${file}`)).toBeNull()
    expect(of('')).toBeNull()
    expect(of('[]')).toBeNull()
  })
})
