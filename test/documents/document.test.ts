import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as Y from 'yjs'
import {
  createDocument,
  loadDocument,
  loadDocumentInSlices,
  type NotebookDocument,
} from '../../daemon/documents/document.ts'
import { foundingUpdate } from '../../daemon/documents/founding-update.ts'
import { sourceHash } from '../../daemon/documents/source-hash.ts'
import type { DocumentChange } from '../../daemon/rooms/parts.ts'
import type { Operation } from '../../protocol/methods.ts'
import { id, Mirror, seen } from './mirror.ts'

function document(...sources: string[]): NotebookDocument {
  return createDocument({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: 'python3' } },
    cells: sources.map((source, i) => ({ cell_id: id(`c${i}`), cell_type: 'code', source, metadata: {} })),
  })
}

/** An editor that has the whole document. */
function editor(of: NotebookDocument): Y.Doc {
  const doc = new Y.Doc()
  Y.applyUpdate(doc, of.updateSince())
  return doc
}

const cellsOf = (doc: Y.Doc): Y.Array<Y.Map<unknown>> => doc.getArray('cells')
const sourceOf = (doc: Y.Doc, index: number): Y.Text => cellsOf(doc).get(index).get('source') as Y.Text

/** What the editor has and the document lacks. */
const news = (doc: Y.Doc, of: NotebookDocument): Uint8Array => Y.encodeStateAsUpdate(doc, of.stateVector())

function must(change: DocumentChange | null): DocumentChange {
  if (change === null) throw new Error('nothing changed')
  return change
}

function apply(to: NotebookDocument, ...operations: Operation[]): DocumentChange {
  return must(to.apply(operations).change)
}

describe('the layout', () => {
  it('is that of YNotebook', () => {
    const doc = editor(document('a'))
    const cell = cellsOf(doc).get(0)
    expect(cell.toJSON()).toEqual({
      id: 'c0',
      cell_type: 'code',
      source: 'a',
      metadata: {},
      outputs: [],
      execution_count: null,
      execution_state: 'idle',
    })
    expect(cell.get('source')).toBeInstanceOf(Y.Text)
    expect(cell.get('metadata')).toBeInstanceOf(Y.Map)
    expect(cell.get('outputs')).toBeInstanceOf(Y.Array)
    expect(doc.getMap('meta').toJSON()).toEqual({
      nbformat: 4,
      nbformat_minor: 5,
      metadata: { kernelspec: { name: 'python3' } },
    })
    expect(doc.getMap('meta').get('metadata')).toBeInstanceOf(Y.Map)
  })

  it('has outputs and counts in code cells only', () => {
    const doc = document('a')
    apply(doc, { op: 'set_cell_type', cell_id: id('c0'), cell_type: 'markdown' })
    expect(Object.keys(cellsOf(editor(doc)).get(0).toJSON()).sort()).toEqual([
      'cell_type',
      'id',
      'metadata',
      'source',
    ])
  })
})

