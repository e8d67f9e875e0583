import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cleanLabel, MAX_LABEL } from '../../daemon/server/label.ts'

describe('labels', () => {
  test('ordinary names stay as they are', () => {
    for (const label of ['Claude Code', 'VS Code – März', '日本語 ノート', 'naïve café', 'Zed 🚀']) {
      expect(cleanLabel(label)).toBe(label)
    }
  })

  test('control characters and escape sequences lose their power', () => {
    expect(cleanLabel('\u001b[31mred\u001b[0m\u0007')).toBe('[31mred[0m')
    expect(cleanLabel('one\r\ntwo\tthree')).toBe('one two three')
  })

  test('zero-width and bidi characters are removed', () => {
    expect(cleanLabel('ad\u200bmin\u2060\ufeff')).toBe('admin')
    expect(cleanLabel('\u202egnp.exe\u202c\u2066x\u2069')).toBe('gnp.exex')
    expect(cleanLabel('a\u3164b\u115fc\u{e0041}d')).toBe('abcd')
  })

  test('line and paragraph separators become spaces, runs of spaces one', () => {
    expect(cleanLabel('  a\u2028b \u2029 c\u00a0\u3000d ')).toBe('a b c d')
  })

  test('length is clamped by code points, never inside one', () => {
    expect(cleanLabel('x'.repeat(1000))).toBe('x'.repeat(MAX_LABEL))
    expect(cleanLabel('🚀'.repeat(100))).toBe('🚀'.repeat(MAX_LABEL))
  })

  test('stacked marks are cut to three', () => {
    expect([...cleanLabel(`q${'\u0335'.repeat(50)}`)].length).toBe(4)
  })

  test('the first candidate with something visible wins', () => {
    expect(cleanLabel('\u200b \u202e', 'roomd cli')).toBe('roomd cli')
    expect(cleanLabel('', '\n')).toBe('unnamed')
  })

  test('whatever comes in, what comes out is short, visible, well-formed and stable', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (raw) => {
        const label = cleanLabel(raw)
        expect([...label].length).toBeLessThanOrEqual(MAX_LABEL)
        expect(label).not.toBe('')
        expect(label).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u)
        expect(cleanLabel(label)).toBe(label)
      }),
    )
  })
})
