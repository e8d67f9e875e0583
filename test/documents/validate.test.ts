import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { validateNotebook } from '../../daemon/documents/ipynb/validate.ts'
import { needs } from '../support/machine.ts'

const code = (more: object = {}) => ({
  cell_type: 'code',
  id: 'a',
  metadata: {},
  source: '1',
  outputs: [],
  execution_count: null,
  ...more,
})
const notebook = (cells: unknown[], more: object = {}): Record<string, unknown> => ({
  nbformat: 4,
  nbformat_minor: 5,
  metadata: {},
  cells,
  ...more,
})

/** Where the rules are broken, and the notebook that breaks them. */
const broken: readonly (readonly [string, Record<string, unknown>, number?])[] = [
  ['cells[0]', notebook([{ cell_type: 'markdown', id: 'a', metadata: {} }])],
  ['cells[0]', notebook([{ cell_type: 'code', id: 'a', metadata: {}, source: '', outputs: [] }])],
  ['cells[0].id', notebook([code({ id: 'a b' })])],
  ['cells[0].id', notebook([code({ id: 'x'.repeat(65) })])],
  ['cells[0].id', notebook([code()], { nbformat_minor: 4 }), 4],
  ['cells[0].cell_type', notebook([code({ cell_type: 'heading' })])],
  ['cells[0].source[1]', notebook([code({ source: ['a', 1] })])],
  ['cells[0].execution_count', notebook([code({ execution_count: -1 })])],
  ['cells[0].metadata.collapsed', notebook([code({ metadata: { collapsed: 'yes' } })])],
  ['cells[0].metadata.scrolled', notebook([code({ metadata: { scrolled: 'yes' } })])],
  ['cells[0].metadata.tags', notebook([code({ metadata: { tags: ['a', 'a'] } })])],
  ['cells[0].metadata.tags[0]', notebook([code({ metadata: { tags: ['a,b'] } })])],
  ['cells[0].metadata.name', notebook([code({ metadata: { name: '' } })])],
  ['cells[0].metadata.jupyter', notebook([code({ metadata: { jupyter: 1 } })])],
  ['cells[0].metadata.execution.t', notebook([code({ metadata: { execution: { t: 1 } } })])],
  ['cells[0].attachments', notebook([code({ attachments: {} })])],
  [
    'cells[0].attachments["a.png"]["image/png"]',
    notebook([
      { cell_type: 'raw', id: 'a', metadata: {}, source: '', attachments: { 'a.png': { 'image/png': 1 } } },
    ]),
  ],
  ['cells[0].outputs[0]', notebook([code({ outputs: [{ output_type: 'stream', name: 'stdout' }] })])],
  ['cells[0].outputs[0].output_type', notebook([code({ outputs: [{ output_type: 'bad' }] })])],
  [
    'cells[0].outputs[0].data["text/plain"]',
    notebook([
      code({ outputs: [{ output_type: 'display_data', metadata: {}, data: { 'text/plain': {} } }] }),
    ]),
  ],
  [
    'cells[0].outputs[0].extra',
    notebook([code({ outputs: [{ output_type: 'stream', name: 'stdout', text: '', extra: 1 }] })]),
  ],
  ['extra', notebook([], { extra: 1 })],
  ['metadata.kernelspec', notebook([], { metadata: { kernelspec: { name: 'x' } } })],
  [
    'metadata.language_info.codemirror_mode',
    notebook([], { metadata: { language_info: { name: 'x', codemirror_mode: 1 } } }),
  ],
  ['metadata.authors', notebook([], { metadata: { authors: 'me' } })],
]
const fine: readonly (readonly [string, Record<string, unknown>, number])[] = [
  [
    'JSON of any kind in a JSON mime type',
    notebook([
      code({
        outputs: [
          { output_type: 'display_data', metadata: {}, data: { 'application/vnd.x+json': [1, { a: null }] } },
        ],
      }),
    ]),
    5,
  ],
  [
    'members that later versions have rules for',
    notebook(
      [code({ id: undefined, metadata: { jupyter: 1, execution: 1 } })].map(({ id: _, ...cell }) => cell),
      { nbformat_minor: 2 },
    ),
    2,
  ],
  ['a title that is no text before 4.2', notebook([], { metadata: { title: 1 }, nbformat_minor: 1 }), 1],
]

describe('the rules of format 4', () => {
  test.each(broken.map(([at, value, minor]) => [at, value, minor ?? 5] as const))(
    'broken at %s',
    (at, value, minor) => {
      expect(validateNotebook(value, minor).map((found) => found.at)).toContain(at)
    },
  )

  test.each(fine)('kept: %s', (_, value, minor) => {
    expect(validateNotebook(value, minor)).toEqual([])
  })

  test('a later minor version may have members and kinds that nobody here knows', () => {
    const later = notebook([
      code({ cell_type: 'future', extra: 1 }),
      code({ more: 1, outputs: [{ output_type: 'new' }] }),
    ])
    expect(validateNotebook({ ...later, more: 1 }, 9)).toEqual([])
  })

  test('Jupyter’s own nbformat finds the same ones valid and the same ones not', (context) => {
    needs(context, 'Python nbformat')
    const all = [...broken.map(([, value]) => value), ...fine.map(([, value]) => value)]
    const told = spawnSync('/usr/bin/python3', ['-c', VALIDATE], {
      input: JSON.stringify(all),
      encoding: 'utf8',
    })
    expect(told.stderr).toBe('')
    expect(JSON.parse(told.stdout)).toEqual([...broken.map(() => false), ...fine.map(() => true)])
  })
})

const VALIDATE = `
import json, sys
from nbformat.validator import iter_validate
print(json.dumps([not list(iter_validate(nb)) for nb in json.load(sys.stdin)]))
`
