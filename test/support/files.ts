/** Looking through a folder in which other processes make and remove files meanwhile. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Files anywhere below the folder that hold the bytes. One that goes away while it is looked at holds nothing. */
export function filesHolding(folder: string, bytes: string): string[] {
  const holding: string[] = []
  const visit = (path: string): void => {
    for (const entry of unlessGone(() => readdirSync(path, { withFileTypes: true })) ?? []) {
      const inner = join(path, entry.name)
      if (entry.isDirectory()) visit(inner)
      else if (entry.isFile() && unlessGone(() => readFileSync(inner))?.includes(bytes)) holding.push(inner)
    }
  }
  visit(folder)
  return holding
}

function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}
