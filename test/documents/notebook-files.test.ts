import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { readNode } from '../../daemon/documents/ipynb/json-nodes.ts'
import { type NotebookFile, readNotebook } from '../../daemon/documents/ipynb/read.ts'
import { type WriteCell, writeNotebook } from '../../daemon/documents/ipynb/write.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId } from '../../protocol/ids.ts'
import { bytes, fixture, fixtures, haveFixtures, noFixtures, text } from './fixtures.ts'

const unchanged = (file: NotebookFile): WriteCell[] =>
  file.cells.map(({ outputs: _, execution_count: __, ...cell }) => ({
    ...cell,
    outputs: 'unchanged' as const,
  }))

function edited(base: Uint8Array, change: (cells: WriteCell[], file: NotebookFile) => WriteCell[]): string {
  const file = readNotebook(base, 'test.ipynb')
  const { bytes: after } = writeNotebook({
    base,
    path: 'test.ipynb',
    metadata: file.metadata,
    cells: change(unchanged(file), file),
  })
  return text(after)
}

const atIndex = (cells: WriteCell[], index: number, change: Partial<WriteCell>): WriteCell[] =>
  cells.map((cell, i) => (i === index ? { ...cell, ...change } : cell))

/** What stands before and after cell `index` in a file. */
function around(base: string, index: number): [string, string] {
  const root = readNode(base, base.indexOf('{'))
  const list = root.kind === 'object' ? root.member('cells')?.value : undefined
  const node = list?.kind === 'array' ? list.items[index] : undefined
  if (!node) throw new Error(`there is no cell ${index}`)
  return [base.slice(0, node.start), base.slice(node.end)]
}

const all = fixtures()
const four = all.filter(({ bytes: b, name }) => readNotebook(b, name).nbformat === 4)
const needsIds = four.filter(({ bytes: b, name }) => lacksIds(readNotebook(b, name))).map(({ name }) => name)

function lacksIds(file: NotebookFile): boolean {
  return file.nbformat_minor >= 5 && file.warnings.some((warning) => /\bid\b/.test(warning.reason))
}

