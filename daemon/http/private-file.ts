/** Small files that only their owner may read, refused when others could have read them. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { RoomdError } from '../../protocol/errors.ts'

/** The content; null when there is no such file. Throws `forbidden` when it is not ours alone. */
export function readPrivateFile(path: string): string | null {
  let descriptor: number
  try {
    descriptor = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw refused(path, (error as Error).message)
  }
  try {
    const stats = fstatSync(descriptor)
    if (!stats.isFile()) throw refused(path, 'it is no file')
    if (process.getuid !== undefined) {
      if (stats.uid !== process.getuid()) throw refused(path, `it belongs to another user (uid ${stats.uid})`)
      if (stats.mode & 0o077) {
        throw refused(
          path,
          `others may read it (mode ${(stats.mode & 0o777).toString(8)}), so it is no secret`,
        )
      }
    }
    return readFileSync(descriptor, 'utf8')
  } finally {
    closeSync(descriptor)
  }
}

function refused(path: string, why: string): RoomdError {
  return new RoomdError(
    'forbidden',
    `will not use ${path}: ${why}; remove it and restart the daemon, which makes a new one`,
    {
      cause: { path },
    },
  )
}
