/** Finds our own bundled programs, from a bundle in `dist/` as well as from source in tests. Node only. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type ProgramName =
  | 'roomd'
  | 'daemon'
  | 'store-writer'
  | 'file-worker'
  | 'ledger-worker'
  | 'kernel-host'
  | 'javascript-kernel'

/** Absolute path of a program's bundle. Throws when the project was not built. */
export function programFile(name: ProgramName): string {
  // Node starts a CommonJS script some milliseconds sooner than an ES module.
  const file = name === 'daemon' ? 'daemon.cjs' : `${name}.js`
  const start = dirname(fileURLToPath(import.meta.url))
  for (let folder = start; ; folder = dirname(folder)) {
    for (const candidate of [join(folder, file), join(folder, 'dist', file)]) {
      if (existsSync(candidate)) return candidate
    }
    if (dirname(folder) === folder)
      throw new Error(`${file} is missing beside ${start}: run "npm run build" first`)
  }
}