describe.skipIf(!haveFixtures)(`real notebooks${haveFixtures ? '' : ` (skipped: ${noFixtures})`}`, () => {
  it('all open, and say what is odd about them', () => {
    for (const { name, bytes: b } of all) {
      const file = readNotebook(b, name)
      expect(new Set(file.cells.map((cell) => cell.cell_id)).size, name).toBe(file.cells.length)
    }
    expect(all.length).toBeGreaterThan(25)
  })

  it('opened and written unchanged have the same bytes', () => {
    for (const { name, bytes: b } of four) {
      const file = readNotebook(b, name)
      const ids = lacksIds(file)
      const written = writeNotebook({ base: b, path: name, metadata: file.metadata, cells: unchanged(file) })
      if (ids) {
        expect(written.ids_added.length, name).toBeGreaterThan(0)
        continue
      }
      expect(written.ids_added, name).toEqual([])
      expect(text(written.bytes) === text(b), name).toBe(true)
    }
  })

  it('4.5 files that lack ids get one in every cell at the first save, once', () => {
    for (const name of needsIds) {
      const b = fixture(name)
      const file = readNotebook(b, name)
      const first = writeNotebook({ base: b, path: name, metadata: file.metadata, cells: unchanged(file) })
      const again = readNotebook(first.bytes, name)
      expect(again.cells.map((cell) => cell.cell_id)).toEqual(file.cells.map((cell) => cell.cell_id))
      expect(again.warnings.filter((w) => /\bid\b/.test(w.reason))).toEqual([])
      const second = writeNotebook({
        base: first.bytes,
        path: name,
        metadata: again.metadata,
        cells: unchanged(again),
      })
      expect(second.ids_added).toEqual([])
      expect(text(second.bytes)).toBe(text(first.bytes))
    }
  })

  it('an edited cell leaves every byte outside of it', () => {
    for (const { name, bytes: b } of four) {
      if (needsIds.includes(name)) continue
      const before = text(b)
      const file = readNotebook(b, name)
      for (const index of new Set([0, file.cells.length >> 1, file.cells.length - 1])) {
        const cell = file.cells[index]
        if (cell === undefined) continue
        const after = edited(b, (cells) =>
          atIndex(cells, index, { source: `${cell.source}\n# ünï "q" \\ 😀` }),
        )
        const reread = readNotebook(bytes(after), name)
        expect(reread.cells[index]?.source, `${name} ${index}`).toBe(`${cell.source}\n# ünï "q" \\ 😀`)
        expect(reread.cells.map((c, i) => (i === index ? null : c.source))).toEqual(
          file.cells.map((c, i) => (i === index ? null : c.source)),
        )
        const [head, tail] = around(before, index)
        expect(after.startsWith(head) && after.endsWith(tail), `${name} ${index}`).toBe(true)
      }
    }
  })

  it('an edit undone gives the bytes from before', () => {
    for (const { name, bytes: b } of four) {
      const file = readNotebook(b, name)
      if (file.cells.length === 0 || file.warnings.length > 0) continue
      const there = edited(b, (cells) => atIndex(cells, 0, { source: 'something else\nentirely' }))
      const back = edited(bytes(there), (cells) => atIndex(cells, 0, { source: file.cells[0]?.source ?? '' }))
      // Escapes that only the old lines had are spelled in the file's usual way now; the content is the same.
      expect(JSON.parse(back.replace(/^\uFEFF/, '')), name).toEqual(
        JSON.parse(text(b).replace(/^\uFEFF/, '')),
      )
    }
  })

  it('a removed, an added and a moved cell leave the text of the others', () => {
    for (const { name, bytes: b } of four) {
      if (needsIds.includes(name)) continue
      const file = readNotebook(b, name)
      if (file.cells.length < 3) continue
      const ids = file.cells.map((cell) => cell.cell_id)
      const removed = edited(b, (cells) => cells.filter((_, i) => i !== 1))
      expect(
        readNotebook(bytes(removed), name).cells.map((c) => c.source),
        name,
      ).toEqual(file.cells.filter((_, i) => i !== 1).map((c) => c.source))
      const [first, ...rest] = unchanged(file)
      if (first === undefined) continue
      const moved = edited(b, () => [...rest, first])
      expect(JSON.parse(moved.replace(/^\uFEFF/, '')).cells.length).toBe(ids.length)
      const back = edited(bytes(moved), (cells) => {
        const last = cells.at(-1)
        return last ? [last, ...cells.slice(0, -1)] : cells
      })
      expect(JSON.parse(back.replace(/^\uFEFF/, ''))).toEqual(JSON.parse(text(b).replace(/^\uFEFF/, '')))
      const added = edited(b, (cells) => [
        ...cells.slice(0, 1),
        {
          cell_id: 'new-cell' as CellId,
          cell_type: 'code',
          source: 'a\nb',
          metadata: {},
          outputs: 'unchanged',
        },
        ...cells.slice(1),
      ])
      const again = edited(bytes(added), (cells) => cells.filter((_, i) => i !== 1))
      expect(again === text(b), name).toBe(true)
    }
  })

  it('files older than format 4 open read-only with their cells', () => {
    const file = readNotebook(fixture('02-nbformat-test3.ipynb'), 'old.ipynb')
    expect(file.read_only).toBe('nbformat 3')
    expect(file.cells.map((cell) => cell.cell_type)).toContain('code')
    expect(file.cells.find((cell) => cell.source.startsWith('# '))?.cell_type).toBe('markdown')
    expect(file.cells.flatMap((cell) => cell.outputs.map((o) => o.output_type))).toContain('execute_result')
    expect(() =>
      writeNotebook({ base: fixture('02-nbformat-test3.ipynb'), path: 'old.ipynb', metadata: {}, cells: [] }),
    ).toThrow(expect.objectContaining({ code: 'unsupported' }))
  })

  it('a file from the future keeps unknown cell types, keys and mime types', () => {
    const b = fixture('06-nbformat-test4plus.ipynb')
    const after = edited(b, (cells) => atIndex(cells, 0, { source: 'changed' }))
    expect(after.length).toBeGreaterThan(10_000)
    const before = JSON.parse(text(b))
    const now = JSON.parse(after)
    expect(now.nbformat_minor).toBe(99)
    expect(now.cells.slice(1)).toEqual(before.cells.slice(1))
  })
})

const small = (cells: string, minor = 4, rest = ''): Uint8Array =>
  bytes(`{"nbformat": 4, "nbformat_minor": ${minor}, "metadata": {}${rest}, "cells": [${cells}]}`)

