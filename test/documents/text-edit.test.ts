import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as Y from 'yjs'
import { diffText } from '../../daemon/documents/text-diff.ts'
import { TextPlaces } from '../../daemon/documents/text-edit.ts'

interface Pair {
  readonly ours: Y.Text
  readonly theirs: Y.Text
  set(source: string): void
  /** The other edits with Yjs's own ways, at a fraction of its text. */
  type(at: number, removed: number, text: string): void
  /** Our text was edited with Yjs's own ways. */
  forget(): void
  /** Each gets what the other has. */
  exchange(): void
}

/** A text that is edited by operation, and the same in another document. */
function pair(): Pair {
  const [one, two] = [new Y.Doc(), new Y.Doc()]
  const [ours, theirs] = [one.getText('source'), two.getText('source')]
  const places = new TextPlaces()
  return {
    ours,
    theirs,
    set(source) {
      one.transact((transaction) => places.edit(transaction, ours, diffText(ours.toString(), source)))
    },
    type(at, removed, text) {
      const index = Math.floor(at * theirs.length)
      theirs.delete(index, Math.min(removed, theirs.length - index))
      theirs.insert(index, text)
    },
    forget: () => places.forget(ours),
    exchange() {
      const fromTwo = Y.encodeStateAsUpdate(two, Y.encodeStateVector(one))
      Y.applyUpdate(two, Y.encodeStateAsUpdate(one, Y.encodeStateVector(two)))
      Y.applyUpdate(one, fromTwo)
      places.forget(ours)
    },
  }
}

const line = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '😀', 'é'), maxLength: 12 })

const step = fc.oneof(
  { weight: 3, arbitrary: line.map((source) => ({ kind: 'set' as const, source })) },
  fc
    .tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(3), fc.constantFrom('x', 'yz', ''))
    .map(([at, removed, text]) => ({ kind: 'type' as const, at, removed, text })),
  fc.constant({ kind: 'exchange' as const }),
)

test('whatever is set and typed, the text is what was set, and both documents become the same', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const both = pair()
      for (const one of steps) {
        if (one.kind === 'type') both.type(one.at, one.removed, one.text)
        else if (one.kind === 'exchange') both.exchange()
        else {
          both.set(one.source)
          expect(both.ours.toString()).toBe(one.source)
          expect(both.ours.length).toBe(one.source.length)
        }
      }
      both.exchange()
      expect(both.theirs.toString()).toBe(both.ours.toString())
    }),
    { numRuns: 500 },
  )
})

test("Yjs's own edits find their place behind ours", () => {
  const both = pair()
  both.set('one two three')
  both.ours.insert(8, 'and ')
  both.forget()
  both.set('one 2 two and three')
  expect(both.ours.toString()).toBe('one 2 two and three')
  both.ours.delete(0, 4)
  both.ours.insert(both.ours.length, '!')
  expect(both.ours.toString()).toBe('2 two and three!')
})

test('a source that is set again and again does not fill its text with what was deleted', () => {
  const { ours, set } = pair()
  set('')
  for (let n = 0; n < 1_000; n++) set(`value = ${n % 10}\nprint(value)`)
  let items = 0
  for (let item = ours._start; item !== null; item = item.right) items++
  expect(items).toBeLessThan(10)
})

test('what another typed beside the place of an edit is kept', () => {
  const both = pair()
  both.set('def f():\n  return 1\n')
  both.exchange()
  both.type(0, 0, '# mine\n')
  both.set('def f():\n  return 2\n')
  both.exchange()
  expect(both.ours.toString()).toBe('# mine\ndef f():\n  return 2\n')
  expect(both.theirs.toString()).toBe(both.ours.toString())
})
