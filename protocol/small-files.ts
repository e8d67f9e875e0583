/** Small files: written whole or not at all, and read where they need not exist. */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'

export interface ReplaceOptions {
  /** What the content must outlive once this has returned: this process, or the machine too (it is synced to disk). */
  readonly outlives: 'process' | 'machine'
  /** Permissions; default 0600. */
  readonly mode?: number
}

/**
 * Replaces a file in one step: who reads it sees the old content or the new, never half of it. Throws the system's error with the old
 * content in place and nothing left beside it.
 */
export function replaceFile(
  path: string,
  content: string | Uint8Array,
  { outlives, mode = 0o600 }: ReplaceOptions,
): void {
  const fresh = `${path}.${process.pid}.new`
  try {
    writeFileSync(fresh, content, { mode, flush: outlives === 'machine' })
    renameSync(fresh, path)
  } catch (error) {
    rmSync(fresh, { force: true })
    throw error
  }
}

/** The text of a file; null if there is none. Throws what else keeps it from being read. */
export function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
