import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as Y from 'yjs'
import { createDocument, type DocumentSeed, loadDocumentInSlices } from '../../daemon/documents/document.ts'
import { foundingUpdate, SLICE_BYTES } from '../../daemon/documents/founding-update.ts'
import { defineRoots } from '../../daemon/documents/layout.ts'
import { UpdateSlicer } from '../../daemon/documents/update-slices.ts'
import { id, seen } from './mirror.ts'

function seed(sources: readonly string[]): DocumentSeed {
  return {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: 'python3' }, deep: { list: [1, null, 'x', 1.5, 2 ** 40] } },
    cells: sources.map((source, i) => ({
      cell_id: id(`c${i}`),
      cell_type: i % 3 === 2 ? 'markdown' : 'code',
      source,
      metadata: { tags: [`t${i}`] },
      ...(i % 3 === 2 ? { attachments: { 'a.png': { 'image/png': 'AAAA' } } } : {}),
    })),
  }
}

/** All that a document says, its Yjs items included. */
function bytesOf(doc: Y.Doc): Uint8Array {
  return Y.encodeStateAsUpdate(doc)
}

function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

/** Applies slices and fails when one builds on what is not there. */
function applied(slices: Iterable<Uint8Array>): Y.Doc {
  const doc = new Y.Doc()
  defineRoots(doc)
  for (const slice of slices) {
    Y.applyUpdate(doc, slice)
    expect(doc.store.pendingStructs).toBeNull()
    expect(doc.store.pendingDs).toBeNull()
  }
  return doc
}

const sources = fc.array(
  fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.constant('long '.repeat(2500))),
  {
    maxLength: 8,
  },
)

describe('the update of a new document', () => {
  it('is, byte for byte, what Yjs encodes of the same cells, whole and in slices', () => {
    fc.assert(
      fc.property(sources, (texts) => {
        const wanted = new Y.Doc()
        Y.applyUpdate(wanted, createDocument(seed(texts)).updateSince())
        const client = [...wanted.store.clients.keys()][0]
        const { slices, whole } = foundingUpdate(seed(texts), client)
        expect(same(bytesOf(applied(slices)), bytesOf(wanted))).toBe(true)
        expect(same(bytesOf(applied([whole])), bytesOf(wanted))).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  it('of a large notebook is many slices, none much longer than it must be', () => {
    const { slices } = foundingUpdate(seed(Array.from({ length: 400 }, (_, i) => `${i} `.repeat(200))))
    expect(slices.length).toBeGreaterThan(5)
    for (const slice of slices) expect(slice.length).toBeLessThan(SLICE_BYTES + 4096)
  })
})

describe('slices of what the store has', () => {
  /** Several editors that type, delete and exchange what they have, in any order. */
  interface Step {
    readonly editor: number
    readonly other: number
    readonly cell: number
    readonly at: number
    readonly kind: number
  }
  const steps: fc.Arbitrary<Step[]> = fc.array(
    fc.record({ editor: fc.nat(2), other: fc.nat(2), cell: fc.nat(20), at: fc.nat(200), kind: fc.nat(4) }),
    { maxLength: 60 },
  )

  function history(
    texts: readonly string[],
    todo: readonly Step[],
  ): { start: Uint8Array; doc: Y.Doc; tail: Uint8Array[] } {
    const start = createDocument(seed(texts)).updateSince()
    const editors = [0, 1, 2].map(() => {
      const doc = new Y.Doc()
      defineRoots(doc)
      Y.applyUpdate(doc, start)
      return doc
    })
    const [first] = editors
    if (!first) throw new Error('no editor')
    const tail: Uint8Array[] = []
    first.on('update', (update: Uint8Array) => tail.push(update))
    for (const { editor, other, cell, at, kind } of todo) {
      const doc = editors[editor]
      const from = editors[other]
      if (!doc || !from) continue
      const cells: Y.Array<Y.Map<unknown>> = doc.getArray('cells')
      const target = cells.length > 0 ? cells.get(cell % cells.length) : null
      const text = target?.get('source') as Y.Text | undefined
      if (kind === 0) Y.applyUpdate(doc, Y.encodeStateAsUpdate(from, Y.encodeStateVector(doc)))
      else if (kind === 1 && text) text.insert(at % (text.length + 1), `edit ${at}`)
      else if (kind === 2 && text && text.length > 0) text.delete(at % text.length, 1)
      else if (kind === 3 && target) cells.delete(cell % cells.length)
      else if (kind === 4) cells.insert(cell % (cells.length + 1), [new Y.Map([['id', `n${at}`]])])
    }
    for (const doc of editors) Y.applyUpdate(first, Y.encodeStateAsUpdate(doc))
    return { start, doc: first, tail }
  }

  it('make the same document, and each has all that it builds on', () => {
    fc.assert(
      fc.property(sources, steps, (texts, todo) => {
        const { start, doc, tail } = history(texts, todo)
        const whole = new UpdateSlicer()
        const once = applied(whole.slices(bytesOf(doc)))
        expect(once.toJSON()).toEqual(doc.toJSON())
        expect(Y.encodeStateVector(once)).toEqual(Y.encodeStateVector(doc))
        const slicer = new UpdateSlicer()
        const behind =
          tail.length > 0
            ? [...slicer.slices(start), ...slicer.slices(Y.mergeUpdates(tail))]
            : [...slicer.slices(start)]
        const again = applied(behind)
        expect(again.toJSON()).toEqual(doc.toJSON())
      }),
      { numRuns: 60 },
    )
  })

  it('keep what builds on something that is lost waiting, as the whole update does', () => {
    const { doc } = history(['a', 'b'], [])
    const cell: Y.Array<Y.Map<unknown>> = doc.getArray('cells')
    const text = cell.get(0).get('source') as Y.Text
    text.insert(0, 'lost ')
    const lost = Y.encodeStateVector(doc)
    text.insert(0, 'kept ')
    const kept = Y.encodeStateAsUpdate(doc, lost)
    const loaded = new Y.Doc()
    const slicer = new UpdateSlicer()
    const start = createDocument(seed(['a', 'b'])).updateSince()
    for (const slice of [...slicer.slices(start), ...slicer.slices(kept)]) Y.applyUpdate(loaded, slice)
    expect(loaded.store.pendingStructs).not.toBeNull()
  })

  it('load as a document that shows the same', async () => {
    const made = createDocument(seed(['a = 1', '', '# title', 'b']))
    made.apply([{ op: 'delete_cell', cell_id: id('c1') }])
    const loaded = await loadDocumentInSlices([...new UpdateSlicer().slices(made.updateSince())])
    expect(seen(loaded)).toEqual(seen(made))
    expect(loaded.incomplete).toBe(false)
  })
})
