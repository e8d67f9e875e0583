/** Documents that were made apart from the room's are compared with it and never merged. */
import { describe, expect, it } from 'vitest'
import * as Y from 'yjs'
import { createDocument, loadDocument, type NotebookDocument } from '../../daemon/documents/document.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { id } from './mirror.ts'

const seed = (...sources: string[]) => ({
  nbformat: 4,
  nbformat_minor: 5,
  metadata: { kernelspec: { name: 'python3' } },
  cells: sources.map((source, i) => ({
    cell_id: id(`c${i}`),
    cell_type: 'code',
    source,
    metadata: {},
  })),
})
const editorOf = (document: NotebookDocument): Y.Doc => {
  const doc = new Y.Doc()
  Y.applyUpdate(doc, document.updateSince())
  return doc
}
const cellsOf = (doc: Y.Doc): Y.Array<Y.Map<unknown>> => doc.getArray('cells')
const sources = (document: NotebookDocument): string[] => document.cells(0, 100).map(({ source }) => source)

function refused(document: NotebookDocument, update: Uint8Array): RoomdError {
  const before = document.updateSince()
  try {
    document.applyUpdate(update)
  } catch (error) {
    expect(document.updateSince()).toEqual(before)
    if (error instanceof RoomdError) return error
    throw error
  }
  throw new Error('it was merged')
}

describe('a foreign history', () => {
  it('of the same notebook, read again after a lost store, is compared and not merged', () => {
    const lost = createDocument(seed('a = 1', 'b = 2', 'c = 3'))
    const editor = editorOf(lost)
    ;(cellsOf(editor).get(1).get('source') as Y.Text).insert(5, '0')
    cellsOf(editor).delete(2)
    const again = createDocument(seed('a = 1', 'b = 2', 'c = 3'))
    const error = refused(again, Y.encodeStateAsUpdate(editor, again.stateVector()))
    expect(error).toMatchObject({ code: 'sync_failed', retryable: false })
    expect(error.detail).toEqual({
      reason: 'foreign_history',
      same: 1,
      different: ['c1'],
      only_in_room: ['c2'],
      only_in_theirs: [],
    })
    expect(sources(again)).toEqual(['a = 1', 'b = 2', 'c = 3'])
  })

  it('that an editor made before it asked for the room is not merged, and neither is its metadata alone', () => {
    const document = createDocument(seed('a'))
    const editor = new Y.Doc()
    const cell = new Y.Map<unknown>()
    cell.set('id', 'mine')
    cell.set('source', new Y.Text('x'))
    cellsOf(editor).push([cell])
    expect(refused(document, Y.encodeStateAsUpdate(editor)).detail).toMatchObject({
      only_in_theirs: ['mine'],
    })
    const other = new Y.Doc()
    other.getMap('meta').set('metadata', new Y.Map())
    expect(refused(document, Y.encodeStateAsUpdate(other))).toMatchObject({ code: 'sync_failed' })
  })

  it('is told after a restart and after everything was deleted, too', () => {
    const first = createDocument(seed('a', 'b'))
    first.apply([
      { op: 'delete_cell', cell_id: id('c0') },
      { op: 'delete_cell', cell_id: id('c1') },
    ])
    const document = loadDocument({ snapshot: first.updateSince(), updates: [] })
    const foreign = createDocument(seed('a', 'b'))
    expect(refused(document, foreign.updateSince()).detail).toMatchObject({ only_in_theirs: ['c0', 'c1'] })
  })
})

describe('a history that began with the room', () => {
  it('is merged, however long the editor was away and whatever it did', () => {
    const document = createDocument(seed('a', 'b'))
    const editor = editorOf(document)
    document.apply([{ op: 'create_cell', source: 'room', cell_type: 'code', after_cell_id: null }])
    cellsOf(editor).delete(0, 2)
    const cell = new Y.Map<unknown>()
    cell.set('id', 'new')
    cell.set('cell_type', 'markdown')
    cell.set('source', new Y.Text('cells and meta, in a text'))
    cell.set('metadata', new Y.Map())
    cellsOf(editor).push([cell])
    editor.getMap('meta').set('nbformat_minor', 4)
    const metadata = editor.getMap('meta').get('metadata') as Y.Map<unknown>
    metadata.set('metadata', 1)
    metadata.set('nbformat', 1)
    document.applyUpdate(Y.encodeStateAsUpdate(editor, document.stateVector()))
    expect(sources(document)).toEqual(['room', 'cells and meta, in a text'])
  })

  it('is merged when two insert the first cell of an empty notebook at once', () => {
    const document = createDocument(seed())
    const editors = [editorOf(document), editorOf(document)]
    editors.forEach((editor, i) => {
      const cell = new Y.Map<unknown>()
      cell.set('id', `n${i}`)
      cell.set('cell_type', 'code')
      cell.set('source', new Y.Text(`${i}`))
      cell.set('metadata', new Y.Map())
      cellsOf(editor).push([cell])
    })
    for (const editor of editors) document.applyUpdate(Y.encodeStateAsUpdate(editor))
    expect(sources(document).sort()).toEqual(['0', '1'])
  })
})