describe('spelling is kept', () => {
  it('byte-order mark, CRLF, tabs and no final newline', () => {
    const b = bytes(
      '\uFEFF{\r\n\t"cells": [\r\n\t\t{\r\n\t\t\t"cell_type": "code",\r\n\t\t\t"source": [\r\n\t\t\t\t"a\\n",\r\n\t\t\t\t"b"\r\n\t\t\t],\r\n\t\t\t"metadata": {},\r\n\t\t\t"outputs": [],\r\n\t\t\t"execution_count": null\r\n\t\t}\r\n\t],\r\n\t"nbformat": 4,\r\n\t"nbformat_minor": 2,\r\n\t"metadata": {}\r\n}',
    )
    const file = readNotebook(b, 'x.ipynb')
    expect(file.cells[0]?.source).toBe('a\nb')
    expect(file.warnings.some((w) => w.reason.includes('byte-order mark'))).toBe(true)
    expect(edited(b, (cells) => cells)).toBe(text(b))
    expect(edited(b, (cells) => atIndex(cells, 0, { source: 'a\nb\nc' }))).toBe(
      text(b).replace('"b"\r\n', '"b\\n",\r\n\t\t\t\t"c"\r\n'),
    )
  })

  it('a source that is one text stays one text', () => {
    const b = small('{"cell_type": "markdown", "metadata": {}, "source": "a\\nb"}')
    expect(readNotebook(b, 'x').cells[0]?.source).toBe('a\nb')
    expect(edited(b, (cells) => atIndex(cells, 0, { source: 'a\nc' }))).toBe(
      text(b).replace('a\\nb', 'a\\nc'),
    )
  })

  it('NaN, big whole numbers, odd spellings and unknown keys outside of what changed', () => {
    const b = small(
      '{"cell_type": "code", "execution_count": 1, "metadata": {"big": 12345678901234567890, "x": NaN, "f": 1.50e+2, "k": 1}, "outputs": [{"output_type": "display_data", "data": {"application/json": {"v": -Infinity}}, "metadata": {}}], "source": ["1\\u002b1"], "future": {"a" : [ 1,2 ]}}',
    )
    const file = readNotebook(b, 'x')
    expect(file.cells[0]?.metadata).toEqual({
      big: Number('12345678901234567890'),
      x: Number.NaN,
      f: 150,
      k: 1,
    })
    expect(file.warnings.map((w) => w.at)).toContain('cells[0].metadata.big')
    expect(edited(b, (cells) => cells)).toBe(text(b))
    const metadata = { ...file.cells[0]?.metadata, k: 2, added: [1, 'two'] }
    expect(edited(b, (cells) => atIndex(cells, 0, { metadata }))).toBe(
      text(b).replace('"k": 1}', '"k": 2, "added": [1, "two"]}'),
    )
  })

  it('escapes for ASCII and for the web where the file has them', () => {
    const base = small('{"cell_type":"markdown","metadata":{},"source":["\\u003cb\\u003e \\u00e9"]}')
    const after = edited(base, (cells) => atIndex(cells, 0, { source: '<i> ü' }))
    expect(after).toContain('"\\u003ci\\u003e \\u00fc"')
  })

  it('lines that did not change keep their text within a changed source', () => {
    const b = small(
      '{"cell_type": "markdown", "metadata": {}, "source": ["caf\\u00e9 \\/\\n", "old\\n", "é"]}',
    )
    expect(edited(b, (cells) => atIndex(cells, 0, { source: 'café /\nnew\né' }))).toBe(
      text(b).replace('old', 'new'),
    )
  })
})

