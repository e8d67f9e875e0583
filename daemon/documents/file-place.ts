/** Where a file is, or would be: a link is followed also while what it points to is not there yet. */
import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'

/** As many links one behind the other as Linux follows. */
const MOST_LINKS = 40

/** Canonical path. Rejects with the system's error when its folder is not there. */
export async function placeOf(path: string): Promise<string> {
  let at = path
  for (let links = 0; links < MOST_LINKS; links++) {
    try {
      return await realpath(at)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    at = join(await realpath(dirname(at)), basename(at))
    const to = await readlink(at).catch(() => null) // no link: a new file
    if (to === null) return at
    at = resolve(dirname(at), to)
  }
  return realpath(at) // links in a circle: the system says so
}