describe('operations', () => {
  it('create, move, delete and change cells, and tell what they did', () => {
    const doc = document('a', 'b', 'c')
    const mirror = new Mirror(doc)
    const { change, cellIds } = doc.apply([
      { op: 'create_cell', source: 'first', cell_type: 'markdown', after_cell_id: null, metadata: { k: 1 } },
      { op: 'create_cell', source: 'last', cell_type: 'code' },
      { op: 'move_cell', cell_id: id('c2'), after_cell_id: null },
      { op: 'delete_cell', cell_id: id('c1') },
      { op: 'set_source', cell_id: id('c0'), source: 'A!' },
      { op: 'set_cell_type', cell_id: id('c0'), cell_type: 'raw' },
      { op: 'set_cell_metadata', cell_id: id('c0'), metadata: { tags: ['x'] } },
    ])
    mirror.take(must(change))
    expect(doc.cellIds()).toEqual(['c2', cellIds[0], 'c0', cellIds[1]])
    expect(mirror.cells).toEqual(seen(doc))
    expect(doc.cell(id('c0'))).toEqual({
      cell_id: 'c0',
      cell_type: 'raw',
      source: 'A!',
      source_hash: sourceHash('A!'),
      metadata: { tags: ['x'] },
    })
  })

  it('that cannot all be done change nothing', () => {
    const doc = document('a', 'b')
    const before = doc.updateSince()
    const attempts: [Operation[], string][] = [
      [
        [
          { op: 'set_source', cell_id: id('c0'), source: 'x' },
          { op: 'delete_cell', cell_id: id('nope') },
        ],
        'not_found',
      ],
      [
        [
          { op: 'delete_cell', cell_id: id('c0') },
          { op: 'set_source', cell_id: id('c0'), source: 'x' },
        ],
        'not_found',
      ],
      [[{ op: 'create_cell', source: '', cell_type: 'code', after_cell_id: id('nope') }], 'not_found'],
      [[{ op: 'move_cell', cell_id: id('c0'), after_cell_id: id('c0') }], 'invalid_argument'],
    ]
    for (const [operations, code] of attempts) {
      expect(() => doc.apply(operations)).toThrow(expect.objectContaining({ code }))
      expect(doc.updateSince()).toEqual(before)
    }
    expect(() => doc.apply([{ op: 'delete_cell', cell_id: id('nope') }])).toThrow(/nope.*list the cells/)
  })

  it('with another source than expected are a conflict that tells the present text', () => {
    const doc = document('present')
    const operation = { op: 'set_source' as const, cell_id: id('c0'), source: 'mine' }
    expect(() => doc.apply([{ ...operation, expect_source_hash: sourceHash('old') }])).toThrow(
      expect.objectContaining({
        code: 'conflict',
        detail: { cell_id: 'c0', source: 'present', source_hash: sourceHash('present') },
      }),
    )
    apply(doc, { ...operation, expect_source_hash: sourceHash('present') })
    expect(doc.cell(id('c0'))?.source).toBe('mine')
  })

  it('that change nothing are no change', () => {
    const doc = document('same')
    expect(doc.apply([{ op: 'set_source', cell_id: id('c0'), source: 'same' }]).change).toBeNull()
    expect(doc.apply([{ op: 'set_cell_metadata', cell_id: id('c0'), metadata: {} }]).change).toBeNull()
    expect(doc.apply([{ op: 'move_cell', cell_id: id('c0'), after_cell_id: null }]).change).toBeNull()
  })

  it('that replace a whole source leave the words of one who types in it', () => {
    const doc = document('def f():\n    return 1\n\nprint(f())\n')
    const other = editor(doc)
    sourceOf(other, 0).insert(8, '  # typed here')
    const typed = news(other, doc)
    apply(doc, {
      op: 'set_source',
      cell_id: id('c0'),
      source: 'def f():\n    return 2\n\nprint(f())\n# end\n',
    })
    must(doc.applyUpdate(typed))
    expect(doc.cell(id('c0'))?.source).toBe('def f():  # typed here\n    return 2\n\nprint(f())\n# end\n')
  })

  it('that change a type leave the words of one who types in it', () => {
    const doc = document('text')
    const other = editor(doc)
    sourceOf(other, 0).insert(4, ' typed')
    const typed = news(other, doc)
    apply(doc, { op: 'set_cell_type', cell_id: id('c0'), cell_type: 'markdown' })
    must(doc.applyUpdate(typed))
    expect(doc.cell(id('c0'))).toMatchObject({ cell_type: 'markdown', source: 'text typed' })
  })

  it('keep notebook metadata that did not change', () => {
    const doc = document()
    const mirror = new Mirror(doc)
    mirror.take(must(doc.setMetadata({ kernelspec: { name: 'python3' }, title: 'T' })))
    expect(mirror.metadata).toEqual({ kernelspec: { name: 'python3' }, title: 'T' })
    expect(doc.setMetadata({ kernelspec: { name: 'python3' }, title: 'T' })).toBeNull()
  })

  it('turn half a surrogate pair into a character that every peer can have', () => {
    const doc = document('x')
    apply(doc, { op: 'set_source', cell_id: id('c0'), source: 'a\ud83d' })
    expect(doc.cell(id('c0'))?.source).toBe('a\ufffd')
    expect(sourceOf(editor(doc), 0).toString()).toBe('a\ufffd')
  })
})

