import { expect, test } from 'vitest'
import { sourceDiff } from '../../client/mcp/results/diff.ts'
import { findText, onlyMatch, replaced } from '../../client/mcp/tools/matching.ts'
import { compile, findMatches } from '../../client/mcp/tools/regex.ts'

const signal = new AbortController().signal

function place(source: string, wanted: Parameters<typeof findText>[1]) {
  return onlyMatch('c', source, findText(source, wanted), { kind: 'text', wanted })
}

test('one match is found', () => {
  expect(place('a = 1\nb = 2', { match: 'b = 2' })).toEqual({ index: 6, length: 5 })
})

test('several matches are refused with where they are', () => {
  expect(() => place('x\ny x', { match: 'x' })).toThrow(/2 times.*line 1.*line 2.*context_before/)
  expect(() => place('aaa', { match: 'aa' })).toThrow(/2 times/)
})

test('context tells which one is meant, with white space between or without', () => {
  const source = 'def f():\n    return 1\ndef g():\n    return 1\n'
  expect(place(source, { match: 'return 1', context_before: 'def g():' }).index).toBe(
    source.lastIndexOf('return'),
  )
  expect(place(source, { match: 'return 1', context_after: 'def g' }).index).toBe(source.indexOf('return'))
})

test('a text that is not there is refused with what comes near', () => {
  expect(() => place('a  =  1', { match: 'a = 1' })).toThrow(/other white space.*line 1/)
  expect(() => place('\nABC', { match: 'abc' })).toThrow(/letter case.*line 2/)
  expect(() => place('abc', { match: 'b', context_before: 'x' })).toThrow(/context_before/)
  expect(() => place('abc', { match: 'zzz' })).toThrow(/does not occur/)
})

test('replacing is literal', () => {
  expect(replaced('a$b', { index: 1, length: 1 }, '$&')).toBe('a$&b')
})

test('patterns are multiline, with look-around', async () => {
  const found = await findMatches('^(?<!#)b(?= =)', 'a = b\nb = 1', signal)
  expect(found).toEqual([{ index: 6, length: 1 }])
})

test('habits of other languages are understood', () => {
  expect(compile('(?i)abc')).toEqual({ pattern: 'abc', flags: 'gmui' })
  expect(compile('(?P<n>a)').pattern).toBe('(?<n>a)')
  expect(new RegExp(compile('\\Aa').pattern, 'm').test('b\na')).toBe(false)
  expect(compile('\\-').flags).toBe('gm')
  expect(() => compile('(')).toThrow(/regular expression/)
})

test('a pattern that does not come to an end is given up', async () => {
  await expect(findMatches('^(a+)+$', `${'a'.repeat(40)}b`, signal)).rejects.toThrow(/come to an end/)
})

test('a diff shows what changed with two lines around it', () => {
  const before = ['1', '2', '3', '4', '5', '6', '7'].join('\n')
  expect(sourceDiff(before, before.replace('4', 'four'))).toBe(
    ['@@ -2,5 +2,5 @@', ' 2', ' 3', '-4', '+four', ' 5', ' 6'].join('\n'),
  )
  expect(sourceDiff('a', 'a')).toBe('')
})
