/**
 * Real notebooks that lie beside the project where they are available (`ROOMD_TEST_FIXTURES` names another folder), and small ones
 * made here.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = process.env.ROOMD_TEST_FIXTURES
  ? pathToFileURL(`${process.env.ROOMD_TEST_FIXTURES}/`)
  : new URL('../../../shared/fixtures/', import.meta.url)
const folder = new URL('notebooks/', root)
const triples = new URL('merge/', root)

export const haveFixtures = existsSync(folder)
export const noFixtures = 'the real notebooks (../shared/fixtures/notebooks) are not on this machine'

export interface Fixture {
  readonly name: string
  readonly bytes: Uint8Array
}

export function fixtures(): Fixture[] {
  if (!haveFixtures) return []
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ipynb'))
    .sort()
    .map((name) => ({ name, bytes: readFileSync(fileURLToPath(new URL(name, folder))) }))
}

export function fixture(name: string): Uint8Array {
  return readFileSync(fileURLToPath(new URL(name, folder)))
}

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export function text(of: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(of)
}

export interface Triple {
  readonly name: string
  readonly base: Uint8Array
  readonly local: Uint8Array
  readonly remote: Uint8Array
}

/** The merge triples that lie beside the real notebooks. */
export function mergeTriples(): Triple[] {
  if (!existsSync(triples)) return []
  const read = (name: string, side: string): Uint8Array =>
    readFileSync(fileURLToPath(new URL(`${name}--${side}.ipynb`, triples)))
  return readdirSync(triples)
    .flatMap((file) => /^(.*)--base\.ipynb$/.exec(file)?.[1] ?? [])
    .sort()
    .map((name) => ({
      name,
      base: read(name, 'base'),
      local: read(name, 'local'),
      remote: read(name, 'remote'),
    }))
}
