import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { wellFormed } from '../../daemon/documents/layout.ts'
import { diffText } from '../../daemon/documents/text-diff.ts'
import type { TextDelta } from '../../protocol/events.ts'

function applied(before: string, delta: TextDelta): string {
  let at = 0
  let after = ''
  for (const step of delta) {
    if ('retain' in step) {
      after += before.slice(at, at + step.retain)
      at += step.retain
    } else if ('delete' in step) at += step.delete
    else after += step.insert
  }
  return after + before.slice(at)
}

/** Every cut of the delta lies between whole characters of the old text, and every insert is whole. */
function partsNoCharacter(before: string, delta: TextDelta): boolean {
  let at = 0
  for (const step of delta) {
    if ('retain' in step) at += step.retain
    else if ('delete' in step) at += step.delete
    else if (wellFormed(step.insert) !== step.insert) return false
    if (wellFormed(before.slice(0, at)) !== before.slice(0, at)) return false
  }
  return true
}

const character = fc.constantFrom('a', 'b', '\n', '\n', '😀', '😁', '🏳️‍🌈', 'é', '')
const sometext = fc.array(character, { maxLength: 60 }).map((all) => all.join(''))

describe('the difference of two texts', () => {
  it('turns the one into the other and never parts a character', () => {
    fc.assert(
      fc.property(sometext, sometext, (before, after) => {
        const delta = diffText(before, after)
        expect(applied(before, delta)).toBe(after)
        expect(partsNoCharacter(before, delta)).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })

  it('keeps both halves of emoji that share a half', () => {
    expect(diffText('x😀y', 'x😁y')).toEqual([{ retain: 1 }, { insert: '😁' }, { delete: 2 }])
  })

  it('leaves lines alone that did not change between two that did', () => {
    const before = 'one\ntwo\nthree\nfour\nfive\n'
    const delta = diffText(before, 'ONE\ntwo\nthree\nfour\nFIVE\n')
    expect(delta).toEqual([
      { insert: 'ONE' },
      { delete: 3 },
      { retain: 16 },
      { insert: 'FIVE' },
      { delete: 4 },
    ])
  })

  it('is empty for equal texts', () => {
    expect(diffText('same', 'same')).toEqual([])
  })

  it('replaces as a whole what differs in very many lines', () => {
    const lines = (word: string): string => Array.from({ length: 900 }, (_, i) => `${word} ${i}\n`).join('')
    const delta = diffText(`${lines('old')}end`, `${lines('new')}end`)
    expect(applied(`${lines('old')}end`, delta)).toBe(`${lines('new')}end`)
  })
})
