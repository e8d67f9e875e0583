/** The table of scenarios names tests that exist: each row has one at least, or says why it does not apply. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const lines = readFileSync(new URL('README.md', import.meta.url), 'utf8').split('\n')

/** Cells of each row of each table, without heads and rules. */
const rows = lines.flatMap((line, i) => {
  const isHead = lines[i + 1]?.startsWith('| -') || lines[i + 1]?.startsWith('|-')
  if (!line.startsWith('|') || isHead || /^\|[\s|-]+$/.test(line)) return []
  const [scenario = '', where = ''] = line.slice(1, -1).split(' | ')
  return [{ scenario: scenario.trim(), where: where.trim() }]
})

/** Titles of the tests in a file, as they are written there; those of a suite that many run are its scenarios. */
function titles(file: string): string[] {
  const source = readFileSync(fileURLToPath(new URL(file, root)), 'utf8')
  return [
    ...source.matchAll(/\b(?:test|scenario)(?:\.each(?:<[^(]*>)?\([^)]*\))?\(\s*(['"`])(.*?)\1,/gs),
  ].map((match) => match[2] ?? '')
}

test('every scenario has a test or a reason why it has none', () => {
  expect(rows.length).toBeGreaterThan(100)
  const open = rows.filter(({ where }) => !/`test\/\S+` “/.test(where) && !/^does not apply: \S+/.test(where))
  expect(open).toEqual([])
})

/** Scenarios of the study of warm rooms, by their letters, and how many there are of each. */
const numbered = {
  C: 10,
  WS: 13,
  PI: 8,
  ST: 2,
  SU: 14,
  CD: 21,
  SB: 10,
  SR: 38,
  ID: 42,
  MP: 16,
  SW: 13,
  WP: 21,
  N: 14,
}

/** `ID10, ID11` and `SU5 to SU13` at the beginning of a row, one by one. */
function ids(scenario: string): string[] {
  const begun = /^((?:[A-Z]{1,2}\d+(?:, | to )?)+)/.exec(scenario)?.[1] ?? ''
  return begun.split(', ').flatMap((part) => {
    const [first, last = first] = part.trim().split(' to ')
    const letters = /^[A-Z]*/.exec(first ?? '')?.[0] ?? ''
    const [from, to] = [first, last].map((id) => Number(id?.slice(letters.length)))
    return Array.from({ length: (to ?? 0) - (from ?? 0) + 1 }, (_, n) => `${letters}${(from ?? 0) + n}`)
  })
}

test('every scenario of the study of warm rooms has its row', () => {
  const named = new Set(rows.flatMap(({ scenario }) => ids(scenario)))
  const wanted = Object.entries(numbered).flatMap(([letters, count]) =>
    Array.from({ length: count }, (_, n) => `${letters}${n + 1}`),
  )
  expect(wanted.filter((id) => !named.has(id))).toEqual([])
})

test('every test that the table names exists', () => {
  const missing = rows.flatMap(({ scenario, where }) =>
    [...where.matchAll(/`(test\/\S+)`((?: “[^”]+”,?)+)/g)].flatMap(([, file = '', quoted = '']) => {
      if (!existsSync(fileURLToPath(new URL(file, root)))) return [`${scenario}: there is no ${file}`]
      const known = titles(file)
      return [...quoted.matchAll(/“([^”]+)”/g)].flatMap(([, title = '']) => {
        // “beginning …” stands for a title that goes on.
        const begins = title.endsWith(' …') ? title.slice(0, -2) : null
        const found = known.some((one) => (begins === null ? one === title : one.startsWith(begins)))
        return found ? [] : [`${scenario}: ${file} has no test “${title}”`]
      })
    }),
  )
  expect(missing).toEqual([])
})
