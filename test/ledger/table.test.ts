/** The table of scenarios names tests that exist. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const rows = readFileSync(new URL('README.md', import.meta.url), 'utf8')
  .split('\n')
  .flatMap((line) => {
    const [, scenario, where] = /^\| (C\d+) \| (.*) \|$/.exec(line) ?? []
    return scenario === undefined || where === undefined ? [] : [{ scenario, where }]
  })

function titles(file: string): string[] {
  const source = readFileSync(fileURLToPath(new URL(file, root)), 'utf8')
  return [...source.matchAll(/\btest\(\s*(['"`])(.*?)\1,/gs)].map((match) => match[2] ?? '')
}

test('every scenario has a test or a reason why it has none', () => {
  expect(rows).toHaveLength(70)
  const open = rows.filter(({ where }) => !/`test\/\S+` “/.test(where) && !/^does not apply: \S+/.test(where))
  expect(open).toEqual([])
})

test('every test that the table names exists', () => {
  const missing = rows.flatMap(({ scenario, where }) =>
    [...where.matchAll(/`(test\/\S+)`((?: “[^”]+”,?)+)/g)].flatMap(([, file = '', quoted = '']) =>
      [...quoted.matchAll(/“([^”]+) …”/g)].flatMap(([, begin = '']) =>
        titles(file).some((title) => title.startsWith(begin))
          ? []
          : [`${scenario}: ${file} has no test “${begin} …”`],
      ),
    ),
  )
  expect(missing).toEqual([])
})