describe('updates of a Yjs peer', () => {
  it('are told in the same terms', () => {
    const doc = document('a', 'b')
    const mirror = new Mirror(doc)
    const other = editor(doc)
    other.transact(() => {
      const cell = new Y.Map<unknown>()
      cell.set('id', 'new')
      cell.set('cell_type', 'markdown')
      cell.set('source', new Y.Text('😀'))
      cell.set('metadata', new Y.Map())
      cell.set('attachments', { 'a.png': {} })
      cellsOf(other).delete(0)
      cellsOf(other).insert(1, [cell])
      sourceOf(other, 0).insert(1, 'B')
      ;(cellsOf(other).get(0).get('metadata') as Y.Map<unknown>).set('k', { deep: [1] })
      ;(other.getMap('meta').get('metadata') as Y.Map<unknown>).set('title', 't')
    })
    mirror.take(must(doc.applyUpdate(news(other, doc))))
    expect(mirror.cells).toEqual(seen(doc))
    expect(mirror.metadata).toEqual(doc.metadata)
    expect(doc.cell(id('new'))?.attachments).toEqual({ 'a.png': {} })
  })

  it('with nothing new are no change', () => {
    const doc = document('a')
    expect(doc.applyUpdate(doc.updateSince())).toBeNull()
    expect(doc.applyUpdate(Uint8Array.of(0, 0))).toBeNull()
  })

  it('that only touch what is not shown are kept and tell nothing', () => {
    const doc = document('a')
    const other = editor(doc)
    cellsOf(other).get(0).set('execution_state', 'running')
    const change = must(doc.applyUpdate(news(other, doc)))
    expect(change).toMatchObject({ delta: [], changes: [] })
  })

  const breaking: [string, (doc: Y.Doc) => void, string][] = [
    [
      'puts a text among the cells',
      (d) => (cellsOf(d) as unknown as Y.Array<string>).push(['x']),
      'cells[2]',
    ],
    ['makes a cell without id', (d) => cellsOf(d).push([new Y.Map()]), 'cells[2].id'],
    ['takes a source away', (d) => cellsOf(d).get(1).delete('source'), 'cells[1].source'],
    ['makes a source a plain text', (d) => cellsOf(d).get(1).set('source', 'x'), 'cells[1].source'],
    ['puts an object into a source', (d) => sourceOf(d, 0).insertEmbed(0, { image: 'x' }), 'cells[0].source'],
    ['makes a type a number', (d) => cellsOf(d).get(0).set('cell_type', 4), 'cells[0].cell_type'],
    ['takes metadata away', (d) => cellsOf(d).get(0).delete('metadata'), 'cells[0].metadata'],
    [
      'fills outputs',
      (d) => (cellsOf(d).get(0).get('outputs') as Y.Array<unknown>).push([{}]),
      'cells[0].outputs',
    ],
    ['takes the notebook metadata away', (d) => d.getMap('meta').delete('metadata'), 'meta.metadata'],
    ['makes the format a text', (d) => d.getMap('meta').set('nbformat', 'four'), 'meta.nbformat'],
  ]
  it.each(breaking)('that %s are refused and leave the document as it was', (_, breakIt, at) => {
    const doc = document('one', 'two')
    apply(doc, { op: 'set_source', cell_id: id('c1'), source: 'edited' })
    const before = doc.updateSince()
    const other = editor(doc)
    other.transact(() => {
      sourceOf(other, 0).insert(0, 'also this')
      breakIt(other)
    })
    expect(() => doc.applyUpdate(news(other, doc))).toThrow(
      expect.objectContaining({ code: 'invalid_argument', detail: expect.objectContaining({ at }) }),
    )
    expect(doc.updateSince()).toEqual(before)
    expect(seen(doc).map((cell) => cell.source)).toEqual(['one', 'edited'])
    // It goes on as if nothing had been.
    const mirror = new Mirror(doc)
    const honest = editor(doc)
    sourceOf(honest, 1).insert(6, '!')
    mirror.take(must(doc.applyUpdate(news(honest, doc))))
    expect(mirror.cells).toEqual(seen(doc))
    mirror.take(apply(doc, { op: 'create_cell', source: 'more', cell_type: 'code' }))
    expect(mirror.cells).toEqual(seen(doc))
  })

  it('that rename a cell are refused', () => {
    const doc = document('one')
    const other = editor(doc)
    cellsOf(other).get(0).set('id', 'other')
    expect(() => doc.applyUpdate(news(other, doc))).toThrow('keeps its id')
    expect(doc.cellIds()).toEqual(['c0'])
  })

  it('that are no updates are refused', () => {
    const doc = document('one')
    for (const junk of [
      Uint8Array.of(),
      Uint8Array.of(1, 2, 3),
      Uint8Array.of(255, 255, 255, 255, 255, 255, 255, 255),
    ])
      expect(() => doc.applyUpdate(junk)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
    expect(seen(doc)).toHaveLength(1)
  })

  it('that build on one that never came are refused, and taken with it', () => {
    const doc = document('')
    const other = editor(doc)
    const vector = Y.encodeStateVector(other)
    sourceOf(other, 0).insert(0, 'a')
    const between = Y.encodeStateVector(other)
    sourceOf(other, 0).insert(1, 'b')
    expect(() => doc.applyUpdate(Y.encodeStateAsUpdate(other, between))).toThrow(
      expect.objectContaining({ code: 'sync_failed' }),
    )
    expect(doc.cell(id('c0'))?.source).toBe('')
    must(doc.applyUpdate(Y.encodeStateAsUpdate(other, vector)))
    expect(doc.cell(id('c0'))?.source).toBe('ab')
  })

  it('two editors that move one cell at once leave one of it', () => {
    const doc = document('a', 'b', 'c')
    const move = (other: Y.Doc, to: number): void =>
      other.transact(() => {
        const cell = new Y.Map<unknown>()
        for (const [key, value] of Object.entries(cellsOf(other).get(0).toJSON()))
          cell.set(
            key,
            key === 'source'
              ? new Y.Text('a')
              : key === 'metadata'
                ? new Y.Map()
                : key === 'outputs'
                  ? new Y.Array()
                  : value,
          )
        cellsOf(other).delete(0)
        cellsOf(other).insert(to, [cell])
      })
    const [one, two] = [editor(doc), editor(doc)]
    const mirror = new Mirror(doc)
    move(one, 1)
    move(two, 2)
    const [first, second] = [news(one, doc), news(two, doc)]
    mirror.take(must(doc.applyUpdate(first)))
    mirror.take(must(doc.applyUpdate(second)))
    expect([...doc.cellIds()].sort()).toEqual(['c0', 'c1', 'c2'])
    expect(mirror.cells).toEqual(seen(doc))
    // The editors agree once they have what the document made of it.
    for (const other of [one, two]) {
      Y.applyUpdate(other, doc.updateSince(Y.encodeStateVector(other)))
      expect(cellsOf(other).map((cell) => cell.get('id'))).toEqual(doc.cellIds())
    }
  })

  it('leave no remembered place behind: the next edit goes where it was asked to', () => {
    const doc = document('one', 'two')
    const other = editor(doc)
    const mirror = new Mirror(doc)
    mirror.take(apply(doc, { op: 'create_cell', source: 'x', cell_type: 'code', after_cell_id: id('c0') }))
    cellsOf(other).delete(0)
    mirror.take(must(doc.applyUpdate(news(other, doc))))
    mirror.take(
      apply(doc, { op: 'create_cell', source: 'y', cell_type: 'code', after_cell_id: doc.cellIds()[0] }),
    )
    expect(seen(doc).map((cell) => cell.source)).toEqual(['x', 'y', 'two'])
    expect(mirror.cells).toEqual(seen(doc))
    expect(seen(loadDocument({ snapshot: doc.updateSince(), updates: [] }))).toEqual(seen(doc))
  })

  it('that give a second cell the same id with another text keep both texts', () => {
    const doc = document('a')
    const other = editor(doc)
    const cell = new Y.Map<unknown>()
    cell.set('id', 'c0')
    cell.set('cell_type', 'raw')
    cell.set('source', new Y.Text('another'))
    cell.set('metadata', new Y.Map())
    cellsOf(other).insert(0, [cell])
    const mirror = new Mirror(doc)
    mirror.take(must(doc.applyUpdate(news(other, doc))))
    expect(seen(doc).map((c) => c.source)).toEqual(['another', 'a'])
    expect(new Set(doc.cellIds()).size).toBe(2)
    expect(doc.cell(id('c0'))?.source).toBe('a')
    expect(mirror.cells).toEqual(seen(doc))
  })
})

describe('loading', () => {
  it('gives the same document from a snapshot and the updates behind it', () => {
    const doc = document('a', 'b')
    const snapshot = doc.updateSince()
    const updates = [
      apply(doc, { op: 'set_source', cell_id: id('c0'), source: 'A' }).update,
      apply(doc, { op: 'create_cell', source: 'new', cell_type: 'code' }).update,
    ]
    const loaded = loadDocument({ snapshot, updates })
    expect(seen(loaded)).toEqual(seen(doc))
    expect(loaded.incomplete).toBe(false)
    expect(loaded.nbformat).toEqual({ major: 4, minor: 5 })
    expect(seen(loadDocument({ snapshot: null, updates: [snapshot, ...updates] }))).toEqual(seen(doc))
  })

  it('without an update that is lost tells that it is incomplete', () => {
    const doc = document('a')
    const snapshot = doc.updateSince()
    const other = editor(doc)
    const updates: Uint8Array[] = []
    other.on('update', (update: Uint8Array) => updates.push(update))
    sourceOf(other, 0).insert(1, 'b')
    sourceOf(other, 0).insert(2, 'c')
    expect(loadDocument({ snapshot, updates: updates.slice(1) }).incomplete).toBe(true)
    expect(loadDocument({ snapshot, updates }).incomplete).toBe(false)
  })

  it('of what is no notebook fails as storage_failed', () => {
    expect(() => loadDocument({ snapshot: Uint8Array.of(9, 9, 9), updates: [] })).toThrow(
      expect.objectContaining({ code: 'storage_failed' }),
    )
    expect(() => loadDocument({ snapshot: null, updates: [] })).toThrow(
      expect.objectContaining({ code: 'storage_failed' }),
    )
  })
})

describe('whatever happens', () => {
  const word = fc.constantFrom('', 'a', 'b\nc', '😀', 'x😁y\nz', '\n\n')
  const step = fc.oneof(
    fc.record({ who: fc.constant('create' as const), at: fc.nat(9), word }),
    fc.record({ who: fc.constant('set' as const), at: fc.nat(9), word }),
    fc.record({ who: fc.constant('delete' as const), at: fc.nat(9), word }),
    fc.record({ who: fc.constant('move' as const), at: fc.nat(9), to: fc.nat(9), word }),
    fc.record({ who: fc.constant('type' as const), at: fc.nat(9), word }),
    fc.record({ who: fc.constant('editor types' as const), at: fc.nat(9), word }),
    fc.record({ who: fc.constant('editor deletes' as const), at: fc.nat(9), word }),
    fc.record({ who: fc.constant('sync' as const), at: fc.nat(9), word }),
  )

  it('a mirror of the told changes, a Yjs peer and the journal all have the same document', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const doc = document('one', 'two')
        const mirror = new Mirror(doc)
        const journal: Uint8Array[] = [doc.updateSince()]
        const other = editor(doc)
        const take = (change: DocumentChange | null): void => {
          if (change === null) return
          journal.push(change.update)
          mirror.take(change)
        }
        for (const s of steps) {
          const ids = doc.cellIds()
          const cell_id = ids[s.at % Math.max(1, ids.length)]
          const theirs = cellsOf(other).length
          switch (s.who) {
            case 'create':
              take(
                doc.apply([
                  { op: 'create_cell', source: s.word, cell_type: 'code', after_cell_id: cell_id ?? null },
                ]).change,
              )
              break
            case 'set':
              if (cell_id) take(doc.apply([{ op: 'set_source', cell_id, source: s.word }]).change)
              break
            case 'delete':
              if (cell_id) take(doc.apply([{ op: 'delete_cell', cell_id }]).change)
              break
            case 'type':
              if (cell_id) take(doc.apply([{ op: 'set_cell_type', cell_id, cell_type: 'markdown' }]).change)
              break
            case 'move': {
              const after = ids[s.to % Math.max(1, ids.length)]
              if (cell_id && after !== cell_id)
                take(doc.apply([{ op: 'move_cell', cell_id, after_cell_id: after ?? null }]).change)
              break
            }
            case 'editor types':
              if (theirs > 0) sourceOf(other, s.at % theirs).insert(0, s.word)
              break
            case 'editor deletes':
              if (theirs > 0) cellsOf(other).delete(s.at % theirs)
              break
            case 'sync':
              take(doc.applyUpdate(news(other, doc)))
              Y.applyUpdate(other, doc.updateSince(Y.encodeStateVector(other)))
              expect(
                cellsOf(other)
                  .toJSON()
                  .map((c) => c.source),
              ).toEqual(seen(doc).map((c) => c.source))
              break
          }
          expect(mirror.cells).toEqual(seen(doc))
        }
        const loaded = loadDocument({ snapshot: null, updates: journal })
        expect(seen(loaded)).toEqual(seen(doc))
        expect(loaded.incomplete).toBe(false)
        expect(doc.cellIds().map((cellId) => doc.cell(cellId)?.source_hash)).toEqual(
          seen(doc).map((cell) => sourceHash(cell.source)),
        )
      }),
      { numRuns: 150 },
    )
  })
})