describe('ids', () => {
  it('are the same at each opening, and differ for equal cells', () => {
    const cell =
      '{"cell_type": "code", "metadata": {}, "source": ["same"], "outputs": [], "execution_count": null}'
    const b = small(`${cell}, ${cell}, ${cell}`)
    const ids = readNotebook(b, 'x').cells.map((c) => c.cell_id)
    expect(new Set(ids).size).toBe(3)
    expect(readNotebook(b, 'x').cells.map((c) => c.cell_id)).toEqual(ids)
    expect(ids.every((id) => /^[a-zA-Z0-9_-]{1,64}$/.test(id))).toBe(true)
  })

  it('are not written into files of a version that has none', () => {
    const b = small('{"cell_type": "markdown", "metadata": {}, "source": []}', 4)
    const after = edited(b, (cells) => [
      ...cells,
      { cell_id: 'abc' as CellId, cell_type: 'raw', source: 'x', metadata: {}, outputs: 'unchanged' },
    ])
    expect(after).not.toContain('"id"')
  })

  it('go where the order of keys wants them', () => {
    const b = small('{"cell_type": "markdown", "metadata": {}, "source": []}', 5)
    expect(edited(b, (cells) => cells)).toMatch(
      /\{"cell_type": "markdown", "id": "c[0-9a-f]{15}", "metadata"/,
    )
  })
})

describe('outputs', () => {
  const base = small(
    '{"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [{"name": "stdout", "output_type": "stream", "text": ["kept as \\u0069t is"]}], "source": []}',
  )

  it('are written as nbformat has them, lines in lists and images as one text', () => {
    const after = edited(base, (cells) =>
      atIndex(cells, 0, {
        outputs: {
          execution_count: 4,
          outputs: [
            { output_type: 'stream', name: 'stdout', text: 'a\nb' },
            {
              output_type: 'execute_result',
              data: { 'text/plain': '1\n2', 'image/png': 'AAAA\n', 'application/json': { a: 'x\ny' } },
              metadata: {},
              execution_count: 4,
              display_id: 'never written',
            },
            { output_type: 'error', ename: 'E', evalue: 'v', traceback: ['l1', 'l2'] },
          ],
        },
      }),
    )
    const cell = JSON.parse(after).cells[0]
    expect(cell.execution_count).toBe(4)
    expect(cell.outputs).toEqual([
      { name: 'stdout', output_type: 'stream', text: ['a\n', 'b'] },
      {
        data: { 'application/json': { a: 'x\ny' }, 'image/png': 'AAAA\n', 'text/plain': ['1\n', '2'] },
        execution_count: 4,
        metadata: {},
        output_type: 'execute_result',
      },
      { ename: 'E', evalue: 'v', output_type: 'error', traceback: ['l1', 'l2'] },
    ])
  })

  it('that are still the same keep their text beside new ones', () => {
    const same = { output_type: 'stream' as const, name: 'stdout', text: 'kept as it is' }
    const after = edited(base, (cells) =>
      atIndex(cells, 0, {
        outputs: {
          execution_count: 3,
          outputs: [same, { output_type: 'stream', name: 'stderr', text: 'x' }],
        },
      }),
    )
    expect(after).toContain('"kept as \\u0069t is"')
    const untouched = edited(base, (cells) =>
      atIndex(cells, 0, { outputs: { execution_count: 3, outputs: [same] } }),
    )
    expect(untouched).toBe(text(base))
  })

  it('go with the cell that becomes text, and come empty with one that becomes code', () => {
    const markdown = edited(base, (cells) => atIndex(cells, 0, { cell_type: 'markdown' }))
    expect(JSON.parse(markdown).cells[0]).toEqual({ cell_type: 'markdown', metadata: {}, source: [] })
    const code = edited(bytes(markdown), (cells) => atIndex(cells, 0, { cell_type: 'code' }))
    expect(JSON.parse(code).cells[0]).toEqual({
      cell_type: 'code',
      execution_count: null,
      metadata: {},
      outputs: [],
      source: [],
    })
  })
})

describe('files that are no notebooks', () => {
  const place = (content: string): unknown => {
    try {
      readNotebook(bytes(content), '/some/file.ipynb')
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(RoomdError)
      const error = thrown as RoomdError
      expect(error.code).toBe('invalid_argument')
      expect(error.message).toContain('/some/file.ipynb')
      return (error.detail as { at: string }).at
    }
    throw new Error('it was taken for a notebook')
  }

  it.each([
    ['', ''],
    ['   \n', ''],
    ['[]', ''],
    ['{"nbformat": "4", "cells": []}', 'nbformat'],
    ['{"nbformat": 4}', 'cells'],
    ['{"nbformat": 4, "cells": {}}', 'cells'],
    ['{"nbformat": 4, "cells": [1]}', 'cells[0]'],
    ['{"nbformat": 4, "cells": [{"source": []}]}', 'cells[0].cell_type'],
    ['{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', 'cells[0].source'],
    ['{"nbformat": 4, "cells": [{"cell_type": "code", "source": [], "metadata": []}]}', 'cells[0].metadata'],
    ['{"nbformat": 4, "cells": [{"cell_type": "code", "source": [], "outputs": {}}]}', 'cells[0].outputs'],
    [
      '{"nbformat": 4, "cells": [{"cell_type": "code", "source": [], "outputs": [{"output_type": "display_data", "data": []}]}]}',
      'cells[0].outputs[0].data',
    ],
    ['{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["a]}', 'cells[0].source[0]'],
    ['{"nbformat": 4, "cells": [{"a": 1,}]}', 'cells[0]'],
    ['{"nbformat": 4, "cells": [], "metadata": {"a b": tru}}', 'metadata["a b"]'],
    ['{"nbformat": 4, "cells": []} x', ''],
  ])('%j is refused naming %j', (content, at) => {
    expect(place(content)).toBe(at)
  })

  it('text that is not UTF-8 is refused', () => {
    expect(() => readNotebook(Uint8Array.of(0x7b, 0xff, 0x7d), 'x')).toThrow('UTF-8')
  })

  it('very deep nesting is refused, not crashed on', () => {
    expect(() => readNotebook(bytes('['.repeat(200_000)), 'x')).toThrow('nested deeper')
  })
})

const python = spawnSync('/usr/bin/python3', ['-c', 'import nbformat'], { encoding: 'utf8' })
const havePython = python.status === 0

describe.skipIf(!havePython)(`Python's nbformat${havePython ? '' : ' (skipped: not installed)'}`, () => {
  const check = (content: string): string => {
    const script =
      'import sys, nbformat\nnb = nbformat.reads(sys.stdin.read(), as_version=4)\nnbformat.validate(nb)\nsys.stdout.write(nbformat.writes(nb))'
    const run = spawnSync('/usr/bin/python3', ['-c', script], { input: content, encoding: 'utf8' })
    expect(run.stderr).toBe('')
    return run.stdout
  }

  it('finds a new file valid and writes the same text', () => {
    const { bytes: made } = writeNotebook({
      base: null,
      path: 'new.ipynb',
      metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
      cells: [
        {
          cell_id: 'a1' as CellId,
          cell_type: 'code',
          source: 'print("ü")\r\nx\fy\n',
          metadata: { tags: ['b'], collapsed: false },
          outputs: {
            execution_count: 1,
            outputs: [
              { output_type: 'stream', name: 'stdout', text: '' },
              {
                output_type: 'display_data',
                data: { 'text/html': '<b>\n</b>', 'image/svg+xml': '<svg>\n', 'image/png': 'AA==\n' },
                metadata: {},
              },
              { output_type: 'error', ename: 'E', evalue: '', traceback: [] },
            ],
          },
        },
        {
          cell_id: 'a2' as CellId,
          cell_type: 'markdown',
          source: '',
          metadata: {},
          attachments: { 'x.png': { 'image/png': 'AA==' } },
          outputs: 'unchanged',
        },
        { cell_id: 'a3' as CellId, cell_type: 'raw', source: '\u2028|', metadata: {}, outputs: 'unchanged' },
      ],
    })
    expect(`${check(text(made))}\n`).toBe(text(made))
  })

  it('finds an empty new file valid', () => {
    const { bytes: made } = writeNotebook({ base: null, path: 'new.ipynb', metadata: {}, cells: [] })
    expect(`${check(text(made))}\n`).toBe(text(made))
  })

  it.skipIf(!haveFixtures)('finds edited real notebooks valid', () => {
    for (const name of [
      '07-nbformat-test4.5.ipynb',
      '13-nbformat-v4_5_no_cell_id.ipynb',
      '24-nbclient-Clear_Output.ipynb',
    ]) {
      const after = edited(fixture(name), (cells) => [
        ...atIndex(cells, 0, {
          source: 'x = 1\ny',
          outputs: { execution_count: 9, outputs: [{ output_type: 'stream', name: 'stdout', text: 'a\nb' }] },
        }),
        {
          cell_id: 'added-one' as CellId,
          cell_type: 'code',
          source: 'z',
          metadata: {},
          outputs: 'unchanged',
        },
      ])
      check(after)
    }
  })
})
