/** Real notebooks that lie beside the project where they are available, and small ones made here. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = new URL('../../../shared/fixtures/notebooks/', import.meta.url)

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
