/** Files that need not exist. */
import { readFileSync } from 'node:fs'

/** The text of a file; null if there is none. Throws what else keeps it from being read. */
export function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
