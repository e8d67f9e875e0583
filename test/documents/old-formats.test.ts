import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { readNotebook } from '../../daemon/documents/ipynb/read.ts'
import { upgradeRequest } from '../../daemon/documents/ipynb/upgrade.ts'
import { writeNotebook } from '../../daemon/documents/ipynb/write.ts'
import { needs } from '../support/machine.ts'
import { bytes, fixtures, text } from './fixtures.ts'

const three = {
  nbformat: 3,
  nbformat_minor: 0,
  metadata: { name: 'Old', signature: 'x', kept: [1] },
  worksheets: [
    {
      metadata: {},
      cells: [
        { cell_type: 'heading', level: 2, source: ['A heading\n', 'of two lines'] },
        { cell_type: 'markdown', source: '*text*', metadata: { a: 1 } },
        {
          cell_type: 'code',
          language: 'python',
          collapsed: false,
          input: ['x = 1\n', 'x'],
          prompt_number: 4,
          metadata: {},
          outputs: [
            { output_type: 'stream', stream: 'stderr', text: ['a\n', 'b'] },
            {
              output_type: 'pyout',
              prompt_number: 4,
              text: ['1'],
              html: '<b>1</b>',
              json: '{"v": 1}',
              metadata: { png: { w: 1 } },
            },
            { output_type: 'display_data', png: 'aGk=', metadata: {} },
            { output_type: 'pyerr', ename: 'E', evalue: 'v', traceback: ['t'] },
          ],
        },
      ],
    },
    { metadata: {}, cells: [{ cell_type: 'raw', source: 'raw', metadata: {} }] },
  ],
}
const two = {
  nbformat: 2,
  metadata: { name: 'Older' },
  worksheets: [
    {
      cells: [
        { cell_type: 'markdown', source: ['line one', 'line two'] },
        {
          cell_type: 'code',
          language: 'python',
          collapsed: true,
          input: ['a', 'b'],
          outputs: [{ output_type: 'stream', stream: 'stdout', text: ['1', '2'] }],
          prompt_number: 1,
        },
      ],
    },
  ],
}

const upgraded = (file: Uint8Array, name = 'old.ipynb'): Uint8Array =>
  writeNotebook(upgradeRequest(readNotebook(file, name), name)).bytes

describe('files of format 3 and older', () => {
  test('open read-only and say why', () => {
    expect(readNotebook(bytes(JSON.stringify(three)), 'a')).toMatchObject({ read_only: 'nbformat 3' })
    expect(readNotebook(bytes(JSON.stringify(two)), 'a')).toMatchObject({ read_only: 'nbformat 2' })
  })

  test('become format 4.5: sheets joined, headings as markdown, outputs by mime type, ids for all cells', () => {
    const now = JSON.parse(text(upgraded(bytes(JSON.stringify(three)))))
    expect(now).toMatchObject({ nbformat: 4, nbformat_minor: 5, metadata: { kept: [1] } })
    expect(Object.keys(now.metadata)).toEqual(['kept'])
    expect(now.cells.map((cell: { cell_type: string }) => cell.cell_type)).toEqual([
      'markdown',
      'markdown',
      'code',
      'raw',
    ])
    expect(now.cells[0].source).toEqual(['## A heading of two lines'])
    expect(now.cells[2]).toMatchObject({
      execution_count: 4,
      metadata: { collapsed: false },
      outputs: [
        { output_type: 'stream', name: 'stderr', text: ['a\n', 'b'] },
        {
          output_type: 'execute_result',
          execution_count: 4,
          data: { 'text/plain': ['1'], 'text/html': ['<b>1</b>'], 'application/json': { v: 1 } },
          metadata: { 'image/png': { w: 1 } },
        },
        { output_type: 'display_data', data: { 'image/png': 'aGk=' } },
        { output_type: 'error', ename: 'E' },
      ],
    })
    for (const cell of now.cells) expect(cell.id).toMatch(/^c[0-9a-f]{15}$/)
  })

  test('up to format 2 lines have no ends of their own', () => {
    const { cells } = readNotebook(bytes(JSON.stringify(two)), 'a')
    expect(cells.map(({ source }) => source)).toEqual(['line one\nline two', 'a\nb'])
    expect(cells[1]?.outputs).toEqual([{ output_type: 'stream', name: 'stdout', text: '1\n2' }])
  })

  test('become what Jupyter’s own nbformat makes of them', (context) => {
    needs(context, 'Python nbformat')
    const old = [two, three].map((file) => ({
      name: `format ${file.nbformat}`,
      bytes: bytes(JSON.stringify(file)),
    }))
    const real = fixtures().filter(({ bytes: b, name }) => readNotebook(b, name).nbformat < 4)
    // nbformat itself cannot read this one.
    for (const { name, bytes: b } of [...old, ...real.filter((one) => !one.name.includes('no_cells'))]) {
      const told = spawnSync('/usr/bin/python3', ['-c', COMPARE], {
        input: JSON.stringify([text(b), text(upgraded(b, name))]),
        encoding: 'utf8',
      })
      expect(told.stdout + told.stderr.slice(-2000), name).toBe('[]\n')
    }
  })
})

/** Prints the cells that differ; nothing else matters but ids and metadata of the conversion itself. */
const COMPARE = `
import json, sys, warnings
warnings.simplefilter('ignore')
import nbformat
old, new = json.load(sys.stdin)
theirs, ours = nbformat.reads(old, as_version=4), nbformat.reads(new, as_version=4)
nbformat.validate(ours)
def plain(cell):
    cell = dict(cell)
    cell.pop('id', None)
    cell.setdefault('metadata', {})
    return cell
a, b = [plain(c) for c in theirs.cells], [plain(c) for c in ours.cells]
print(json.dumps([[x, y] for x, y in zip(a, b) if x != y] + ([] if len(a) == len(b) else [len(a), len(b)])))
`
