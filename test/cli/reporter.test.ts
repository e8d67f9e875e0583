import { expect, test } from 'vitest'
import { closingLines } from '../reporter.ts'

test('the last line tells the three counts', () => {
  const lines = closingLines({ passed: 3, failed: 0, skipped: 0 }, new Map())
  expect(lines).toBe('3 passed, 0 failed, 0 skipped')
})

test('what was skipped is named with its reason, and how often', () => {
  const reasons = new Map([
    ['no Python kernel', 2],
    ['no Chromium', 1],
  ])
  const lines = closingLines({ passed: 1, failed: 1, skipped: 3 }, reasons).split('\n')
  expect(lines).toEqual([
    'not run here: no Python kernel (2 tests); no Chromium',
    '1 passed, 1 failed, 3 skipped',
  ])
})