describe('a large notebook', () => {
  const seed = {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: {},
    cells: Array.from({ length: 333 }, (_, i) => ({
      cell_id: id(`c${i}`),
      cell_type: 'code',
      source: `x = ${i}`,
      metadata: {},
    })),
  }

  it('made in slices is the same, and can be taken back to', async () => {
    const sliced = await loadDocumentInSlices(foundingUpdate(seed).slices)
    expect(seen(sliced)).toEqual(seen(createDocument(seed)))
    expect(() => sliced.applyUpdate(Uint8Array.of(1, 2, 3))).toThrow()
    const other = editor(sliced)
    cellsOf(other).get(0).delete('source')
    expect(() => sliced.applyUpdate(news(other, sliced))).toThrow()
    expect(seen(sliced)).toEqual(seen(createDocument(seed)))
  })

  it('edited very often is still taken back to', () => {
    const doc = document('0')
    for (let i = 1; i <= 1200; i++) apply(doc, { op: 'set_source', cell_id: id('c0'), source: `${i}` })
    const other = editor(doc)
    cellsOf(other).get(0).delete('source')
    expect(() => doc.applyUpdate(news(other, doc))).toThrow()
    expect(doc.cell(id('c0'))?.source).toBe('1200')
  })
})

describe('at rest', () => {
  it('shows and takes the same as before, and is one history with what editors hold', () => {
    const doc = document('one', 'two')
    apply(doc, { op: 'set_source', cell_id: id('c0'), source: 'one and more' })
    const peer = editor(doc)
    const before = { cells: doc.cells(0, 9), metadata: doc.metadata, vector: doc.stateVector() }
    doc.rest()
    doc.rest()
    expect({ cells: doc.cells(0, 9), metadata: doc.metadata, vector: doc.stateVector() }).toEqual(before)
    doc.rest()
    sourceOf(peer, 1).insert(3, '!')
    must(doc.applyUpdate(news(peer, doc)))
    doc.rest()
    Y.applyUpdate(peer, apply(doc, { op: 'delete_cell', cell_id: id('c0') }).update)
    doc.rest()
    expect(doc.cells(0, 9).map((cell) => cell.source)).toEqual(['two!'])
    expect(cellsOf(peer).toJSON()).toEqual(cellsOf(editor(doc)).toJSON())
  })

  it('a refused update leaves it as it was', () => {
    const doc = document('one')
    doc.rest()
    expect(() => doc.applyUpdate(Uint8Array.of(255, 1, 2))).toThrow()
    expect(doc.cells(0, 9).map((cell) => cell.source)).toEqual(['one'])
  })
})
