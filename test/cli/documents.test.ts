import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)

test.each(['README.md', 'ARCHITECTURE.md'])('files and folders that %s names exist', (document) => {
  const text = readFileSync(new URL(document, root), 'utf8')
  const named = [...text.matchAll(/`((?:protocol|daemon|client|examples|test|scripts)\/[\w./-]*)`/g)]
  const linked = [...text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)]
  const paths = [...named, ...linked].map((match) => match[1] ?? '').filter((path) => !path.includes('NAME'))
  expect(paths.length).toBeGreaterThan(5)
  expect(paths.filter((path) => !existsSync(new URL(path, root)))).toEqual([])
})

test('the setting-up part of the README gives the two commands, each in a line of its own', () => {
  const lines = readFileSync(new URL('README.md', root), 'utf8').split('\n')
  expect(lines).toContain('npm ci && npm run demo')
  expect(lines).toContain('npm test')
})
