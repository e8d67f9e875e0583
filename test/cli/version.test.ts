import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { VERSION } from '../../protocol/version.ts'

test('the version that programs tell is the version of the package', () => {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(VERSION).toBe(manifest.version)
})
