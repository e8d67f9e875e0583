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
